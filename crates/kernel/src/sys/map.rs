//! Maps: creation and access, by element or in batches.

use super::info::{MapInfo, map_info};
use super::{Command, Result, address, address_mut, attr, bpf, bpf_fd, descriptor, object_name, os};
use crate::errno::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Arguments of [`map_create`]. Sizes in bytes, types and flags by their kernel numbers.
#[derive(Clone, Copy)]
pub struct MapCreate<'a> {
    /// `enum bpf_map_type`.
    pub map_type: u32,
    /// Key size.
    pub key_size: u32,
    /// Value size.
    pub value_size: u32,
    /// Most elements, or bytes of a ring buffer.
    pub max_entries: u32,
    /// `BPF_F_*` of map creation.
    pub flags: u32,
    /// NUMA node, with `BPF_F_NUMA_NODE`.
    pub numa_node: u32,
    /// Name, see [`super::object_name`].
    pub name: &'a str,
    /// Model of the maps inside, for maps of maps.
    pub inner: Option<BorrowedFd<'a>>,
    /// Type information with the type numbers of key and value in it.
    pub btf: Option<(BorrowedFd<'a>, u32, u32)>,
    /// Type of the kernel's structure, for struct_ops.
    pub vmlinux_value_type_id: u32,
    /// Extra argument of bloom filters and arenas.
    pub extra: u64,
}

/// Creates a map. Fails with `EINVAL` too when the number of CPUs, which sizes per-CPU values, is unknown.
pub fn map_create(map: &MapCreate) -> Result<MapFd> {
    let (btf, btf_key_type_id, btf_value_type_id) = map.btf.map_or((None, 0, 0), |(fd, k, v)| (Some(fd), k, v));
    let mut attr = attr::MapCreate {
        map_type: map.map_type,
        key_size: map.key_size,
        value_size: map.value_size,
        max_entries: map.max_entries,
        map_flags: map.flags,
        inner_map_fd: descriptor(map.inner),
        numa_node: map.numa_node,
        map_name: object_name(map.name),
        btf_fd: descriptor(btf),
        btf_key_type_id,
        btf_value_type_id,
        btf_vmlinux_value_type_id: map.vmlinux_value_type_id,
        map_extra: map.extra,
        ..Default::default()
    };
    // SAFETY: the block holds no pointers.
    let fd = unsafe { bpf_fd(Command::MapCreate, &mut attr) }?;
    MapFd::new(fd)
}

/// A map's descriptor together with the sizes the kernel copies on access.
#[derive(Debug)]
pub struct MapFd {
    fd: OwnedFd,
    info: MapInfo,
    key_bytes: usize,
    value_bytes: usize,
}

impl MapFd {
    /// Asks the kernel for the sizes, so that they cannot be wrong.
    fn new(fd: OwnedFd) -> Result<MapFd> {
        let info = map_info(fd.as_fd())?;
        let value_bytes = value_bytes(&info)?;
        Ok(MapFd { fd, info, key_bytes: info.key_size as usize, value_bytes })
    }

    /// What the kernel says of the map.
    pub fn info(&self) -> &MapInfo {
        &self.info
    }

    /// Bytes of a key.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes of a value as user space sees it: for per-CPU maps the values of all possible CPUs,
    /// each padded to eight bytes.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    fn check(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let fits = key.len() == self.key_bytes && value.is_none_or(|v| v.len() == self.value_bytes);
        if fits { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn element(&self, key: u64, value: u64, flags: u64) -> attr::MapElement {
        attr::MapElement { map_fd: self.fd.as_raw_fd() as u32, key, value, flags, ..Default::default() }
    }

    /// `BPF_MAP_LOOKUP_ELEM`: copies the value of `key` into `value`.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> Result<()> {
        self.check(key, Some(value))?;
        let mut attr = self.element(address(key), address_mut(value), 0);
        // SAFETY: `check` made both lengths the ones the kernel uses for this map.
        unsafe { bpf(Command::MapLookup, &mut attr) }.map(drop)
    }

    /// `BPF_MAP_UPDATE_ELEM`; `flags` are `BPF_ANY` (0), `BPF_NOEXIST` (1) or `BPF_EXIST` (2).
    pub fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<()> {
        self.check(key, Some(value))?;
        let mut attr = self.element(address(key), address(value), flags);
        // SAFETY: `check` made both lengths the ones the kernel uses; it only reads.
        unsafe { bpf(Command::MapUpdate, &mut attr) }.map(drop)
    }

