//! Two defects of the original that show at its time-outs ([`Fidelity::Original`]).
//!
//! - A time-out that gives up number 65535 does not flip the era of the due number. Until another one does,
//!   the comparison of a number with the due one is wrong whenever one of them is in the upper half of the
//!   16 bits and the other is not: later frames are taken for duplicates.
//! - In non-blocking mode frames pass without moving the due number; only the time-out does, one number
//!   each time. When order is asked for later, the due number may be far behind, and frames wait until the
//!   time-outs have caught up.

use super::Receiver;
use crate::config::{Fidelity, Mode};
use crate::event::Log;
use crate::frame::Frame;
use std::cmp::Ordering;

/// A time-out gives this number up without flipping the era.
const LAST_OF_ERA: u64 = 0xffff;

/// What the original remembers wrongly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Defects {
    is_era_wrong: bool,
    /// The due number when order was given up, and when that was.
    crawling: Option<(u64, u64)>,
}

impl Defects {
    /// A time-out gave a number up.
    pub(super) fn skip(&mut self, sequence: u64) {
        self.is_era_wrong ^= sequence & LAST_OF_ERA == LAST_OF_ERA;
    }

    /// Where a number stands to the due one, as the original sees it.
    #[inline]
    pub(super) fn compare(self, sequence: u64, due: u64) -> Ordering {
        let order = sequence.cmp(&due);
        let is_misjudged = self.is_era_wrong && (sequence ^ due) & 0x8000 != 0;
        if is_misjudged { order.reverse() } else { order }
    }
}

impl<F: Frame, L: Log> Receiver<F, L> {
    /// A frame says whether order is kept.
    #[inline]
    pub(super) fn set_mode(&mut self, now_ps: u64, mode: Mode) {
        if mode != self.mode && self.config.fidelity == Fidelity::Original {
            match mode {
                Mode::NonBlocking => self.defects.crawling = Some((self.due, now_ps)),
                Mode::Ordered => self.fall_behind(now_ps),
            }
        }
        self.mode = mode;
    }

    /// The due number is where the time-outs have brought it.
    fn fall_behind(&mut self, now_ps: u64) {
        let Some((start, since_ps)) = self.defects.crawling.take() else { return };
        if self.config.drops_duplicates {
            return;
        }
        let each_ps = (self.config.timeout_ps + self.config.tick_ps).max(1);
        self.due = (start + (now_ps - since_ps) / each_ps).min(self.expected);
        let eras = (self.due >> 16) - (start >> 16);
        self.defects.is_era_wrong ^= eras % 2 == 1;
        self.timeout_at_ps = None;
        self.arm(now_ps);
    }
}
