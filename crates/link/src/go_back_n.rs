//! Go-back-N on a link, after the link-level retry of Ultra Ethernet (LLR): the receiver takes frames
//! in their turn only and says from where on it wants them again; the sender replays all since. No
//! frame waits at the receiver; every loss costs a round trip of the link.
//!
//! What is known of LLR here comes from SONiC's design document for it, not from the specification
//! of the Ultra Ethernet Consortium. Numbers have 17 bits instead of 20, which are enough: no more
//! than [`MOST_WINDOW`] frames are ever under way. Acknowledgements travel between frames, and
//! frames carry their numbers in the preamble, so none of this takes room on the link.

mod receiver;
mod sender;

pub use receiver::{GoBackReceiver, GoBackReceiverStats};
pub use sender::{GoBackPhase, GoBackSender, GoBackSenderStats};

use crate::config::MOST_WINDOW;

/// Settings of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoBackConfig {
    /// Frames kept for replay; new ones wait when there are as many. At most [`MOST_WINDOW`].
    pub replay_frames: usize,
    /// Bytes kept for replay.
    pub replay_bytes: u64,
    /// Replay when nothing was acknowledged for so long.
    pub replay_timer_ps: u64,
    /// Replays in a row without anything acknowledged; after that the frames are given up.
    pub most_replays: u8,
    /// Room in the queue for frames without a number, in cells.
    pub queue_cells: u32,
    /// Larger with every start.
    pub epoch: u64,
}

impl GoBackConfig {
    /// The sample buffers of the design document: at 200 Gb/s over 5 m, and its timer of 5 us.
    pub fn sample_200g() -> GoBackConfig {
        GoBackConfig {
            replay_frames: 61,
            replay_bytes: 31_184,
            replay_timer_ps: 5_000_000,
            most_replays: 3,
            queue_cells: 7000,
            epoch: 0,
        }
    }

    /// At 400 Gb/s over 5 m.
    pub fn sample_400g() -> GoBackConfig {
        GoBackConfig { replay_frames: 115, replay_bytes: 58_768, ..GoBackConfig::sample_200g() }
    }

    /// At 800 Gb/s over 40 m.
    pub fn sample_800g() -> GoBackConfig {
        GoBackConfig { replay_frames: 264, replay_bytes: 135_000, ..GoBackConfig::sample_200g() }
    }

    fn window(&self) -> usize {
        self.replay_frames.clamp(1, MOST_WINDOW)
    }
}
