//! The system calls, as safe functions over slices and owned descriptors. Everything `unsafe` in the
//! project is in this module: bpf(2) here and in `program`, `map`, `info` and `attach`, shared memory
//! in `mapping`, threads, processes, network devices, packets and AF_XDP sockets under their names, the rest in `os`.
//!
//! The rule that makes the functions safe: the kernel is only told of memory that a slice borrowed
//! for the duration of the call owns, with the length of that slice. Where the kernel decides the
//! length itself (map keys and values), [`MapFd`] knows it and refuses slices of another length.

#![allow(unsafe_code)]

pub mod af_xdp;
pub mod attach;
mod attr;
pub mod device;
mod info;
pub mod kernel_module;
mod map;
mod mapping;
pub mod os;
pub mod packet;
pub mod process;
mod program;
pub mod thread;

pub use info::{MapInfo, ProgInfo, map_info, prog_info};
pub use map::{MapCreate, MapFd, map_create};
pub use mapping::Mapping;
pub use program::{ProgLoad, TestRun, TestRunResult, btf_load, prog_load, test_run};

use crate::errno::Errno;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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
    ProgAttach = 8,
    TestRun = 10,
    ObjectInfo = 15,
    RawTracepointOpen = 17,
    BtfLoad = 18,
    BtfById = 19,
    MapFreeze = 22,
    BtfNextId = 23,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    MapDeleteBatch = 27,
    LinkCreate = 28,
    EnableStats = 32,
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
