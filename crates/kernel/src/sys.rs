//! The system calls, as safe functions over slices and owned descriptors. Everything `unsafe` in the
//! project is in this module: bpf(2) here, the memory mapping in `mapping`, the rest in `os`.
//!
//! The rule that makes the functions safe: the kernel is only told of memory that a slice borrowed
//! for the duration of the call owns, with the length of that slice. Where the kernel decides the
//! length itself (map keys and values), [`MapFd`] knows it and refuses slices of another length.

#![allow(unsafe_code)]

mod attr;
mod mapping;
pub mod os;

pub use mapping::Mapping;

use crate::errno::Errno;
use std::ffi::CStr;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// What a wrapper returns.
pub type Result<T> = std::result::Result<T, Errno>;

/// Longest object name the kernel stores, in bytes, without the closing zero.
pub const NAME_MAX: usize = 15;

/// Attempts at a load that a signal interrupted (`EAGAIN`).
const EAGAIN_ATTEMPTS: u32 = 10;

/// Commands, `enum bpf_cmd`.
#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgLoad = 5,
    TestRun = 10,
    ObjectInfo = 15,
    BtfLoad = 18,
    MapFreeze = 22,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    MapDeleteBatch = 27,
}

/// # Safety
/// `attr` must be the member of `union bpf_attr` that belongs to `command`, and every pointer in it
/// must be null or valid for what the kernel reads or writes there.
unsafe fn bpf<A>(command: Command, attr: &mut A) -> Result<i32> {
    // SAFETY: `attr` is a live, exclusively borrowed block of the size given; the caller vouches for its content.
    let n = unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_long, attr as *mut A, size_of::<A>()) };
    if n < 0 { Err(Errno::last()) } else { Ok(n as i32) }
}

/// # Safety
/// As for [`bpf`]; `command` must be one that returns a new descriptor.
unsafe fn bpf_fd<A>(command: Command, attr: &mut A) -> Result<OwnedFd> {
    let mut attempt = 0;
    loop {
        // SAFETY: the caller's promise.
        match unsafe { bpf(command, attr) } {
            Err(Errno::EAGAIN) if attempt < EAGAIN_ATTEMPTS => attempt += 1,
            // SAFETY: the kernel has just made this descriptor and nobody else knows it.
            other => return other.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    }
}

fn address(bytes: &[u8]) -> u64 {
    if bytes.is_empty() { 0 } else { bytes.as_ptr() as u64 }
}

fn address_mut(bytes: &mut [u8]) -> u64 {
    if bytes.is_empty() { 0 } else { bytes.as_mut_ptr() as u64 }
}

fn length(bytes: &[u8]) -> Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| Errno::E2BIG)
}

fn descriptor(fd: Option<BorrowedFd>) -> u32 {
    fd.map_or(0, |fd| fd.as_raw_fd() as u32)
}

/// The name as the kernel takes it: at most [`NAME_MAX`] bytes of letters, digits, `_` and `.`;
/// others become `_`.
pub fn object_name(name: &str) -> [u8; 16] {
    let mut out = [0; 16];
    for (to, from) in out.iter_mut().take(NAME_MAX).zip(name.bytes()) {
        *to = if from.is_ascii_alphanumeric() || from == b'.' { from } else { b'_' };
    }
    out
}