    /// `BPF_MAP_DELETE_ELEM`.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.check(key, None)?;
        let mut attr = self.element(address(key), 0, 0);
        // SAFETY: `check` made the length the one the kernel uses; it only reads.
        unsafe { bpf(Command::MapDelete, &mut attr) }.map(drop)
    }

    /// `BPF_MAP_GET_NEXT_KEY`: the key after `key`, or the first. `ENOENT` at the end.
    pub fn next_key(&self, key: Option<&[u8]>, next: &mut [u8]) -> Result<()> {
        self.check(key.unwrap_or(next), None)?;
        self.check(next, None)?;
        let mut attr = self.element(key.map_or(0, address), address_mut(next), 0);
        // SAFETY: `check` made both lengths the ones the kernel uses.
        unsafe { bpf(Command::MapNextKey, &mut attr) }.map(drop)
    }

    /// `BPF_MAP_FREEZE`: user space cannot change it any more.
    pub fn freeze(&self) -> Result<()> {
        let mut attr = self.element(0, 0, 0);
        // SAFETY: the block holds no pointers.
        unsafe { bpf(Command::MapFreeze, &mut attr) }.map(drop)
    }

    /// Bytes a position inside a batch of lookups takes.
    pub fn position_bytes(&self) -> usize {
        self.key_bytes.max(8)
    }

    /// `BPF_MAP_LOOKUP_BATCH`: fills whole elements into `keys` and `values`, from the start or from
    /// `position`, which is updated. Returns how many elements, and whether those were the last.
    /// `ENOSPC` when not even one bucket of a hash map fits.
    pub fn lookup_batch(
        &self,
        from_start: bool,
        position: &mut [u8],
        keys: &mut [u8],
        values: &mut [u8],
    ) -> Result<(usize, bool)> {
        if position.len() != self.position_bytes() {
            return Err(Errno::EINVAL);
        }
        let at = address_mut(position);
        let mut attr = self.batch(keys, values)?;
        attr.in_batch = if from_start { 0 } else { at };
        attr.out_batch = at;
        // SAFETY: `batch` made room for `count` elements of this map in both buffers, which are
        // borrowed for writing; `position` is at least a key or a bucket number long. The kernel
        // has read the old position before it writes the new one.
        match unsafe { bpf(Command::MapLookupBatch, &mut attr) } {
            Ok(_) => Ok((attr.count as usize, false)),
            Err(Errno::ENOENT) => Ok((attr.count as usize, true)),
            Err(e) => Err(e),
        }
    }

    /// `BPF_MAP_UPDATE_BATCH`: puts in all the elements. On an error some may be in.
    pub fn update_batch(&self, keys: &[u8], values: &[u8]) -> Result<()> {
        let mut attr = self.batch(keys, values)?;
        // SAFETY: `batch` checked that both buffers hold `count` elements; the kernel only reads them.
        unsafe { bpf(Command::MapUpdateBatch, &mut attr) }.map(drop)
    }

    /// `BPF_MAP_DELETE_BATCH`: removes all the keys. On an error some may be gone.
    pub fn delete_batch(&self, keys: &[u8]) -> Result<()> {
        if self.key_bytes == 0 || !keys.len().is_multiple_of(self.key_bytes) {
            return Err(Errno::EINVAL);
        }
        let count = u32::try_from(keys.len() / self.key_bytes).map_err(|_| Errno::E2BIG)?;
        let map_fd = self.fd.as_raw_fd() as u32;
        let mut attr = attr::MapBatch { keys: address(keys), count, map_fd, ..Default::default() };
        // SAFETY: `keys` holds `count` keys; the kernel only reads them.
        unsafe { bpf(Command::MapDeleteBatch, &mut attr) }.map(drop)
    }

    fn batch(&self, keys: &[u8], values: &[u8]) -> Result<attr::MapBatch> {
        if self.key_bytes == 0 || self.value_bytes == 0 {
            return Err(Errno::EINVAL);
        }
        let count = keys.len() / self.key_bytes;
        if count * self.key_bytes != keys.len() || count * self.value_bytes != values.len() {
            return Err(Errno::EINVAL);
        }
        Ok(attr::MapBatch {
            keys: address(keys),
            values: address(values),
            count: u32::try_from(count).map_err(|_| Errno::E2BIG)?,
            map_fd: self.fd.as_raw_fd() as u32,
            ..Default::default()
        })
    }
}

impl AsFd for MapFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes of a value on access (kernel `bpf_map_value_size`).
fn value_bytes(info: &MapInfo) -> Result<usize> {
    const PER_CPU: [u32; 4] = [5, 6, 10, 21];
    const DESCRIPTORS: [u32; 6] = [3, 4, 8, 12, 13, 20];
    let size = info.value_size as usize;
    if PER_CPU.contains(&info.map_type) {
        let cpus = os::possible_cpus().ok_or(Errno::EINVAL)?;
        return Ok(size.next_multiple_of(8) * cpus);
    }
    // Maps of descriptors take and give 32-bit numbers, except socket arrays, which may have 64-bit cookies.
    Ok(if DESCRIPTORS.contains(&info.map_type) { size.max(4) } else { size })
}
