//! What an end is to do.

use crate::loss::LossModel;
use crate::port::Place;
use karakoram_link::config::{Mode, Protection};
use karakoram_link::monitor::MonitorConfig;
use karakoram_link::wire::Profile;
use karakoram_link::{ReceiverConfig, SenderConfig};

/// Settings of an end.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Where hosts are.
    pub inside: Place,
    /// Where the other end is.
    pub line: Place,
    /// How frames that leave are protected; `None` sends them as they come.
    pub protection: Option<Protection>,
    /// Protect in this mode as soon as the other end finds the line lossy.
    pub on_demand: Option<Mode>,
    /// When we find it lossy for frames that come from the other end. Only in the native layout.
    pub monitor: MonitorConfig,
    /// How they look on the line; both ends must agree.
    pub profile: Profile,
    /// Speed of the line in bits a second; `None` is as fast as can be.
    pub rate_bits: Option<u64>,
    /// From a lost frame to its copy: what all time-outs follow.
    pub round_trip_ps: u64,
    /// What is lost on purpose of all that leaves.
    pub loss: LossModel,
    /// How long what arrives waits before it is handed on: the length of a path behind the link.
    pub delay_ps: u64,
    /// Larger with every start.
    pub epoch: u64,
    /// Room for frames that wait for the line, in cells of 80 bytes.
    pub queue_cells: u32,
    /// Mark frames for congestion from so many cells in the queue on, where their transport understands it.
    pub mark_cells: Option<u32>,
    /// Frames that can wait for a gap to close, and copies that are kept.
    pub window_frames: usize,
}

/// Without a rate of its own a line counts as one of 10 Gb/s, for the length of pauses.
const DEFAULT_RATE_BITS: u64 = 10_000_000_000;

impl Settings {
    /// Picoseconds for a byte; 0 without a rate.
    pub(crate) fn byte_ps(&self) -> u64 {
        self.rate_bits.map_or(0, |rate| 8_000_000_000_000 / rate.max(1))
    }

    pub(crate) fn sender(&self) -> SenderConfig {
        let byte_ps = 8_000_000_000_000 / self.rate_bits.unwrap_or(DEFAULT_RATE_BITS).max(1);
        SenderConfig {
            dummies: 1,
            // A dummy for every pause between two frames would be half of all frames.
            dummy_delay_ps: self.round_trip_ps / 4,
            queue_cells: self.queue_cells,
            copy_frames: self.window_frames,
            ..SenderConfig::corrected(byte_ps, self.round_trip_ps, self.epoch)
        }
    }

    pub(crate) fn receiver(&self) -> ReceiverConfig {
        ReceiverConfig {
            window_frames: self.window_frames,
            acknowledgements: 1,
            // Processes are kept waiting now and then; better late than lost.
            timeout_ps: 25 * self.round_trip_ps,
            ..ReceiverConfig::corrected(self.round_trip_ps)
        }
    }
}