/// Arguments of [`prog_load`]. Types and flags by their kernel numbers.
#[derive(Clone, Copy)]
pub struct ProgLoad<'a> {
    /// `enum bpf_prog_type`.
    pub prog_type: u32,
    /// `enum bpf_attach_type`.
    pub expected_attach_type: u32,
    /// Instructions, eight bytes each, in the byte order of this machine.
    pub insns: &'a [u8],
    /// Licence.
    pub license: &'a CStr,
    /// Name, see [`object_name`].
    pub name: &'a str,
    /// `BPF_F_*` of program load.
    pub flags: u32,
    /// `LINUX_VERSION_CODE`; only kprobes on kernels before 5.0 look at it.
    pub kern_version: u32,
    /// Type information that `func_info` and `line_info` refer to.
    pub btf: Option<BorrowedFd<'a>>,
    /// `struct bpf_func_info` records.
    pub func_info: &'a [u8],
    /// Bytes of one of them.
    pub func_info_rec_size: u32,
    /// `struct bpf_line_info` records.
    pub line_info: &'a [u8],
    /// Bytes of one of them.
    pub line_info_rec_size: u32,
    /// Type of the kernel that the program attaches to (fentry, lsm, struct_ops...).
    pub attach_btf_id: u32,
    /// BTF of the module that type is in, or the program to extend.
    pub attach_fd: Option<BorrowedFd<'a>>,
    /// Descriptors that instructions name by index.
    pub fd_array: &'a [RawFd],
    /// `BPF_LOG_*`; 0 for none.
    pub log_level: u32,
}

/// Loads a program. The verifier's text goes into `log`, closed by a zero byte. Also returns how
/// many bytes the log wanted, 0 when the kernel does not say (before 6.4).
pub fn prog_load(load: &ProgLoad, log: &mut [u8]) -> (Result<OwnedFd>, usize) {
    let mut attr = match prog_load_attr(load) {
        Ok(attr) => attr,
        Err(e) => return (Err(e), 0),
    };
    if load.log_level != 0 {
        attr.log_level = load.log_level;
        attr.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
        attr.log_buf = address_mut(log);
    }
    // SAFETY: all pointers come from slices that live until the call returns; `log` is borrowed for
    // writing. The kernel reads `fd_array` by index and may read past it into our own memory, which
    // copies numbers and fails the load at worst.
    let fd = unsafe { bpf_fd(Command::ProgLoad, &mut attr) };
    (fd, attr.log_true_size as usize)
}

fn prog_load_attr(load: &ProgLoad) -> Result<attr::ProgLoad> {
    let records = |bytes: &[u8], size: u32| -> Result<u32> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let n = length(bytes)?.checked_div(size).ok_or(Errno::EINVAL)?;
        if n as usize * size as usize == bytes.len() { Ok(n) } else { Err(Errno::EINVAL) }
    };
    let func_info_cnt = records(load.func_info, load.func_info_rec_size)?;
    let line_info_cnt = records(load.line_info, load.line_info_rec_size)?;
    Ok(attr::ProgLoad {
        prog_type: load.prog_type,
        insn_cnt: records(load.insns, 8)?,
        insns: address(load.insns),
        license: load.license.as_ptr() as u64,
        kern_version: load.kern_version,
        prog_flags: load.flags,
        prog_name: object_name(load.name),
        expected_attach_type: load.expected_attach_type,
        prog_btf_fd: descriptor(load.btf),
        func_info_rec_size: if func_info_cnt == 0 { 0 } else { load.func_info_rec_size },
        func_info: address(load.func_info),
        func_info_cnt,
        line_info_rec_size: if line_info_cnt == 0 { 0 } else { load.line_info_rec_size },
        line_info: address(load.line_info),
        line_info_cnt,
        attach_btf_id: load.attach_btf_id,
        attach_btf_obj_fd: descriptor(load.attach_fd),
        fd_array: if load.fd_array.is_empty() { 0 } else { load.fd_array.as_ptr() as u64 },
        ..Default::default()
    })
}

/// Loads type information; on failure the reason is in `log`, which may be empty to get none.
pub fn btf_load(btf: &[u8], log: &mut [u8]) -> Result<OwnedFd> {
    let mut attr = attr::BtfLoad {
        btf: address(btf),
        btf_size: length(btf)?,
        btf_log_buf: address_mut(log),
        btf_log_size: length(log)?,
        btf_log_level: !log.is_empty() as u32,
        ..Default::default()
    };
    // SAFETY: both buffers are slices borrowed for the call, with their own lengths.
    unsafe { bpf_fd(Command::BtfLoad, &mut attr) }
}

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
    /// Name, see [`object_name`].
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

