//! Maps in the kernel: creation from their definitions, access by element.

mod contents;
mod events;
mod set;

pub use contents::{Contents, ElementDifference, NotComparable, comparable};
pub use events::EventReader;
pub use set::{MapDetails, MapSet, MapSetOptions};

use crate::btf::{Btf, BtfError};
use crate::errno::Errno;
use crate::error::KernelError;
use crate::sys::{self, MapFd, Mapping, os};
use karakoram_bpf::map::{MapDef, MapType};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// `BPF_F_NO_PREALLOC`.
pub const NO_PREALLOC: u32 = 1 << 0;
/// `BPF_F_NUMA_NODE`.
pub const NUMA_NODE: u32 = 1 << 2;
/// `BPF_F_RDONLY_PROG`: programs cannot write to it, and the verifier knows its contents.
pub const READ_ONLY_PROGRAM: u32 = 1 << 7;
/// `BPF_F_MMAPABLE`.
pub const MAPPABLE: u32 = 1 << 10;

/// Where the first arena whose definition names no address is in user space; the next ones follow, 4 GiB
/// apart, so that the low 32 bits of an address are the offset. Programs need an address to be loaded,
/// even if nobody maps the arena.
const FIRST_ARENA: u64 = 1 << 44;
/// Arenas that have got an address. Those of other processes are in other address spaces.
static ARENAS: AtomicU64 = AtomicU64::new(0);

/// A place for one more arena.
fn next_arena() -> u64 {
    FIRST_ARENA + (ARENAS.fetch_add(1, Ordering::Relaxed) << 32)
}

/// What a definition does not say. The default is right for maps without types of their own.
#[derive(Clone, Copy, Default)]
pub struct MapOptions<'a> {
    /// Types of key and value: numbers in the type information of the object. Dropped when the
    /// kernel refuses them, unless the kind of map cannot do without.
    pub types: Option<(&'a Btf, u32, u32)>,
    /// Structure of the kernel, for struct_ops.
    pub vmlinux_value_type_id: u32,
    /// Number of hash functions of a bloom filter, address of an arena.
    pub extra: u64,
    /// NUMA node its memory shall be on.
    pub numa_node: Option<u32>,
    /// Also map the memory of an array into this process, which makes dumping and restoring fast.
    /// Programs cannot tell. Ignored where it is not possible.
    pub mapped: bool,
}

/// A map, removed from the kernel when dropped and no program uses it any more.
#[derive(Debug)]
pub struct Map {
    def: MapDef,
    fd: MapFd,
    inner: Option<Box<Map>>,
    mapping: Option<Mapping>,
    extra: u64,
}

/// Local storage and the like: no elements of their own, types required.
fn is_storage(kind: MapType) -> bool {
    const INODE: MapType = MapType(28);
    const TASK: MapType = MapType(29);
    const CGROUP: MapType = MapType(32);
    [MapType::SK_STORAGE, INODE, TASK, CGROUP].contains(&kind)
}

/// Local storage of control groups, which has no size.
const CGROUP_STORAGES: [MapType; 2] = [MapType(19), MapType(21)];

/// The definition with what loaders fill in before they ask the kernel (libbpf `bpf_object__create_maps`).
fn completed(def: &MapDef) -> MapDef {
    const USER_RINGBUF: MapType = MapType(31);
    let mut def = def.clone();
    let cpus = os::possible_cpus().map_or(1, |n| n as u32);
    match def.kind {
        MapType::LPM_TRIE => def.flags |= NO_PREALLOC,
        MapType::PERF_EVENT_ARRAY | MapType::PROG_ARRAY | MapType::ARRAY_OF_MAPS | MapType::HASH_OF_MAPS => {
            if def.key_size == 0 && def.kind != MapType::HASH_OF_MAPS {
                def.key_size = 4;
            }
            if def.value_size == 0 {
                def.value_size = 4;
            }
        }
        MapType::RINGBUF | USER_RINGBUF => {
            let page = os::page_size() as u32;
            def.max_entries = def.max_entries.max(page).checked_next_power_of_two().unwrap_or(def.max_entries);
        }
        // The kernel takes no more than it has CPUs; tools that own such maps cut them down too.
        MapType::CPUMAP => def.max_entries = def.max_entries.min(cpus),
        kind if is_storage(kind) => {
            def.flags |= NO_PREALLOC;
            def.key_size = 4;
        }
        _ => {}
    }
    // Perf event arrays and others whose size is left to the tool that loads them: one for each CPU.
    if def.max_entries == 0 && !is_storage(def.kind) && !CGROUP_STORAGES.contains(&def.kind) {
        def.max_entries = cpus;
    }
    if def.frozen {
        def.flags |= READ_ONLY_PROGRAM;
    }
    def
}

