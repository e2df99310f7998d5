//! TCP as Linux 5.4 has it, in whole segments: selective acknowledgements, RACK-TLP, PRR, undo by
//! duplicate-SACK, retransmission timeouts in jiffies, and four congestion controls. Sequence numbers
//! count segments. There are no timestamps (the published runs have them off), no F-RTO and no
//! HyStart.

mod ack;
pub mod congestion;
mod rack;
mod rate;
mod receiver;
mod recovery;
mod round_trip;
mod scoreboard;
mod sender;
mod timer;

pub use receiver::Receiver;
pub use sender::{Config, Sender, Statistics};
pub use timer::Jiffies;

/// What a data segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub number: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// Whether nothing follows it for now.
    pub is_last: bool,
}

/// Segments from a number to below another one.
pub type Range = (u32, u32);

/// Blocks that fit into an acknowledgement without timestamps.
pub const BLOCKS: usize = 4;

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ack {
    /// All below this number has arrived.
    pub cumulative: u32,
    /// What else has arrived, most recent first; empty ranges are no blocks.
    pub blocks: [Range; BLOCKS],
    /// What arrived twice.
    pub duplicate: Option<Range>,
    /// Congestion was experienced (ECE).
    pub echo: bool,
}
