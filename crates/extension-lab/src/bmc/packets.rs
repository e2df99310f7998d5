//! Packets between one client and memcached.

const CLIENT: [u8; 4] = [10, 9, 0, 2];
const SERVER: [u8; 4] = [10, 9, 0, 1];
const CLIENT_PORT: u16 = 40_000;
const SERVER_PORT: u16 = 11_211;

/// An IPv4 packet; `to_server` or from it.
fn ip(to_server: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (from, to) = if to_server { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    packet.extend(((20 + payload.len()) as u16).to_be_bytes());
    packet.extend([0, 7, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(from);
    packet.extend(to);
    packet.extend(payload);
    packet
}

fn ports(to_server: bool) -> [u16; 2] {
    if to_server { [CLIENT_PORT, SERVER_PORT] } else { [SERVER_PORT, CLIENT_PORT] }
}

fn datagram(to_server: bool, text: &[u8]) -> Vec<u8> {
    let [from, to] = ports(to_server);
    let numbers = [from, to, (16 + text.len()) as u16, 0, 1, 0, 1, 0];
    let mut payload: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    payload.extend(text);
    ip(to_server, 17, &payload)
}

fn segment(to_server: bool, sequence: u32, text: &[u8]) -> Vec<u8> {
    let mut payload: Vec<u8> = ports(to_server).iter().flat_map(|n| n.to_be_bytes()).collect();
    payload.extend(sequence.to_be_bytes());
    payload.extend([0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    payload.extend(text);
    ip(to_server, 6, &payload)
}

/// A request for keys.
pub fn get(keys: &str) -> Vec<u8> {
    datagram(true, format!("get {keys}\r\n").as_bytes())
}

/// memcached's reply for a key.
pub fn reply(key: &str, value_bytes: usize) -> Vec<u8> {
    let value = "v".repeat(value_bytes);
    datagram(false, format!("VALUE {key} 0 {value_bytes}\r\n{value}\r\nEND\r\n").as_bytes())
}

/// A write over TCP; the n-th of its connection.
pub fn set(n: u32, key: &str, value_bytes: usize) -> Vec<u8> {
    let text = format!("set {key} 0 0 {value_bytes}\r\n{}\r\n", "v".repeat(value_bytes));
    segment(true, n.wrapping_mul(text.len() as u32), text.as_bytes())
}

/// What memcached says to it.
pub fn stored() -> Vec<u8> {
    segment(false, 1, b"STORED\r\n")
}

/// A datagram for somebody else.
pub fn other() -> Vec<u8> {
    let mut packet = get("nothing");
    packet[36..38].copy_from_slice(&9u16.to_be_bytes());
    packet
}
