//! A gap lasts: ask again, and in the end give the frame up, so that the rest can go on.

use super::Receiver;
use crate::config::Fidelity;
use crate::event::{Event, Log};
use crate::frame::Frame;

impl<F: Frame, L: Log> Receiver<F, L> {
    /// The original counts from when the due number became due, or its gap was seen.
    #[inline]
    pub(super) fn arm(&mut self, now_ps: u64) {
        let is_original = self.config.fidelity == Fidelity::Original;
        if is_original && self.timeout_at_ps.is_none() && self.due < self.expected {
            let start = now_ps.checked_div(self.config.tick_ps).map_or(now_ps, |t| (t + 1) * self.config.tick_ps);
            self.timeout_at_ps = Some(start + self.config.timeout_ps);
        }
    }

    /// When the gap at the due number has lasted long enough.
    pub(super) fn gap_deadline(&self) -> Option<u64> {
        match self.config.fidelity {
            Fidelity::Original => self.timeout_at_ps,
            Fidelity::Corrected => self.gaps.iter().next().map(|g| g.found_ps + self.config.timeout_ps),
        }
    }

    pub(super) fn renotify_deadline(&self) -> Option<u64> {
        let interval_ps = self.config.renotify_ps?;
        self.gaps.iter().map(|g| g.asked_ps + interval_ps).min()
    }

    pub(super) fn renotify(&mut self, now_ps: u64) {
        let Some(interval_ps) = self.config.renotify_ps else { return };
        while let Some((first, end)) = self.take_due_gap(now_ps, interval_ps) {
            let mut at = first.max(self.due);
            while let Some((first, count)) = self.missing_run(at, end) {
                self.notify(first, count, first + count - 1);
                at = first + count;
            }
        }
    }

    fn take_due_gap(&mut self, now_ps: u64, interval_ps: u64) -> Option<(u64, u64)> {
        let gap = self.gaps.iter_mut().find(|g| g.asked_ps + interval_ps <= now_ps && interval_ps > 0)?;
        gap.asked_ps = now_ps;
        Some((gap.first, gap.end))
    }

    /// The first numbers in a row from `at` on that have not come.
    fn missing_run(&self, at: u64, end: u64) -> Option<(u64, u64)> {
        let first = (at..end).find(|s| self.slots.is_missing(*s))?;
        let count = (first..end).take_while(|s| self.slots.is_missing(*s)).count();
        Some((first, count as u64))
    }

    /// Frames that take too long are given up; what waits behind them is due.
    pub(super) fn give_up(&mut self, now_ps: u64) {
        if self.gap_deadline().is_none_or(|at| now_ps < at) {
            return;
        }
        self.stats.timeouts += 1;
        self.acknowledgements_left = self.acknowledgements_left.max(match self.config.fidelity {
            Fidelity::Original => 0,
            Fidelity::Corrected => self.config.acknowledgements,
        });
        match self.config.fidelity {
            Fidelity::Original if self.slots.is_missing(self.due) => self.skip(now_ps),
            Fidelity::Original => {}
            Fidelity::Corrected => {
                let end = self.gaps.head(self.due).map_or(self.due, |g| g.end);
                while self.due < end && self.slots.is_missing(self.due) {
                    self.skip(now_ps);
                }
            }
        }
    }

    fn skip(&mut self, now_ps: u64) {
        self.stats.skipped_frames += 1;
        self.log.event(now_ps, Event::Skipped { sequence: self.due });
        if self.config.fidelity == Fidelity::Original {
            self.defects.skip(self.due);
        }
        self.settle(now_ps);
    }
}
