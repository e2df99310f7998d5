//! Running programs on the host: for unit tests, fuzzing and Miri.

use crate::hook::{Cgroup, CgroupVerdict, Tc, TcVerdict, Xdp, XdpVerdict, run_cgroup, run_tc, run_xdp};
use crate::host::native::{MEMORY, PACKET, TIME};
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
