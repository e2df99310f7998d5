//! Headers of the usual protocols, as they are on the wire. All fields are bytes, so that they may be
//! at any offset.

use crate::plain::Plain;

/// A number of 16 bits, most significant byte first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Be16(pub [u8; 2]);

/// A number of 32 bits, most significant byte first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Be32(pub [u8; 4]);

impl Be16 {
    /// From a number.
    #[inline(always)]
    pub const fn new(value: u16) -> Be16 {
        Be16(value.to_be_bytes())
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> u16 {
        u16::from_be_bytes(self.0)
    }
}

impl Be32 {
    /// From a number.
    #[inline(always)]
    pub const fn new(value: u32) -> Be32 {
        Be32(value.to_be_bytes())
    }

    /// The number.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        u32::from_be_bytes(self.0)
    }
}

/// Ethernet II.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Ethernet {
    /// To.
    pub destination: [u8; 6],
    /// From.
    pub source: [u8; 6],
    /// What is inside (0x0800 IPv4, 0x86dd IPv6, 0x8100 VLAN).
    pub kind: Be16,
}

/// IPv4 without options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Ipv4 {
    /// Version and header length in words.
    pub version_length: u8,
    /// Type of service.
    pub service: u8,
    /// Bytes with header and payload.
    pub total_length: Be16,
    /// Identification.
    pub identification: Be16,
    /// Flags and fragment offset.
    pub fragment: Be16,
    /// Time to live.
    pub time_to_live: u8,
    /// What is inside (1 ICMP, 6 TCP, 17 UDP).
    pub protocol: u8,
    /// Checksum of the header.
    pub checksum: Be16,
    /// From.
    pub source: Be32,
    /// To.
    pub destination: Be32,
}

impl Ipv4 {
    /// Bytes of the header with its options.
    #[inline(always)]
    pub fn header_bytes(&self) -> usize {
        4 * (self.version_length & 15) as usize
    }

    /// Whether it is a part of a packet.
    #[inline(always)]
    pub fn is_fragment(&self) -> bool {
        self.fragment.get() & 0x3fff != 0
    }
}

/// IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Ipv6 {
    /// Version, traffic class, flow label.
    pub version_class_flow: Be32,
    /// Bytes after this header.
    pub payload_length: Be16,
    /// What comes next.
    pub next: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// From.
    pub source: [u8; 16],
    /// To.
    pub destination: [u8; 16],
}

/// UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Udp {
    /// From.
    pub source: Be16,
    /// To.
    pub destination: Be16,
    /// Bytes with header and payload.
    pub length: Be16,
    /// Checksum.
    pub checksum: Be16,
}

/// TCP without options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Tcp {
    /// From.
    pub source: Be16,
    /// To.
    pub destination: Be16,
    /// Sequence number.
    pub sequence: Be32,
    /// Acknowledged.
    pub acknowledgement: Be32,
    /// Header length in words, in the high half.
    pub offset: u8,
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    /// Window.
    pub window: Be16,
    /// Checksum.
    pub checksum: Be16,
    /// Urgent pointer.
    pub urgent: Be16,
}

/// ICMP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Icmp {
    /// Type (8 echo request, 0 echo reply).
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Checksum.
    pub checksum: Be16,
    /// The rest, by type.
    pub rest: Be32,
}

macro_rules! plain {
    ($($name:ty: $bytes:literal),*) => { $(
        const _: () = assert!(size_of::<$name>() == $bytes);
        // SAFETY: all fields are bytes or arrays of them, and the size shows that there are no gaps.
        unsafe impl Plain for $name {}
    )* };
}

plain!(Be16: 2, Be32: 4, Ethernet: 14, Ipv4: 20, Ipv6: 40, Udp: 8, Tcp: 20, Icmp: 8);
