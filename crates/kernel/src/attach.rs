//! Attaching programs where packets pass. An attachment ends when its [`Attachment`] is dropped and
//! when the process ends, however it ends.

use crate::errno::Errno;
use crate::error::KernelError;
use crate::load::LoadedProgram;
use crate::map::Map;
use crate::sys::{attach, os};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How an XDP program is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// By the driver, before there is an `sk_buff`.
    Native,
    /// By the stack, on an `sk_buff`.
    Generic,
}

/// A way past a device, for tcx.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Coming in.
    Ingress,
    /// Going out.
    Egress,
}

/// What programs of control groups see besides packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketHook {
    /// IPv4 sockets that are connected.
    Connect4,
    /// IPv6 sockets that are connected.
    Connect6,
    /// Options that are asked for.
    Getsockopt,
    /// Options that are set.
    Setsockopt,
    /// What happens to TCP connections.
    SockOps,
}

/// A program in place; dropping it takes the program away.
#[derive(Debug)]
pub struct Attachment {
    _link: OwnedFd,
}

const CGROUP_INET_INGRESS: u32 = 0;
const CGROUP_INET_EGRESS: u32 = 1;
const CGROUP_SOCK_OPS: u32 = 3;
const CGROUP_INET4_CONNECT: u32 = 10;
const CGROUP_INET6_CONNECT: u32 = 11;
const CGROUP_GETSOCKOPT: u32 = 21;
const CGROUP_SETSOCKOPT: u32 = 22;
const PERF_EVENT: u32 = 41;
const XDP: u32 = 37;
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;
const STREAM_VERDICT: u32 = 5;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Attaches an XDP program to a device of this thread's network namespace.
pub fn xdp(program: &LoadedProgram, device: u32, mode: XdpMode) -> Result<Attachment, KernelError> {
    let flags = match mode {
        XdpMode::Native => XDP_FLAGS_DRV_MODE,
        XdpMode::Generic => XDP_FLAGS_SKB_MODE,
    };
    let link = attach::link_device(program.as_fd(), device, XDP, flags);
    link.map(|link| Attachment { _link: link }).map_err(|e| failed(program, "XDP", e))
}

/// Attaches a tc program to a device of this thread's network namespace by tcx (since Linux 6.6).
pub fn tcx(program: &LoadedProgram, device: u32, direction: Direction) -> Result<Attachment, KernelError> {
    let attach_type = match direction {
        Direction::Ingress => TCX_INGRESS,
        Direction::Egress => TCX_EGRESS,
    };
    let link = attach::link_device(program.as_fd(), device, attach_type, 0);
    link.map(|link| Attachment { _link: link }).map_err(|e| failed(program, "tcx", e))
}

/// Attaches a program to what the processes of a control group send or receive. The group is an open folder of the
/// second version's hierarchy.
pub fn cgroup(program: &LoadedProgram, group: BorrowedFd, direction: Direction) -> Result<Attachment, KernelError> {
    let attach_type = match direction {
        Direction::Ingress => CGROUP_INET_INGRESS,
        Direction::Egress => CGROUP_INET_EGRESS,
    };
    // The kernel takes the group where it takes a device of others.
    let link = attach::link_device(program.as_fd(), group.as_raw_fd() as u32, attach_type, 0);
    link.map(|link| Attachment { _link: link }).map_err(|e| failed(program, "a control group", e))
}

/// Attaches a program to the sockets of the processes of a control group, an open folder as for [`cgroup`].
pub fn cgroup_sockets(program: &LoadedProgram, group: BorrowedFd, hook: SocketHook) -> Result<Attachment, KernelError> {
    let attach_type = match hook {
        SocketHook::Connect4 => CGROUP_INET4_CONNECT,
        SocketHook::Connect6 => CGROUP_INET6_CONNECT,
        SocketHook::Getsockopt => CGROUP_GETSOCKOPT,
        SocketHook::Setsockopt => CGROUP_SETSOCKOPT,
        SocketHook::SockOps => CGROUP_SOCK_OPS,
    };
    let link = attach::link_device(program.as_fd(), group.as_raw_fd() as u32, attach_type, 0);
    link.map(|link| Attachment { _link: link }).map_err(|e| failed(program, "a control group", e))
}

/// Has a perf_event program run so often a second on each processor that is there, when that does anything.
pub fn clocks(program: &LoadedProgram, frequency_hz: u64) -> Result<Vec<Attachment>, KernelError> {
    let processors = 0..os::possible_cpus().unwrap_or(1) as u32;
    let one = |processor| {
        // The link keeps the event.
        let event = attach::open_clock(processor, frequency_hz)?;
        attach::link_device(program.as_fd(), event.as_raw_fd() as u32, PERF_EVENT, 0)
    };
    let links = processors.map(one).filter(|link| !matches!(link, Err(Errno::ENODEV)));
    let attached = links.map(|link| link.map(|link| Attachment { _link: link }));
    attached.collect::<Result<_, _>>().map_err(|e| failed(program, "the processors' clocks", e))
}

/// Attaches an sk_skb program as the verdict on what the sockets of a map receive. It stays as long as
/// the map lives.
pub fn verdict(program: &LoadedProgram, sockets: &Map) -> Result<(), KernelError> {
    attach::attach_to_map(program.as_fd(), sockets.as_fd(), STREAM_VERDICT).map_err(|e| failed(program, "a map", e))
}

/// Puts a socket into a map of sockets.
pub fn insert_socket(sockets: &Map, key: u32, socket: BorrowedFd) -> Result<(), KernelError> {
    let mut value = vec![0; sockets.def().value_size as usize];
    let fd = (socket.as_raw_fd() as u64).to_ne_bytes();
    let length = value.len().min(fd.len());
    value[..length].copy_from_slice(&fd[..length]);
    sockets.update(&key.to_ne_bytes(), &value)
}

/// Attaches a socket filter, for as long as the socket lives.
pub fn socket_filter(program: &LoadedProgram, socket: BorrowedFd) -> Result<(), KernelError> {
    attach::attach_socket_filter(socket, program.as_fd()).map_err(|e| failed(program, "a socket", e))
}

/// Attaches a `tp_btf` program to the tracepoint it names.
pub fn tracepoint(program: &LoadedProgram) -> Result<Attachment, KernelError> {
    let link = attach::open_tracepoint(program.as_fd());
    link.map(|link| Attachment { _link: link }).map_err(|e| failed(program, "a tracepoint", e))
}

/// Counts runs and run times of all programs for as long as the result lives, at the price of two
/// clock readings for each run.
pub fn run_statistics() -> Result<Attachment, KernelError> {
    let held = attach::enable_statistics();
    held.map(|link| Attachment { _link: link }).map_err(|e| KernelError::new("count the runs of programs", e))
}

fn failed(program: &LoadedProgram, to: &str, errno: Errno) -> KernelError {
    KernelError::new(format!("attach program {} to {to}", program.name), errno)
}
