//! The frames that the generators send: Ethernet, IPv4, UDP, and a payload that begins with a stamp
//! (`programs/lab/packet.h`).

use crate::testbed::Host;
use etherparse::PacketBuilder;

/// UDP port that the hooks' programs look for.
pub const PORT: u16 = 3030;
/// UDP port they come from, unless they belong to a flow.
pub const SOURCE_PORT: u16 = 3031;
/// UDP port of clients on sockets beside the generator.
pub const CLIENT_PORT: u16 = 3032;
/// Bytes before the payload.
pub const HEADER_BYTES: usize = 14 + 20 + 8;
/// Bytes of the stamp: the intended time of sending in ns (8), the sequence number (4), work (4).
pub const STAMP_BYTES: usize = 16;
/// Shortest frame there is room for: a stamp in it, and as long as Ethernet wants.
pub const SHORTEST: usize = 60;
/// Longest frame with the usual MTU.
pub const LONGEST: usize = 1514;

/// A frame of so many bytes (without check sequence), with an empty stamp and a payload of zeros. The
/// UDP checksum is 0, "not computed", so that programs may change what they like.
pub fn frame(from: Host, to: Host, bytes: usize) -> Vec<u8> {
    datagram(from, to, PORT, &vec![0; bytes.clamp(SHORTEST, LONGEST) - HEADER_BYTES])
}

/// A frame with this payload, to that port, without a UDP checksum.
pub fn datagram(from: Host, to: Host, port: u16, payload: &[u8]) -> Vec<u8> {
    let builder =
        PacketBuilder::ethernet2(from.mac, to.mac).ipv4(from.ip.octets(), to.ip.octets(), 64).udp(SOURCE_PORT, port);
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    builder.write(&mut frame, payload).expect("a vector takes everything, and the payload is short");
    frame[HEADER_BYTES - 2..HEADER_BYTES].fill(0);
    frame
}

/// Makes a UDP frame go back to where it came from; false, and nothing, when it is too short for one. Sums of
/// addresses and ports stay the same, and so do the checksums.
pub fn turn_around(frame: &mut [u8]) -> bool {
    const ADDRESSES: usize = 14 + 12;
    const PORTS: usize = 14 + 20;
    if frame.len() < HEADER_BYTES {
        return false;
    }
    for (start, length) in [(0, 6), (ADDRESSES, 4), (PORTS, 2)] {
        let (one, other) = frame[start..start + 2 * length].split_at_mut(length);
        one.swap_with_slice(other);
    }
    true
}

/// Puts a frame of [`frame`] into a flow: the low half of the number makes the source port, the rest is added to
/// the source address (as `set_flow` of `programs/lab/generator.c`).
pub fn set_flow(frame: &mut [u8], flow: u32) {
    const CHECKSUM: usize = 14 + 10;
    const ADDRESS: usize = 14 + 12;
    const PORT: usize = 14 + 20;
    let (port, add) = (flow as u16, flow >> 16);
    frame[PORT..PORT + 2].copy_from_slice(&port.to_be_bytes());
    let mut word = [0; 4];
    word.copy_from_slice(&frame[ADDRESS..ADDRESS + 4]);
    let (before, after) = (u32::from_be_bytes(word), u32::from_be_bytes(word).wrapping_add(add));
    frame[ADDRESS..ADDRESS + 4].copy_from_slice(&after.to_be_bytes());
    let old = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&updated_checksum(old, before, after).to_be_bytes());
}

/// The Internet checksum after a change of 32 bits under it (RFC 1624, equation 3).
fn updated_checksum(old: u16, before: u32, after: u32) -> u16 {
    let halves = |word: u32| (word >> 16) + (word & 0xffff);
    let mut sum = u32::from(!old) + halves(!before) + halves(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Writes the stamp of a frame.
pub fn set_stamp(frame: &mut [u8], intended_ns: u64, sequence: u32, work: u32) {
    let stamp = &mut frame[HEADER_BYTES..HEADER_BYTES + STAMP_BYTES];
    stamp[..8].copy_from_slice(&intended_ns.to_ne_bytes());
    stamp[8..12].copy_from_slice(&sequence.to_ne_bytes());
    stamp[12..].copy_from_slice(&work.to_ne_bytes());
}

/// The payload of a datagram with that sequence number and intended time.
pub fn stamped(sequence: u32, intended_ns: u64, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes.max(STAMP_BYTES)];
    payload[..8].copy_from_slice(&intended_ns.to_ne_bytes());
    payload[8..12].copy_from_slice(&sequence.to_ne_bytes());
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{GENERATOR, TESTED};
    use etherparse::SlicedPacket;

    #[test]
    fn a_frame_turned_around_is_one_from_the_other_end() {
        let mut there = datagram(GENERATOR, TESTED, PORT, b"hello");
        assert!(turn_around(&mut there) && !turn_around(&mut there[..20]));
        let back = SlicedPacket::from_ethernet(&there).unwrap();
        let Some(etherparse::TransportSlice::Udp(udp)) = back.transport else { panic!("no UDP") };
        assert_eq!((udp.source_port(), udp.destination_port(), udp.payload()), (PORT, SOURCE_PORT, &b"hello"[..]));
        assert_eq!(
            there[..12],
            [TESTED.mac, GENERATOR.mac].map(|m| m.to_vec()).iter().rev().flatten().copied().collect::<Vec<_>>()[..]
        );
    }

    #[test]
    fn a_frame_of_any_flow_has_the_right_checksum() {
        for flow in [0, 3031, 0xffff, 0x1_0400, 0x00ff_ffff] {
            let mut one = frame(GENERATOR, TESTED, 64);
            set_flow(&mut one, flow);
            let parsed = SlicedPacket::from_ethernet(&one).unwrap();
            let Some(etherparse::NetSlice::Ipv4(ip)) = &parsed.net else { panic!("no IPv4") };
            let Some(etherparse::TransportSlice::Udp(udp)) = &parsed.transport else { panic!("no UDP") };
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum(), "{flow:#x}");
            let from = u32::from(GENERATOR.ip) + (flow >> 16);
            assert_eq!((u32::from(ip.header().source_addr()), udp.source_port()), (from, flow as u16));
        }
    }

    #[test]
    fn a_frame_is_what_it_says() {
        for bytes in [60, 64, 1514] {
            let frame = frame(GENERATOR, TESTED, bytes);
            assert_eq!(frame.len(), bytes);
            let parsed = SlicedPacket::from_ethernet(&frame).unwrap();
            assert!(
                matches!(parsed.transport, Some(etherparse::TransportSlice::Udp(u)) if u.destination_port() == PORT)
            );
            assert_eq!(frame[40..42], [0, 0]);
        }
    }
}
