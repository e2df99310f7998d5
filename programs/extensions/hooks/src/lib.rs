//! Packet programs that use what only their hook can do. The packet's first byte says how much.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use karakoram_extension::{Counter, Packet, Tc, TcVerdict, Xdp, XdpVerdict, counter, tc, xdp};

counter!(
    /// Bytes that were there at the begin of runs.
    static BYTES
);

/// Runs of whatever program.
static RUNS: Counter = Counter::new();

/// What the first byte says, from -128 on.
fn delta(packet: &Packet) -> i32 {
    RUNS.add(1);
    BYTES.add(packet.length() as u64);
    packet.u8(0).map_or(0, |byte| i32::from(byte) - 128)
}

/// Turns addresses around, and writes the length over the type.
fn turn(packet: &mut Packet) -> bool {
    let mut addresses = [0; 12];
    let length = packet.length() as u16;
    if !packet.copy_to(0, &mut addresses) {
        return false;
    }
    addresses.rotate_left(6);
    packet.copy_from(0, &addresses) && packet.set_be16(12, length)
}

/// Writes to a packet at tc, which others may hold too.
#[tc]
pub fn turn_tc(packet: &mut Tc) -> TcVerdict {
    if turn(packet) { TcVerdict::Pass } else { TcVerdict::Drop }
}

/// Makes a packet at tc longer or shorter, and writes to what is then its last byte.
#[tc]
pub fn tail_tc(packet: &mut Tc) -> TcVerdict {
    let delta = delta(packet);
    if !packet.adjust_tail(delta) {
        return TcVerdict::Drop;
    }
    let last = packet.length() - 1;
    if packet.set_u8(last, 0x55) { TcVerdict::Pass } else { TcVerdict::Drop }
}

/// Sends packets out elsewhere.
#[tc]
pub fn send_tc(packet: &mut Tc) -> TcVerdict {
    match packet.u8(0) {
        Some(0x80..) => packet.redirect(1),
        _ => TcVerdict::Pass,
    }
}

/// Makes a packet at XDP longer or shorter at its end.
#[xdp]
pub fn tail_xdp(packet: &mut Xdp) -> XdpVerdict {
    let delta = delta(packet);
    if !packet.adjust_tail(delta) {
        return XdpVerdict::Drop;
    }
    let last = packet.length() - 1;
    if packet.set_u8(last, 0x55) { XdpVerdict::Tx } else { XdpVerdict::Aborted }
}

/// Makes a packet at XDP longer or shorter at its begin.
#[xdp]
pub fn head_xdp(packet: &mut Xdp) -> XdpVerdict {
    let delta = delta(packet);
    if !packet.adjust_head(delta) {
        return XdpVerdict::Drop;
    }
    if turn(packet) { XdpVerdict::Tx } else { XdpVerdict::Aborted }
}

/// Sends packets out elsewhere.
#[xdp]
pub fn send_xdp(packet: &mut Xdp) -> XdpVerdict {
    match packet.u8(0) {
        Some(0x80..) => packet.redirect(1),
        _ => XdpVerdict::Pass,
    }
}
