//! Reno: a segment more in every round trip, half the window after a loss.

use super::{Congestion, Progress, Window};

/// Reno has no state of its own.
pub struct Reno;

impl Congestion for Reno {
    fn grow(&mut self, progress: &Progress, window: &mut Window) {
        grow(progress, window);
    }

    fn reduce(&mut self, window: &Window) -> u32 {
        (window.size / 2).max(2)
    }
}

/// Reno's growth, which DCTCP shares.
pub fn grow(progress: &Progress, window: &mut Window) {
    let mut acknowledged = progress.acknowledged;
    if window.is_slow_start() {
        acknowledged = window.slow_start(acknowledged);
    }
    if acknowledged > 0 {
        window.grow(window.size, acknowledged);
    }
}