impl Map {
    /// Creates a map, puts its initial contents in, and freezes it if its definition says so.
    pub fn create(def: &MapDef, mut options: MapOptions) -> Result<Map, KernelError> {
        let def = completed(def);
        if def.kind == MapType::ARENA && options.extra == 0 {
            options.extra = next_arena();
        }
        let inner = match &def.inner {
            Some(inner) => Some(Box::new(Map::create(inner, MapOptions::default())?)),
            None => None,
        };
        let (def, fd) = create_with_types(def, inner.as_deref(), options)?;
        let mut map = Map { def, fd, inner, mapping: None, extra: options.extra };
        if options.mapped && map.def.kind == MapType::ARRAY && map.def.flags & MAPPABLE != 0 && !map.def.frozen {
            map.mapping = Mapping::new(&map.fd, 0, map.flat_bytes(), true).ok();
        }
        map.fill()?;
        Ok(map)
    }

    /// Puts the initial contents of global data in, and freezes.
    fn fill(&self) -> Result<(), KernelError> {
        let doing = || format!("fill map {}", self.def.name);
        if let Some(initial) = &self.def.initial {
            let mut value = initial.clone();
            if value.len() > self.fd.value_bytes() {
                let why = format!("{} bytes of initial contents, {} fit", value.len(), self.fd.value_bytes());
                return Err(KernelError::invalid(doing(), why));
            }
            value.resize(self.fd.value_bytes(), 0);
            self.fd.update(&vec![0; self.fd.key_bytes()], &value, 0).map_err(|e| KernelError::new(doing(), e))?;
        }
        if self.def.frozen {
            match self.fd.freeze() {
                // Before 5.2 there is no such command, and nothing of ours writes to it either way.
                Ok(()) | Err(Errno::EINVAL) => {}
                Err(e) => return Err(KernelError::new(format!("freeze map {}", self.def.name), e)),
            }
        }
        Ok(())
    }

    /// The definition, with what was filled in for the kernel.
    pub fn def(&self) -> &MapDef {
        &self.def
    }

    /// Number of hash functions of a bloom filter, address of an arena.
    pub fn extra(&self) -> u64 {
        self.extra
    }

    /// Descriptor and sizes.
    pub fn fd(&self) -> &MapFd {
        &self.fd
    }

    /// For maps of maps, the model of the maps inside: an empty map that may be put in.
    pub fn inner(&self) -> Option<&Map> {
        self.inner.as_deref()
    }

