//! What is to be sent, and what was.

use super::lateness::Lateness;
use super::windows::{self, Typical, Window};
use crate::packet;
use std::time::Duration;

/// Times between frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gaps {
    /// All alike.
    #[default]
    Constant,
    /// Exponentially distributed (a Poisson process).
    Poisson,
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// Frames per second; none is as fast as possible.
    pub rate: Option<f64>,
    /// Times between them.
    pub gaps: Gaps,
    /// Bytes of a frame; requests have their own length.
    pub frame_bytes: usize,
    /// For how long.
    pub duration: Duration,
    /// For so long after that as fast as possible; only frames that are made in the kernel.
    pub then_hurry: Duration,
    /// Number that programs find in the stamp.
    pub work: u32,
    /// Flow of the n-th frame (or number of its request), repeated from the start at the end; as many as a
    /// power of two.
    pub flows: Vec<u32>,
}

impl Load {
    /// The shortest frames, evenly spaced, of one flow.
    pub fn new(rate: Option<f64>, duration: Duration) -> Load {
        Load {
            rate,
            gaps: Gaps::Constant,
            frame_bytes: 64,
            duration,
            then_hurry: Duration::ZERO,
            work: 0,
            flows: vec![u32::from(packet::SOURCE_PORT)],
        }
    }

    /// How long it takes in all.
    pub(super) fn whole(&self) -> Duration {
        self.duration + self.then_hurry
    }
}

/// What was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Frames.
    pub frames: u64,
    /// Over this time.
    pub elapsed_ns: u64,
    /// How late they were.
    pub lateness: Lateness,
    /// Frames that were not sent, because the generator was held up for too long.
    pub missed: u64,
    /// What became of them in each millisecond, where the generator watches that.
    pub windows: Vec<Window>,
}

impl Sent {
    /// Frames per second.
    pub fn rate(&self) -> f64 {
        self.frames as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// What holds in most milliseconds of a load, at its rate and in the hurry after it; `None` where nobody
    /// watched or nothing was sent.
    pub fn typical(&self, load: &Load) -> Option<(Typical, Typical)> {
        /// The ring fills.
        const BEFORE_FULL: usize = 1;
        let (paced, hurried) = self.windows.split_at_checked(windows::count(load.duration))?;
        Some((windows::typical(paced, load.rate)?, windows::typical(hurried.get(BEFORE_FULL..)?, None)?))
    }

    /// Whether the generator kept to its times: at most one frame in ten left out, and 99.9 % of the rest sent
    /// within 131 us.
    pub fn is_punctual(&self) -> bool {
        const LATE_NS: u64 = 1 << 17;
        const MISSED: f64 = 0.1;
        self.missed as f64 <= MISSED * self.frames as f64 && self.lateness.is_within(LATE_NS)
    }
}

/// Frames later than that are left out: what makes a burst of 128 frames (veth rings have room for 256), but no
/// less than frames take to leave, and no more than matters.
pub(super) fn most_late_ns(load: &Load) -> u32 {
    const BURST: f64 = 128.0;
    load.rate.map_or(u32::MAX, |rate| (BURST * 1e9 / rate).clamp(5e3, 1e5) as u32)
}