/// A run of [`test_run`]. What a program type does not take must be empty or 0.
#[derive(Default)]
pub struct TestRun<'a> {
    /// Packet.
    pub data_in: &'a [u8],
    /// Place for the packet afterwards.
    pub data_out: &'a mut [u8],
    /// Context. Mutable because programs of type syscall get this very buffer copied back.
    pub ctx_in: &'a mut [u8],
    /// Place for the context afterwards.
    pub ctx_out: &'a mut [u8],
    /// Times to run it.
    pub repeat: u32,
    /// `BPF_F_TEST_*`.
    pub flags: u32,
    /// CPU, with `BPF_F_TEST_RUN_ON_CPU`.
    pub cpu: u32,
    /// Frames in flight, with `BPF_F_TEST_XDP_LIVE_FRAMES`.
    pub batch_size: u32,
}

/// What [`test_run`] gives back besides the buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TestRunResult {
    /// Value the program returned.
    pub retval: u32,
    /// Mean of one run.
    pub duration_ns: u32,
    /// Bytes the packet has; more than fit when `truncated`.
    pub data_size_out: usize,
    /// Bytes the context has.
    pub ctx_size_out: usize,
    /// The output did not fit.
    pub truncated: bool,
}

/// `BPF_PROG_TEST_RUN`.
pub fn test_run(program: BorrowedFd, run: &mut TestRun) -> Result<TestRunResult> {
    let mut attr = attr::TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: length(run.data_in)?,
        data_size_out: length(run.data_out)?,
        data_in: address(run.data_in),
        data_out: address_mut(run.data_out),
        repeat: run.repeat,
        ctx_size_in: length(run.ctx_in)?,
        ctx_size_out: length(run.ctx_out)?,
        ctx_in: address_mut(run.ctx_in),
        ctx_out: address_mut(run.ctx_out),
        flags: run.flags,
        cpu: run.cpu,
        batch_size: run.batch_size,
        ..Default::default()
    };
    // SAFETY: the inputs are borrowed, the outputs and `ctx_in` borrowed for writing, with their
    // lengths. An output length of 0 would mean "no limit" to the kernel, but then the pointer is
    // null and it writes nothing.
    let result = unsafe { bpf(Command::TestRun, &mut attr) };
    let truncated = result == Err(Errno::ENOSPC);
    if !truncated {
        result?;
    }
    Ok(TestRunResult {
        retval: attr.retval,
        duration_ns: attr.duration,
        data_size_out: attr.data_size_out as usize,
        ctx_size_out: attr.ctx_size_out as usize,
        truncated,
    })
}

/// `struct bpf_map_info`, the part that is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapInfo {
    /// `enum bpf_map_type`.
    pub map_type: u32,
    /// Number of the map in this kernel.
    pub id: u32,
    /// Key size in bytes.
    pub key_size: u32,
    /// Value size in bytes, of one CPU.
    pub value_size: u32,
    /// Most elements.
    pub max_entries: u32,
    /// Flags of creation.
    pub flags: u32,
}

/// `BPF_OBJ_GET_INFO_BY_FD` of a map.
pub fn map_info(map: BorrowedFd) -> Result<MapInfo> {
    let mut info = attr::MapInfo::default();
    // SAFETY: `MapInfo` holds no pointers.
    unsafe { object_info(map, &mut info) }?;
    Ok(MapInfo {
        map_type: info.map_type,
        id: info.id,
        key_size: info.key_size,
        value_size: info.value_size,
        max_entries: info.max_entries,
        flags: info.map_flags,
    })
}

