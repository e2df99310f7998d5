//! The addresses of the testbed, from blocks that are set aside for benchmarks and for local use.

use std::net::Ipv4Addr;

/// An end of the cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Host {
    /// Hardware address, locally administered.
    pub mac: [u8; 6],
    /// Address in 198.18.0.0/24 (RFC 2544, appendix C.2.2).
    pub ip: Ipv4Addr,
}

/// Where packets are made.
pub const GENERATOR: Host = Host { mac: [0x02, 0x6b, 0x61, 0, 0, 1], ip: Ipv4Addr::new(198, 18, 0, 1) };
/// Where they are received.
pub const TESTED: Host = Host { mac: [0x02, 0x6b, 0x61, 0, 0, 2], ip: Ipv4Addr::new(198, 18, 0, 2) };
/// Bits of the network's address.
pub(super) const PREFIX_BITS: u8 = 24;
