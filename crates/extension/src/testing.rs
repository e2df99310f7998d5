//! Running programs on the host: for unit tests, fuzzing and Miri.

use crate::hook::{Cgroup, CgroupVerdict, Tc, TcVerdict, Xdp, XdpVerdict, run_cgroup, run_tc, run_xdp};
use crate::host::native::{ARGUMENTS, MEMORY, PACKET, TIME};
use crate::sample::{Sample, run_perf_event};
use crate::socket::{self, Connect4, Connect6, Connection, SocketOption, TcpEvent};
use crate::tracepoint::{self, Address, Tracepoint};

/// Runs an XDP program on a packet, which is left as the program leaves it. A panic comes through.
pub fn xdp(program: fn(&mut Xdp) -> XdpVerdict, packet: &mut Vec<u8>) -> XdpVerdict {
    let verdict = on(packet, || run_xdp(program));
    let all = [XdpVerdict::Aborted, XdpVerdict::Drop, XdpVerdict::Pass, XdpVerdict::Tx, XdpVerdict::Redirect];
    all.into_iter().find(|v| *v as i32 == verdict).expect("a verdict of this program")
}

/// Runs a tc program on a packet, which is left as the program leaves it. A panic comes through.
pub fn tc(program: fn(&mut Tc) -> TcVerdict, packet: &mut Vec<u8>) -> TcVerdict {
    let verdict = on(packet, || run_tc(program));
    let all = [TcVerdict::Pass, TcVerdict::Drop, TcVerdict::Redirect];
    all.into_iter().find(|v| *v as i32 == verdict).expect("a verdict of this program")
}

/// Runs a program of a control group on a packet. A panic comes through.
pub fn cgroup(program: fn(&mut Cgroup) -> CgroupVerdict, packet: &[u8]) -> CgroupVerdict {
    match on(&mut packet.to_vec(), || run_cgroup(program)) {
        0 => CgroupVerdict::Drop,
        _ => CgroupVerdict::Pass,
    }
}

/// Runs a program at a tracepoint: `testing::tracepoint(|event| program(event, 1, 2))`. A panic comes through.
pub fn tracepoint<R>(program: impl FnOnce(&mut Tracepoint) -> R) -> R {
    tracepoint::run(program)
}

/// What hooks give a program of their context.
fn with(words: &[u64]) {
    let mut arguments = [0; 12];
    arguments[..words.len()].copy_from_slice(words);
    ARGUMENTS.set(arguments);
}

fn group_verdict(number: i32) -> CgroupVerdict {
    if number == 0 { CgroupVerdict::Drop } else { CgroupVerdict::Pass }
}

fn words(address: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from(u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
    address.chunks_exact(4).map(word).collect()
}

/// Runs a program of a control group on a socket that is connected to an address, whose protocol has that number.
/// Returns the verdict, and where the socket is connected to then. A panic comes through.
pub fn connect4(
    program: fn(&mut Connect4) -> CgroupVerdict,
    (address, port): ([u8; 4], u16),
    protocol: u8,
) -> (CgroupVerdict, ([u8; 4], u16)) {
    with(&[words(&address), vec![u64::from(port.to_be()), u64::from(protocol)]].concat());
    let mut end = ([0; 4], 0);
    let verdict = group_verdict(socket::run_connect4(program));
    socket::look4(|socket| end = (socket.address(), socket.port()));
    (verdict, end)
}

/// The same for IPv6.
pub fn connect6(
    program: fn(&mut Connect6) -> CgroupVerdict,
    (address, port): ([u8; 16], u16),
    protocol: u8,
) -> (CgroupVerdict, ([u8; 16], u16)) {
    with(&[words(&address), vec![u64::from(port.to_be()), u64::from(protocol)]].concat());
    let mut end = ([0; 16], 0);
    let verdict = group_verdict(socket::run_connect6(program));
    socket::look6(|socket| end = (socket.address(), socket.port()));
    (verdict, end)
}

/// Runs a program of a control group on an option of a socket: its level, name and length.
pub fn socket_option(
    program: fn(&mut SocketOption) -> CgroupVerdict,
    (level, name, length): (i32, i32, i32),
) -> CgroupVerdict {
    with(&[level, name, length].map(|n| u64::from(n as u32)));
    group_verdict(socket::run_socket_option(program))
}

/// Runs a program on what happened to an IPv4 connection, from this side to the other one.
pub fn connection(program: fn(&mut Connection), event: TcpEvent, local: ([u8; 4], u16), remote: ([u8; 4], u16)) {
    const IPV4: u64 = 2;
    let number = match event {
        TcpEvent::Connecting => 3,
        TcpEvent::Connected => 4,
        TcpEvent::Accepted => 5,
        TcpEvent::Other(number) => number,
    };
    let (here, there) = (words(&local.0)[0], words(&remote.0)[0]);
    with(&[u64::from(number), IPV4, there, here, u64::from(u32::from(remote.1).to_be()), u64::from(local.1)]);
    socket::run_connection(program);
}

/// Runs a program on a sample, taken at an instruction's address.
pub fn perf_event(program: fn(&mut Sample), instruction: u64, period: u64) {
    with(&[instruction, period, 0]);
    run_perf_event(program);
}

/// Has [`Tracepoint::read`] find bytes at an address, on this thread from now on.
pub fn set_kernel_memory(at: Address, bytes: &[u8]) {
    MEMORY.with_borrow_mut(|memory| memory.insert(0, (at.0, bytes.to_vec())));
}

/// Sets what [`crate::now`] says on this thread from now on; `None` for the real time.
pub fn set_time(nanoseconds: Option<u64>) {
    TIME.set(nanoseconds);
}

fn on(packet: &mut Vec<u8>, run: impl FnOnce() -> i32) -> i32 {
    /// Takes the packet back also when the program panics.
    struct Back<'a>(&'a mut Vec<u8>);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            *self.0 = PACKET.take();
        }
    }
    PACKET.set(std::mem::take(packet));
    let _back = Back(packet);
    run()
}
