//! Back-pressure: asks the sender to stop when too much waits.

use crate::config::Thresholds;

/// Longest pause there is.
const LONGEST: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pressure {
    thresholds: Option<Thresholds>,
    is_paused: bool,
    /// What to say next.
    request: Option<u16>,
    refresh_at_ps: u64,
}

/// What changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Paused,
    Resumed,
}

impl Pressure {
    pub(crate) fn new(thresholds: Option<Thresholds>) -> Pressure {
        Pressure { thresholds, is_paused: false, request: None, refresh_at_ps: 0 }
    }

    /// So many cells wait now.
    pub(crate) fn depth(&mut self, now_ps: u64, cells: u32) -> Option<Change> {
        let thresholds = self.thresholds?;
        if !self.is_paused && cells >= thresholds.pause_cells {
            self.is_paused = true;
            self.ask(now_ps, LONGEST);
            return Some(Change::Paused);
        }
        if self.is_paused && cells <= thresholds.resume_cells {
            self.is_paused = false;
            self.request = Some(0);
            return Some(Change::Resumed);
        }
        None
    }

    fn ask(&mut self, now_ps: u64, quanta: u16) {
        self.request = Some(quanta);
        self.refresh_at_ps = now_ps + self.thresholds.and_then(|t| t.refresh_ps).unwrap_or(0);
    }

    /// What to tell the sender, once. A newer request replaces an older one.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<u16> {
        self.request.take()
    }

    #[inline]
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        let refreshes = self.is_paused && self.thresholds.is_some_and(|t| t.refresh_ps.is_some());
        refreshes.then_some(self.refresh_at_ps)
    }

    pub(crate) fn on_timer(&mut self, now_ps: u64) {
        if self.deadline().is_some_and(|at| at <= now_ps) {
            self.ask(now_ps, LONGEST);
        }
    }
}
