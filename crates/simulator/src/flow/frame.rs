//! What hosts send one another.

use crate::link::Carried;
use crate::{rdma, tcp};

/// Ethernet, IPv4 and TCP.
const TCP_HEADERS: u32 = 14 + 20 + 20;
/// Ethernet, IPv4, UDP, the transport header, and the invariant check sequence.
const RDMA_HEADERS: u32 = 14 + 20 + 8 + 12 + 4;

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// A TCP segment.
    Segment(tcp::Segment),
    /// Its acknowledgement.
    Ack(tcp::Ack),
    /// An RDMA packet.
    Packet(rdma::Packet),
    /// Its answer.
    Answer(rdma::Answer),
}

/// What IP says of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Nothing can be marked.
    Incapable,
    /// Can be marked.
    Capable,
    /// Is marked.
    Experienced,
}

/// A frame of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Bytes, without the check sequence.
    pub bytes: u32,
    /// Congestion.
    pub ecn: Ecn,
    /// What it carries.
    pub content: Content,
}

impl Frame {
    /// A frame around its content.
    pub fn new(content: Content, is_capable: bool) -> Frame {
        let bytes = match &content {
            Content::Segment(segment) => segment.payload + TCP_HEADERS,
            Content::Ack(_) => TCP_HEADERS + 12,
            Content::Packet(packet) => packet.payload + RDMA_HEADERS,
            Content::Answer(_) => RDMA_HEADERS + 4,
        };
        Frame { bytes: bytes.max(60), ecn: if is_capable { Ecn::Capable } else { Ecn::Incapable }, content }
    }
}

impl karakoram_link::Frame for Frame {
    fn bytes(&self) -> u32 {
        self.bytes
    }
}

impl Carried for Frame {
    fn mark(&mut self) {
        if self.ecn == Ecn::Capable {
            self.ecn = Ecn::Experienced;
        }
    }
}