    /// The array's memory in this process, when it was asked for and possible.
    pub fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref()
    }

    /// Bytes of all values of an array as they lie in memory: each padded to eight (kernel
    /// `array_map_alloc`).
    pub(crate) fn flat_bytes(&self) -> usize {
        self.stride() * self.def.max_entries as usize
    }

    /// Bytes from one value of an array to the next.
    pub fn stride(&self) -> usize {
        self.fd.value_bytes().next_multiple_of(8)
    }

    /// The value of a key; None when it has none. Value lengths are those of [`MapFd::value_bytes`].
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KernelError> {
        let mut value = vec![0; self.fd.value_bytes()];
        match self.fd.lookup(key, &mut value) {
            Ok(()) => Ok(Some(value)),
            Err(Errno::ENOENT) => Ok(None),
            Err(e) => Err(self.error("look up in", e)),
        }
    }

    /// Sets the value of a key. A single value of a per-CPU map is for all CPUs.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), KernelError> {
        let (all, one) = (self.fd.value_bytes(), self.def.value_size as usize);
        let mut copies = value.to_vec();
        if self.def.kind.is_per_cpu() && value.len() == one {
            copies.resize(one.next_multiple_of(8), 0);
            copies = copies.repeat(all / copies.len().max(1));
        }
        self.fd.update(key, &copies, 0).map_err(|e| self.error("update", e))
    }

    /// Puts a map or program into a map of those. `key` as the map has it.
    pub fn update_fd(&self, key: &[u8], object: BorrowedFd) -> Result<(), KernelError> {
        use std::os::fd::AsRawFd;
        self.update(key, &object.as_raw_fd().to_ne_bytes())
    }

    /// Removes a key; whether it was there.
    pub fn delete(&self, key: &[u8]) -> Result<bool, KernelError> {
        match self.fd.delete(key) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(e) => Err(self.error("delete from", e)),
        }
    }

    pub(crate) fn error(&self, verb: &str, errno: Errno) -> KernelError {
        KernelError::new(format!("{verb} map {} ({})", self.def.name, self.def.kind.name()), errno)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Tries with the types given, then without; storage needs some, so it gets plain ones. Whether the
/// array could be made mappable is in the flags of the definition that comes back.
fn create_with_types(def: MapDef, inner: Option<&Map>, options: MapOptions) -> Result<(MapDef, MapFd), KernelError> {
    if options.mapped && def.kind == MapType::ARRAY && def.flags & MAPPABLE == 0 && !def.frozen {
        let mut mappable = def.clone();
        mappable.flags |= MAPPABLE;
        if let Ok(fd) = create_once(&mappable, inner, &options, options.types) {
            return Ok((mappable, fd));
        }
    }
    let errno = match create_once(&def, inner, &options, options.types) {
        Ok(fd) => return Ok((def, fd)),
        Err(errno) => errno,
    };
    let doing = format!("create map {} ({})", def.name, def.kind.name());
    if errno == Errno::EPERM {
        os::raise_memory_lock_limit();
        if let Ok(fd) = create_once(&def, inner, &options, options.types) {
            return Ok((def, fd));
        }
        return Err(KernelError::new(doing, errno));
    }
    let second = if is_storage(def.kind) {
        let btf = Btf::for_plain_value(def.value_size).map_err(|e| match e {
            BtfError::Kernel(e) => e,
            e => KernelError::invalid(&doing, e.to_string()),
        })?;
        create_once(&def, inner, &options, Some((&btf, 1, 3)))
    } else if options.types.is_some() {
        create_once(&def, inner, &options, None)
    } else {
        Err(errno)
    };
    match second {
        Ok(fd) => Ok((def, fd)),
        Err(_) if errno == Errno::EINVAL => Err(explain_einval(&def, doing)),
        Err(_) => Err(KernelError::new(doing, errno)),
    }
}

fn create_once(
    def: &MapDef,
    inner: Option<&Map>,
    options: &MapOptions,
    types: Option<(&Btf, u32, u32)>,
) -> sys::Result<MapFd> {
    sys::map_create(&sys::MapCreate {
        map_type: def.kind.0,
        key_size: def.key_size,
        value_size: def.value_size,
        max_entries: def.max_entries,
        flags: def.flags | options.numa_node.map_or(0, |_| NUMA_NODE),
        numa_node: options.numa_node.unwrap_or(0),
        name: &def.name,
        inner: inner.map(|m| m.as_fd()),
        btf: types.map(|(btf, key, value)| (btf.as_fd(), key, value)),
        vmlinux_value_type_id: options.vmlinux_value_type_id,
        extra: options.extra,
    })
}

/// `EINVAL` says either that the kernel does not know the kind, or that the numbers are wrong.
fn explain_einval(def: &MapDef, doing: String) -> KernelError {
    const NEWEST_KNOWN: u32 = 33;
    if def.kind.0 > NEWEST_KNOWN {
        return KernelError::NoKernelSupport { doing, errno: Errno::EINVAL };
    }
    let why = format!(
        "the kernel refuses key size {}, value size {}, {} entries, flags {:#x} for this kind of map, or does not know the kind",
        def.key_size, def.value_size, def.max_entries, def.flags
    );
    KernelError::invalid(doing, why)
}
