//! Map definitions.

/// `enum bpf_map_type`, by number; the names of the types the project treats specially.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MapType(pub u32);

#[allow(missing_docs)]
impl MapType {
    pub const HASH: MapType = MapType(1);
    pub const ARRAY: MapType = MapType(2);
    pub const PROG_ARRAY: MapType = MapType(3);
    pub const PERF_EVENT_ARRAY: MapType = MapType(4);
    pub const PERCPU_HASH: MapType = MapType(5);
    pub const PERCPU_ARRAY: MapType = MapType(6);
    pub const STACK_TRACE: MapType = MapType(7);
    pub const CGROUP_ARRAY: MapType = MapType(8);
    pub const LRU_HASH: MapType = MapType(9);
    pub const LRU_PERCPU_HASH: MapType = MapType(10);
    pub const LPM_TRIE: MapType = MapType(11);
    pub const ARRAY_OF_MAPS: MapType = MapType(12);
    pub const HASH_OF_MAPS: MapType = MapType(13);
    pub const DEVMAP: MapType = MapType(14);
    pub const SOCKMAP: MapType = MapType(15);
    pub const CPUMAP: MapType = MapType(16);
    pub const XSKMAP: MapType = MapType(17);
    pub const SOCKHASH: MapType = MapType(18);
    pub const CGROUP_STORAGE: MapType = MapType(19);
    pub const REUSEPORT_SOCKARRAY: MapType = MapType(20);
    pub const PERCPU_CGROUP_STORAGE: MapType = MapType(21);
    pub const QUEUE: MapType = MapType(22);
    pub const STACK: MapType = MapType(23);
    pub const SK_STORAGE: MapType = MapType(24);
    pub const DEVMAP_HASH: MapType = MapType(25);
    pub const STRUCT_OPS: MapType = MapType(26);
    pub const RINGBUF: MapType = MapType(27);
    pub const INODE_STORAGE: MapType = MapType(28);
    pub const TASK_STORAGE: MapType = MapType(29);
    pub const CGRP_STORAGE: MapType = MapType(32);
    pub const ARENA: MapType = MapType(33);

    /// What programs can do with maps of this type; `None` where that is not described, and calls that
    /// get such a map are taken to change all shared memory.
    pub fn behaviour(self) -> Option<Behaviour> {
        Some(match self {
            MapType::ARRAY | MapType::PERCPU_ARRAY => Behaviour::Array,
            MapType::HASH | MapType::PERCPU_HASH | MapType::DEVMAP_HASH | MapType::SOCKHASH => Behaviour::Hash,
            MapType::LRU_HASH | MapType::LRU_PERCPU_HASH => Behaviour::Lru,
            MapType::DEVMAP | MapType::CPUMAP | MapType::XSKMAP | MapType::SOCKMAP | MapType::CGROUP_ARRAY => {
                Behaviour::Slots
            }
            MapType::LPM_TRIE => Behaviour::Trie,
            MapType::QUEUE => Behaviour::Queue,
            MapType::STACK => Behaviour::Stack,
            MapType::PROG_ARRAY => Behaviour::Programs,
            MapType::ARRAY_OF_MAPS | MapType::HASH_OF_MAPS => Behaviour::Maps,
            MapType::RINGBUF | MapType::PERF_EVENT_ARRAY => Behaviour::Output,
            MapType::CGROUP_STORAGE
            | MapType::PERCPU_CGROUP_STORAGE
            | MapType::SK_STORAGE
            | MapType::INODE_STORAGE
            | MapType::TASK_STORAGE
            | MapType::CGRP_STORAGE => Behaviour::Storage,
            MapType::STACK_TRACE | MapType::REUSEPORT_SOCKARRAY | MapType::STRUCT_OPS => Behaviour::Closed,
            _ => return None,
        })
    }

    /// Kernel name in lower case, or `type N`.
    pub fn name(self) -> String {
        const NAMES: [&str; 35] = [
            "unspec",
            "hash",
            "array",
            "prog_array",
            "perf_event_array",
            "percpu_hash",
            "percpu_array",
            "stack_trace",
            "cgroup_array",
            "lru_hash",
            "lru_percpu_hash",
            "lpm_trie",
            "array_of_maps",
            "hash_of_maps",
            "devmap",
            "sockmap",
            "cpumap",
            "xskmap",
            "sockhash",
            "cgroup_storage",
            "reuseport_sockarray",
            "percpu_cgroup_storage",
            "queue",
            "stack",
            "sk_storage",
            "devmap_hash",
            "struct_ops",
            "ringbuf",
            "inode_storage",
            "task_storage",
            "bloom_filter",
            "user_ringbuf",
            "cgrp_storage",
            "arena",
            "insn_array",
        ];
        NAMES.get(self.0 as usize).map_or_else(|| format!("type {}", self.0), |n| n.to_string())
    }

    /// Whether each CPU has its own values.
    pub fn is_per_cpu(self) -> bool {
        matches!(self, MapType::PERCPU_HASH | MapType::PERCPU_ARRAY | MapType::LRU_PERCPU_HASH)
    }
}

/// What programs can do with a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behaviour {
    /// Values by number, all there from the beginning.
    Array,
    /// Values by key; full is full.
    Hash,
    /// Values by key; when it is full, the least recently used goes.
    Lru,
    /// Values by number, each there only when somebody put it there.
    Slots,
    /// Values by the longest prefix of the key.
    Trie,
    /// First in, first out.
    Queue,
    /// Last in, first out.
    Stack,
    /// Targets of tail calls.
    Programs,
    /// Other maps.
    Maps,
    /// Records for user space.
    Output,
    /// Values that belong to kernel objects: sockets, tasks, inodes, cgroups.
    Storage,
    /// Only named in calls; programs do not get at its elements.
    Closed,
}

/// A map as a program sees it. Sizes in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapDef {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: MapType,
    /// Key size.
    pub key_size: u32,
    /// Value size.
    pub value_size: u32,
    /// Most elements.
    pub max_entries: u32,
    /// `BPF_F_*` flags of map creation.
    pub flags: u32,
    /// File descriptor that instructions name it by, for programs without symbols.
    pub fd: Option<i32>,
    /// Contents that the loader puts into the only element, for global data.
    pub initial: Option<Vec<u8>>,
    /// Whether neither program nor user space may change it after loading (`.rodata`).
    pub frozen: bool,
    /// Definition of the maps inside, for maps of maps.
    pub inner: Option<Box<MapDef>>,
}
