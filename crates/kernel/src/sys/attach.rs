//! Attaching programs. Every attachment is a descriptor, or hangs on a socket or map: when the process
//! ends, however it ends, the kernel takes it back.

use super::{Command, Result, attr, bpf, bpf_fd};
use crate::errno::Errno;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `BPF_LINK_CREATE` on a network device of this thread's network namespace. The attachment ends when
/// the descriptor is closed.
pub fn link_device(program: BorrowedFd, device: u32, attach_type: u32, flags: u32) -> Result<OwnedFd> {
    let mut attr = attr::LinkCreate {
        prog_fd: program.as_raw_fd() as u32,
        target: device,
        attach_type,
        flags,
        ..Default::default()
    };
    // SAFETY: the block holds no pointers.
    unsafe { bpf_fd(Command::LinkCreate, &mut attr) }
}

/// `BPF_PROG_ATTACH` to a map of sockets, where it stays as long as the map lives.
pub fn attach_to_map(program: BorrowedFd, map: BorrowedFd, attach_type: u32) -> Result<()> {
    let mut attr = attr::ProgAttach {
        target_fd: map.as_raw_fd() as u32,
        attach_bpf_fd: program.as_raw_fd() as u32,
        attach_type,
        ..Default::default()
    };
    // SAFETY: the block holds no pointers.
    unsafe { bpf(Command::ProgAttach, &mut attr) }.map(drop)
}

/// `BPF_RAW_TRACEPOINT_OPEN` for programs that name their tracepoint by BTF (`tp_btf`).
pub fn open_tracepoint(program: BorrowedFd) -> Result<OwnedFd> {
    let mut attr = attr::RawTracepoint { prog_fd: program.as_raw_fd() as u32, ..Default::default() };
    // SAFETY: the name is null, which this kind of program wants.
    unsafe { bpf_fd(Command::RawTracepointOpen, &mut attr) }
}

/// `perf_event_open` on the clock of a processor (`PERF_COUNT_SW_CPU_CLOCK`), whatever runs there.
pub fn open_clock(processor: u32, frequency_hz: u64) -> Result<OwnedFd> {
    let attr = attr::ClockEvent::new(frequency_hz);
    // SAFETY: the block is as long as it says, and holds no pointers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            -1 as libc::pid_t,
            processor as libc::c_int,
            -1 as libc::c_int,
            attr::ClockEvent::CLOSE_ON_EXEC,
        )
    };
    match fd {
        // SAFETY: a new descriptor that nobody else has.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
        _ => Err(Errno::last()),
    }
}

/// `BPF_ENABLE_STATS` for run times: counted as long as the descriptor is open.
pub fn enable_statistics() -> Result<OwnedFd> {
    let mut attr = attr::EnableStats { kind: 0 };
    // SAFETY: the block holds no pointers.
    unsafe { bpf_fd(Command::EnableStats, &mut attr) }
}

/// `SO_ATTACH_BPF`: a socket filter, for as long as the socket lives.
pub fn attach_socket_filter(socket: BorrowedFd, program: BorrowedFd) -> Result<()> {
    let fd: libc::c_int = program.as_raw_fd();
    // SAFETY: the option's value is a live number, its length is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_BPF,
            (&raw const fd).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(Errno::last()) }
}
