//! Packets between a client and memcached.

use std::sync::atomic::{AtomicU16, Ordering};

/// A client.
#[derive(Clone, Copy)]
pub struct Client {
    pub address: [u8; 4],
    pub port: u16,
}

pub const SERVER: [u8; 4] = [10, 9, 0, 1];
pub const PORT: u16 = 11211;

/// Two clients that nobody has seen before.
pub fn clients() -> [Client; 2] {
    static PORT: AtomicU16 = AtomicU16::new(40_000);
    [2, 3].map(|last| Client { address: [10, 9, 0, last], port: PORT.fetch_add(1, Ordering::Relaxed) })
}

/// Bytes before the text of a datagram.
pub const TEXT: usize = 50;

fn ip(from: [u8; 4], to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let total = (20 + payload.len()) as u16;
    let mut header = vec![0x45, 0];
    header.extend(total.to_be_bytes());
    header.extend([0, 7, 0x40, 0, 64, protocol, 0, 0]);
    header.extend(from);
    header.extend(to);
    let checksum = checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(header);
    packet.extend(payload);
    packet
}

/// The Internet checksum.
pub fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|b| u32::from(b[0]) << 8 | b.get(1).map_or(0, |b| u32::from(*b))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A datagram with memcached's own header: number of the request, of the datagram, of all datagrams.
fn datagram(from: ([u8; 4], u16), to: ([u8; 4], u16), numbers: [u16; 3], text: &[u8]) -> Vec<u8> {
    let mut payload: Vec<u8> =
        [from.1, to.1, (16 + text.len()) as u16, 0].iter().flat_map(|n| n.to_be_bytes()).collect();
    payload.extend([numbers[0], numbers[1], numbers[2], 0].iter().flat_map(|n| n.to_be_bytes()));
    payload.extend(text);
    ip(from.0, to.0, 17, &payload)
}

/// A request over UDP.
pub fn request(client: Client, number: u16, text: &str) -> Vec<u8> {
    datagram((client.address, client.port), (SERVER, PORT), [number, 0, 1], text.as_bytes())
}

/// memcached's reply over UDP.
pub fn reply(client: Client, number: u16, text: &str) -> Vec<u8> {
    reply_part(client, [number, 0, 1], text)
}

/// One of several datagrams of a reply.
pub fn reply_part(client: Client, numbers: [u16; 3], text: &str) -> Vec<u8> {
    datagram((SERVER, PORT), (client.address, client.port), numbers, text.as_bytes())
}

/// Flags of a segment that opens a connection, and of others.
const SYN: u8 = 0x02;
const ACK_PUSH: u8 = 0x18;

fn segment(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: u8, sequence: u32, text: &[u8]) -> Vec<u8> {
    let mut payload: Vec<u8> = [from.1, to.1].iter().flat_map(|n| n.to_be_bytes()).collect();
    payload.extend(sequence.to_be_bytes());
    payload.extend([0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    payload.extend(text);
    ip(from.0, to.0, 6, &payload)
}

/// A segment to memcached.
pub fn to_server(client: Client, sequence: u32, text: &[u8]) -> Vec<u8> {
    segment((client.address, client.port), (SERVER, PORT), ACK_PUSH, sequence, text)
}

/// A segment from memcached.
pub fn from_server(client: Client, sequence: u32, text: &str) -> Vec<u8> {
    segment((SERVER, PORT), (client.address, client.port), ACK_PUSH, sequence, text.as_bytes())
}

/// The first segments of a connection, to memcached and back; both sides' texts begin at 1.
pub fn handshake(client: Client) -> [Vec<u8>; 2] {
    let (client, server) = ((client.address, client.port), (SERVER, PORT));
    [segment(client, server, SYN, 0, b""), segment(server, client, SYN, 0, b"")]
}

/// What memcached replies for a key with flags 0.
pub fn value(key: &str, value: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len())
}