/// # Safety
/// Every pointer in `info` must be null or valid for as many records as its count field says.
unsafe fn object_info<I>(fd: BorrowedFd, info: &mut I) -> Result<()> {
    let mut attr = attr::ObjectInfo {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: size_of::<I>() as u32,
        info: info as *mut I as u64,
    };
    // SAFETY: `info` is exclusively borrowed and has the length given; the caller vouches for what is inside.
    unsafe { bpf(Command::ObjectInfo, &mut attr) }.map(drop)
}

/// `struct bpf_prog_info`, the part that is used. Lengths in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgInfo {
    /// `enum bpf_prog_type`.
    pub prog_type: u32,
    /// Number of the program in this kernel.
    pub id: u32,
    /// Digest the kernel made of the instructions.
    pub tag: [u8; 8],
    /// Instructions after the kernel's own rewriting.
    pub xlated_len: u32,
    /// Machine code; 0 when the program is interpreted.
    pub jited_len: u32,
    /// Instructions the verifier processed; 0 on kernels before 5.16, which do not say.
    pub verified_insns: u32,
    /// Machine code of all functions one after the other. Empty when not asked for, not compiled or
    /// not permitted (`kernel.kptr_restrict`, CAP_BPF).
    pub jited: Vec<u8>,
    /// Length of the machine code of each function.
    pub function_lengths: Vec<u32>,
    /// Kernel address of each function; zeros when they are hidden.
    pub function_addresses: Vec<u64>,
    /// Instructions after the kernel's own rewriting; empty when not asked for or not permitted.
    pub xlated: Vec<u8>,
    /// Run time and runs counted while `kernel.bpf_stats_enabled` was on, in nanoseconds.
    pub run_time_ns: u64,
    /// Runs counted.
    pub run_count: u64,
}

/// `BPF_OBJ_GET_INFO_BY_FD` of a program; `with_code` also copies machine code and instructions.
pub fn prog_info(program: BorrowedFd, with_code: bool) -> Result<ProgInfo> {
    let mut info = attr::ProgInfo::default();
    // SAFETY: all pointers are null and all counts 0.
    unsafe { object_info(program, &mut info) }?;
    let mut out = ProgInfo {
        prog_type: info.prog_type,
        id: info.id,
        tag: info.tag,
        xlated_len: info.xlated_prog_len,
        jited_len: info.jited_prog_len,
        verified_insns: info.verified_insns,
        run_time_ns: info.run_time_ns,
        run_count: info.run_cnt,
        ..Default::default()
    };
    if with_code {
        prog_code(program, &info, &mut out)?;
    }
    Ok(out)
}

fn prog_code(program: BorrowedFd, sizes: &attr::ProgInfo, out: &mut ProgInfo) -> Result<()> {
    out.jited = vec![0; sizes.jited_prog_len as usize];
    out.xlated = vec![0; sizes.xlated_prog_len as usize];
    out.function_lengths = vec![0; sizes.nr_jited_func_lens as usize];
    out.function_addresses = vec![0; sizes.nr_jited_ksyms as usize];
    let mut info = attr::ProgInfo {
        jited_prog_len: sizes.jited_prog_len,
        jited_prog_insns: address_mut(&mut out.jited),
        xlated_prog_len: sizes.xlated_prog_len,
        xlated_prog_insns: address_mut(&mut out.xlated),
        nr_jited_func_lens: sizes.nr_jited_func_lens,
        jited_func_lens: out.function_lengths.as_mut_ptr() as u64,
        nr_jited_ksyms: sizes.nr_jited_ksyms,
        jited_ksyms: out.function_addresses.as_mut_ptr() as u64,
        ..Default::default()
    };
    // SAFETY: the four buffers were made above with exactly the counts given (bytes, bytes, u32s,
    // u64s), and a loaded program does not change, so the kernel writes no more than that.
    unsafe { object_info(program, &mut info) }?;
    // The kernel nulls the pointer instead of copying when it withholds the code.
    if info.jited_prog_insns == 0 {
        out.jited.clear();
    }
    if info.xlated_prog_insns == 0 {
        out.xlated.clear();
    }
    Ok(())
}
