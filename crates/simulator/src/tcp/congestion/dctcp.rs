//! DCTCP: the window shrinks in proportion to the share of marked segments.

use super::{Congestion, Progress, State, Window, reno};

/// The weight of a new observation is 2^-4.
const GAIN_SHIFT: u32 = 4;
/// All segments are marked.
const ALL: u32 = 1024;

/// The share of marked segments.
pub struct Dctcp {
    share: u32,
    /// The observation ends when this segment is acknowledged.
    until: u32,
    acknowledged: u32,
    marked: u32,
    window_at_loss: u32,
}

impl Default for Dctcp {
    /// Takes everything for marked until it knows better, as Linux does.
    fn default() -> Dctcp {
        Dctcp { share: ALL, until: 0, acknowledged: 0, marked: 0, window_at_loss: 0 }
    }
}

impl Congestion for Dctcp {
    fn observe(&mut self, progress: &Progress, _window: &Window) {
        self.acknowledged += progress.acknowledged;
        self.marked += if progress.echo { progress.acknowledged } else { 0 };
        if progress.first > self.until && self.acknowledged > 0 {
            let decay = self.share >> GAIN_SHIFT;
            // A small share still decays, by one at least.
            self.share -= if decay == 0 { self.share.min(1) } else { decay };
            self.share += (self.marked << (10 - GAIN_SHIFT)) / self.acknowledged;
            self.share = self.share.min(ALL);
            (self.until, self.acknowledged, self.marked) = (progress.next, 0, 0);
        }
    }

    fn grow(&mut self, progress: &Progress, window: &mut Window) {
        reno::grow(progress, window);
    }

    fn reduce(&mut self, window: &Window) -> u32 {
        self.window_at_loss = window.size;
        (window.size - ((u64::from(window.size) * u64::from(self.share)) >> 11) as u32).max(2)
    }

    fn on_state(&mut self, state: State, window: &mut Window) {
        // Loss is answered as Reno answers it (`dctcp_react_to_loss`).
        if matches!(state, State::Recovery | State::Loss) {
            self.window_at_loss = window.size;
            window.threshold = (window.size / 2).max(2);
        }
    }

    fn on_undo(&mut self) -> Option<u32> {
        Some(self.window_at_loss)
    }

    fn is_ecn(&self) -> bool {
        true
    }
}
