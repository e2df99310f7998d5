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
    pub const QUEUE: MapType = MapType(22);
    pub const STACK: MapType = MapType(23);
    pub const SK_STORAGE: MapType = MapType(24);
    pub const DEVMAP_HASH: MapType = MapType(25);
    pub const RINGBUF: MapType = MapType(27);

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
