//! Where memcached's text is in a packet.

use karakoram_extension::{Be16, Be32, Ethernet, Ipv4, Ipv6, Packet, Plain, Tcp, Udp};

/// memcached's port.
pub const PORT: u16 = 11211;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
/// Protocols inside IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Version 4, no options.
const PLAIN_IPV4: u8 = 0x45;

/// Everything before the text of a datagram over plain IPv4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Plain)]
#[repr(C)]
pub struct Headers {
    /// Ethernet.
    pub ethernet: Ethernet,
    /// IPv4 without options.
    pub ip: Ipv4,
    /// UDP.
    pub udp: Udp,
    /// memcached's own.
    pub frame: Frame,
}

/// Bytes before the text.
pub const TEXT: usize = size_of::<Headers>();

/// What memcached puts before every datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Plain)]
#[repr(C)]
pub struct Frame {
    /// Number that the client chose, and finds in the reply.
    pub request: Be16,
    /// Number of this datagram in the reply.
    pub sequence: Be16,
    /// Datagrams of the reply.
    pub datagrams: Be16,
    /// Zero.
    pub reserved: Be16,
}

impl Headers {
    /// Whether it is a whole datagram over plain IPv4, with all of a message.
    pub fn is_whole_datagram(&self) -> bool {
        self.is_plain()
            && self.ip.protocol == UDP
            && self.frame.sequence == Be16::new(0)
            && self.frame.datagrams == Be16::new(1)
    }

    /// Whether it is a whole packet over plain IPv4, so that the ports of UDP and TCP, which are at the same place,
    /// are here.
    pub fn is_plain(&self) -> bool {
        is_plain(&self.ethernet, &self.ip)
    }

    /// Bytes of the packet without what may follow it, if it is a request and its lengths agree.
    pub fn request_bytes(&self) -> Option<usize> {
        (self.udp.destination == Be16::new(PORT) && self.is_whole_datagram()).then(|| self.bytes())?
    }

    /// Bytes of the packet without what may follow it, if its lengths agree.
    pub fn bytes(&self) -> Option<usize> {
        let (ip, udp) = (self.ip.total_length.get() as usize, self.udp.length.get() as usize);
        let is_right = udp >= size_of::<Udp>() + size_of::<Frame>() && ip == size_of::<Ipv4>() + udp;
        is_right.then_some(size_of::<Ethernet>() + ip)
    }

    /// The other direction, with a text of so many bytes.
    pub fn turn_around(&mut self, text_bytes: usize) {
        (self.ethernet.source, self.ethernet.destination) = (self.ethernet.destination, self.ethernet.source);
        (self.ip.source, self.ip.destination) = (self.ip.destination, self.ip.source);
        (self.udp.source, self.udp.destination) = (self.udp.destination, self.udp.source);
        let udp_bytes = (size_of::<Udp>() + size_of::<Frame>() + text_bytes) as u16;
        let before = self.ip.total_length.get();
        self.ip.total_length = Be16::new(size_of::<Ipv4>() as u16 + udp_bytes);
        self.ip.checksum = adjusted(self.ip.checksum, before, self.ip.total_length.get());
        self.udp.length = Be16::new(udp_bytes);
        // None: allowed in IPv4.
        self.udp.checksum = Be16::new(0);
    }

    /// Who asked what: address, port and number of the request.
    pub fn conversation(&self, client: Be32, port: Be16) -> u64 {
        (client.get() as u64) << 32 | (port.get() as u64) << 16 | self.frame.request.get() as u64
    }
}

fn is_plain(ethernet: &Ethernet, ip: &Ipv4) -> bool {
    ethernet.kind == Be16::new(IPV4) && ip.version_length == PLAIN_IPV4 && !ip.is_fragment()
}

/// The headers of a segment over plain IPv4.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
struct Segment {
    ethernet: Ethernet,
    ip: Ipv4,
    tcp: Tcp,
}

/// A checksum after one number under it has changed (RFC 1624).
fn adjusted(checksum: Be16, before: u16, after: u16) -> Be16 {
    let sum = !checksum.get() as u32 & 0xffff;
    let sum = sum + (!before as u32 & 0xffff) + after as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    Be16::new(!((sum & 0xffff) + (sum >> 16)) as u16)
}

/// Direction of what is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To memcached.
    In,
    /// From memcached.
    Out,
}

