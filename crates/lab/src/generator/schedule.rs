//! When frames are sent, in an open loop: at times that do not depend on what happened to earlier frames.

use super::lateness::Lateness;
use super::load::{Gaps, Load, Sent, most_late_ns};
use crate::random::Random;

/// The times of a load, and what became of them.
pub(super) struct Schedule {
    start_ns: u64,
    stop_ns: u64,
    /// Mean time between frames; none is as fast as possible.
    gap_ns: Option<f64>,
    random: Option<Random>,
    most_late_ns: u64,
    /// When the next frame is due, after the start.
    next_ns: f64,
    last_ns: u64,
    lateness: Lateness,
    sent: u64,
    missed: u64,
}

impl Schedule {
    /// The times from now on.
    pub(super) fn begin(load: &Load, now_ns: u64) -> Schedule {
        Schedule {
            start_ns: now_ns,
            stop_ns: now_ns + load.duration.as_nanos() as u64,
            gap_ns: load.rate.map(|rate| 1e9 / rate),
            random: (load.gaps == Gaps::Poisson).then(|| Random::new(0)),
            most_late_ns: u64::from(most_late_ns(load)),
            next_ns: 0.0,
            last_ns: now_ns,
            lateness: Lateness::default(),
            sent: 0,
            missed: 0,
        }
    }

    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.stop_ns
    }

    /// When a frame that is due by now should have been sent. Of times that are long gone frames are left out:
    /// a burst would only measure the generator.
    pub(super) fn next_due(&mut self, now_ns: u64) -> Option<u64> {
        let Some(gap_ns) = self.gap_ns else {
            self.take(now_ns, now_ns);
            return Some(now_ns);
        };
        let due_ns = self.start_ns + self.next_ns as u64;
        let mut late_ns = now_ns.checked_sub(due_ns)?;
        if late_ns > self.most_late_ns {
            self.missed += (late_ns as f64 / gap_ns) as u64;
            self.next_ns += late_ns as f64;
            late_ns = 0;
        }
        let intended_ns = now_ns - late_ns;
        self.take(intended_ns, now_ns);
        let share = self.random.as_mut().map_or(1.0, Random::exponential);
        self.next_ns += gap_ns * share;
        Some(intended_ns)
    }

    fn take(&mut self, intended_ns: u64, now_ns: u64) {
        self.lateness.record(now_ns - intended_ns);
        self.last_ns = now_ns;
        self.sent += 1;
    }

    /// The last few could not be sent.
    pub(super) fn give_back(&mut self, frames: u64) {
        self.sent -= frames;
    }

    /// Frames so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// What was sent in all.
    pub(super) fn finish(self) -> Sent {
        Sent {
            frames: self.sent,
            elapsed_ns: self.last_ns - self.start_ns,
            lateness: self.lateness,
            missed: self.missed,
            windows: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn load(gaps: Gaps) -> Load {
        Load { gaps, ..Load::new(Some(1e6), Duration::from_millis(10)) }
    }

    #[test]
    fn frames_are_due_at_their_times_whatever_became_of_others() {
        let mut schedule = Schedule::begin(&load(Gaps::Constant), 5000);
        assert_eq!([4999, 5000, 5999, 6000].map(|now| schedule.next_due(now)), [None, Some(5000), None, Some(6000)]);
        assert_eq!([8500, 8500, 8500].map(|now| schedule.next_due(now)), [Some(7000), Some(8000), None]);
        assert!(!schedule.is_over(10_004_999) && schedule.is_over(10_005_000));
        let sent = schedule.finish();
        assert_eq!((sent.frames, sent.missed, sent.elapsed_ns), (4, 0, 3500));
        assert!(sent.lateness.quantile_ns(1.0) >= 1500);
    }

    #[test]
    fn after_a_long_pause_frames_are_left_out_and_counted() {
        let mut schedule = Schedule::begin(&load(Gaps::Constant), 0);
        assert_eq!([0, 1_000_000].map(|now| schedule.next_due(now)), [Some(0), Some(1_000_000)]);
        assert_eq!(schedule.next_due(1_000_500), None);
        assert_eq!(schedule.finish().missed, 999);
    }

    #[test]
    fn random_gaps_have_the_right_mean() {
        let mut schedule = Schedule::begin(&load(Gaps::Poisson), 0);
        while !schedule.is_over(schedule.next_ns as u64) {
            schedule.next_due(schedule.next_ns as u64 + 1);
        }
        assert!((9_500..10_500).contains(&schedule.finish().frames));
    }
}
