//! Servers on UDP sockets: what is compared with programs that answer in the kernel.

use crate::error::LabError;
use crate::generator::now_ns;
use crate::packet::{self, STAMP_BYTES};
use crate::testbed::{Placed, WORK_PRIORITY};
use karakoram_kernel::sys::af_xdp::PacketSocket;
use karakoram_kernel::sys::os::thread_cpu_ns;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a server sleeps before it asks whether it shall end.
const WAKE_UP_MS: u16 = 20;
/// Longest datagram.
const DATAGRAM: usize = 2048;

/// Answers every datagram of a connected socket with itself, on a CPU with a priority, until told to stop;
/// returns how many.
pub fn echo(socket: &UdpSocket, (cpu, priority): (usize, i32), is_over: &AtomicBool) -> Result<u64, LabError> {
    let _placed = Placed::on(cpu, priority)?;
    let mut answered = 0;
    serve(socket, is_over, &mut |bytes| answered += u64::from(socket.send(bytes).is_ok()))?;
    Ok(answered)
}

/// Answers every frame of an AF_XDP socket with itself, turned around, on a CPU, until told to stop.
pub fn echo_frames(mut socket: PacketSocket, cpu: usize, is_over: &AtomicBool) -> Result<(), LabError> {
    let _placed = Placed::on(cpu, WORK_PRIORITY)?;
    let patience = Duration::from_millis(u64::from(WAKE_UP_MS));
    while !is_over.load(Ordering::Relaxed) {
        let served = socket.serve(patience, &mut packet::turn_around);
        served.map_err(|e| LabError::Machine(format!("the AF_XDP server failed: {e}"), String::new()))?;
    }
    Ok(())
}

/// When stamped datagrams arrived: sequence number and time in ns.
pub fn arrivals(socket: &UdpSocket, cpu: usize, is_over: &AtomicBool) -> Result<Vec<(u32, u64)>, LabError> {
    let _placed = Placed::on(cpu, WORK_PRIORITY)?;
    let mut arrived = Vec::new();
    serve(socket, is_over, &mut |bytes| {
        let now = now_ns();
        if bytes.len() >= STAMP_BYTES {
            arrived.push((u32::from_ne_bytes(bytes[8..12].try_into().expect("four bytes")), now));
        }
    })?;
    Ok(arrived)
}

/// Takes datagrams, never blocking in `recv`: what a verdict program lets pass is not in the queue that a
/// blocking one waits for. Nor do such datagrams say where they come from, so that is not asked for.
fn serve(socket: &UdpSocket, is_over: &AtomicBool, take: &mut dyn FnMut(&[u8])) -> Result<(), LabError> {
    let failed = |e: &dyn std::fmt::Display| LabError::Machine(format!("the server failed: {e}"), String::new());
    socket.set_nonblocking(true).map_err(|e| failed(&e))?;
    let mut bytes = [0; DATAGRAM];
    while !is_over.load(Ordering::Relaxed) {
        let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut wanted, PollTimeout::from(WAKE_UP_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(failed(&e)),
        }
        while let Ok(length) = socket.recv(&mut bytes) {
            take(&bytes[..length]);
            if is_over.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(())
}

/// What a counting server got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Processor time it took, in ns.
    pub processor_ns: u64,
}

/// Counts datagrams, until told to stop.
pub fn count(socket: &UdpSocket, cpu: usize, is_over: &AtomicBool) -> Result<Counted, LabError> {
    let _placed = Placed::on(cpu, WORK_PRIORITY)?;
    let mut counted = Counted::default();
    let before = thread_cpu_ns();
    serve(socket, is_over, &mut |bytes| {
        counted.datagrams += 1;
        counted.bytes += bytes.len() as u64;
    })?;
    counted.processor_ns = thread_cpu_ns() - before;
    Ok(counted)
}

/// Reads away what waits, without counting it.
pub fn empty(socket: &UdpSocket) {
    let mut bytes = [0; DATAGRAM];
    if socket.set_nonblocking(true).is_ok() {
        while socket.recv(&mut bytes).is_ok() {}
    }
}
