//! The bytes of frames on the link. A numbered frame is an Ethernet frame with 3 bytes behind its
//! type field:
//!
//! ```text
//!   data          00 sync era reTx dummy ordered -   sequence:16
//!   ack           01 piggybacked era sync-tag:4      leading:16
//!   notification  10 0 era 0000   leading:16         count:8 first:16
//!   report        11 000000       copies:8 0:8       frames:64
//! ```
//!
//! Native frames without a number have such a header too, with `sync` and without `dummy`: the host's own
//! network code must not take them for its own.
//!
//! After the layout of LinkGuardian; `sync` and `sync-tag` are padding there, and 11 marks copies inside
//! the sender's switch, which are never on a link. A pause is a PFC frame
//! of IEEE 802.1Qbb for class 1.

mod control;
mod ethernet;

pub use control::{Report, emit_control, emit_report, pause_frame};
pub use ethernet::{Carried, Content, Parsed, emit, parse};

use crate::config::Mode;
use crate::frame::{Ack, DataHeader, Loss};
use crate::sequence::WireSequence;

/// The type of all frames with a header of ours.
pub const ETHER_TYPE: u16 = 0xabcd;

/// How a frame's own type field is carried.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Profile {
    /// Not at all: 3 bytes more, and what arrives is IPv4.
    Authors,
    /// Behind the header: 5 bytes more, any type.
    Native,
}

impl Profile {
    /// Bytes that a numbered frame is longer.
    pub fn overhead(self) -> usize {
        match self {
            Profile::Authors => 3,
            Profile::Native => 5,
        }
    }
}

/// Shortest Ethernet frame, without its check sequence.
pub const SHORTEST: usize = 60;

/// Destination, source, and type.
pub const ETHERNET_BYTES: usize = 14;

/// Length of our header.
pub const HEADER_BYTES: usize = 3;

/// What the first two bits say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Data,
    Ack,
    Loss,
    Report,
}

fn kind(first: u8) -> Kind {
    match first >> 6 {
        0 => Kind::Data,
        1 => Kind::Ack,
        2 => Kind::Loss,
        _ => Kind::Report,
    }
}

/// The header of a numbered frame, a dummy or a beginning, with the two kinds of flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DataFields {
    header: DataHeader,
    is_dummy: bool,
    is_sync: bool,
}

impl DataFields {
    fn emit(self) -> [u8; HEADER_BYTES] {
        let DataHeader { sequence, is_retransmission, mode } = self.header;
        let flags = u8::from(self.is_sync) << 5
            | u8::from(sequence.era()) << 4
            | u8::from(is_retransmission) << 3
            | u8::from(self.is_dummy) << 2
            | u8::from(mode == Mode::Ordered) << 1;
        let [high, low] = sequence.low().to_be_bytes();
        [flags, high, low]
    }

    fn parse([flags, high, low]: [u8; HEADER_BYTES]) -> DataFields {
        let is = |bit: u8| flags >> bit & 1 == 1;
        let sequence = WireSequence::from_fields(is(4), u16::from_be_bytes([high, low]));
        let mode = if is(1) { Mode::Ordered } else { Mode::NonBlocking };
        let header = DataHeader { sequence, is_retransmission: is(3), mode };
        DataFields { header, is_dummy: is(2), is_sync: is(5) }
    }
}

fn emit_ack(kind: u8, ack: Ack) -> [u8; HEADER_BYTES] {
    let flags = kind << 6 | u8::from(ack.is_piggybacked) << 5 | u8::from(ack.leading.era()) << 4 | ack.sync & 15;
    let [high, low] = ack.leading.low().to_be_bytes();
    [flags, high, low]
}

fn parse_ack([flags, high, low]: [u8; HEADER_BYTES]) -> Ack {
    let leading = WireSequence::from_fields(flags >> 4 & 1 == 1, u16::from_be_bytes([high, low]));
    Ack { leading, is_piggybacked: flags >> 5 & 1 == 1, sync: flags & 15 }
}

fn parse_loss(header: [u8; HEADER_BYTES], [count, high, low]: [u8; 3]) -> Loss {
    Loss { leading: parse_ack(header).leading, first: u16::from_be_bytes([high, low]), count }
}