/// Text to or from memcached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// A segment of a connection.
    Tcp {
        /// Number of the client's connection.
        peer: u64,
        /// Sequence number of its first byte.
        sequence: u32,
        /// Where it starts.
        start: usize,
        /// Where it ends.
        end: usize,
        /// Whether it opens the connection.
        opens: bool,
    },
    /// A datagram.
    Udp {
        /// Where the text starts.
        start: usize,
        /// Where it ends.
        end: usize,
    },
    /// A part of a packet that may belong to memcached.
    Fragment,
}

/// The text in a packet over any IP, if it goes that way.
pub fn text(packet: &Packet, way: Way) -> Option<Text> {
    match packet.read::<Segment>(0) {
        Some(segment) if is_plain(&segment.ethernet, &segment.ip) && segment.ip.protocol == TCP => {
            segment.text(packet, way)
        }
        _ => any_text(packet, way),
    }
}

impl Segment {
    fn text(&self, packet: &Packet, way: Way) -> Option<Text> {
        let Segment { ip, tcp, .. } = self;
        let (ours, theirs, client) = match way {
            Way::In => (tcp.destination, tcp.source, ip.source),
            Way::Out => (tcp.source, tcp.destination, ip.destination),
        };
        if ours != Be16::new(PORT) {
            return None;
        }
        let start = size_of::<Ethernet>() + size_of::<Ipv4>() + header_bytes(tcp);
        let end = (size_of::<Ethernet>() + ip.total_length.get() as usize).min(packet.length());
        let peer = (client.get() as u64) << 16 | theirs.get() as u64;
        tcp_text(peer, tcp, start, end)
    }
}

fn header_bytes(tcp: &Tcp) -> usize {
    4 * (tcp.offset >> 4) as usize
}

fn tcp_text(peer: u64, tcp: &Tcp, start: usize, end: usize) -> Option<Text> {
    /// The flag of the first segment in each direction.
    const SYN: u8 = 2;
    let (sequence, opens) = (tcp.sequence.get(), tcp.flags & SYN != 0);
    (start <= end).then_some(Text::Tcp { peer, sequence, start, end, opens })
}

#[inline(never)]
fn any_text(packet: &Packet, way: Way) -> Option<Text> {
    let (mut kind, mut at) = (packet.be16(12)?, size_of::<Ethernet>());
    if kind == VLAN {
        (kind, at) = (packet.be16(16)?, 18);
    }
    let (protocol, addresses, address_bytes, inside, end) = match kind {
        IPV4 => {
            let ip = packet.read::<Ipv4>(at)?;
            if ip.is_fragment() && matches!(ip.protocol, TCP | UDP) {
                return Some(Text::Fragment);
            }
            (ip.protocol, at + 12, 4, at + ip.header_bytes(), at + ip.total_length.get() as usize)
        }
        IPV6 => {
            let ip = packet.read::<Ipv6>(at)?;
            let inside = at + size_of::<Ipv6>();
            (ip.next, at + 8, 16, inside, inside + ip.payload_length.get() as usize)
        }
        _ => return None,
    };
    let (ours, theirs) = if way == Way::In { (2, 0) } else { (0, 2) };
    if !matches!(protocol, TCP | UDP) || packet.be16(inside + ours)? != PORT {
        return None;
    }
    let end = end.min(packet.length());
    if protocol == UDP {
        let start = inside + size_of::<Udp>() + size_of::<Frame>();
        return (start <= end).then_some(Text::Udp { start, end });
    }
    let tcp = packet.read::<Tcp>(inside)?;
    let client = if way == Way::In { addresses } else { addresses + address_bytes };
    let mut folded = 0u32;
    for at in (client..client + address_bytes).step_by(4) {
        folded = folded.rotate_left(5) ^ packet.be32(at)?;
    }
    let peer = (folded as u64) << 16 | packet.be16(inside + theirs)? as u64;
    tcp_text(peer, &tcp, inside + header_bytes(&tcp), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_adjusted() {
        // Words 0x1234 and 0x0040; the second becomes 0x0100.
        let sum = |a: u16, b: u16| Be16::new(!(a + b));
        assert_eq!(adjusted(sum(0x1234, 0x40), 0x40, 0x100), sum(0x1234, 0x100));
    }
}
