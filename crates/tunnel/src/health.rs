//! Protection when it is needed: each end tells the other now and then how many frames it has sent,
//! and what it wants of it, by how many of them arrived.

use karakoram_link::config::{Mode, Protection};
use karakoram_link::monitor::{Action, Monitor, MonitorConfig};
use karakoram_link::wire::Report;

/// How often an end reports.
const INTERVAL_PS: u64 = 100_000_000_000;

#[derive(Debug)]
pub(crate) struct Health {
    monitor: Monitor,
    /// Frames that arrived, without reports.
    received: u64,
    /// What we want of the other end.
    wanted_copies: u8,
    next_report_ps: u64,
    /// How to protect when the other end wants it; `None` if we do not take orders.
    mode: Option<Mode>,
    /// What it wanted last.
    ordered_copies: u8,
}

impl Health {
    pub(crate) fn new(config: MonitorConfig, mode: Option<Mode>) -> Health {
        Health {
            monitor: Monitor::new(config),
            received: 0,
            wanted_copies: 0,
            next_report_ps: 0,
            mode,
            ordered_copies: 0,
        }
    }

    /// A frame arrived that is no report.
    pub(crate) fn count(&mut self) {
        self.received += 1;
    }

    /// The other end reports. What we are to do about it: protect, or (`Some(None)`) stop.
    pub(crate) fn on_report(&mut self, now_ps: u64, report: Report) -> Option<Option<Protection>> {
        match self.monitor.on_sample(now_ps, self.received, report.frames) {
            Some(Action::Protect { copies, .. }) => self.wanted_copies = copies,
            Some(Action::Stop) => self.wanted_copies = 0,
            None => {}
        }
        let mode = self.mode?;
        if report.copies == self.ordered_copies {
            return None;
        }
        self.ordered_copies = report.copies;
        Some((report.copies > 0).then_some(Protection { mode, copies: report.copies }))
    }

    /// What to report, if it is time.
    pub(crate) fn poll(&mut self, now_ps: u64, sent_frames: u64) -> Option<Report> {
        if now_ps < self.next_report_ps {
            return None;
        }
        self.next_report_ps = now_ps + INTERVAL_PS;
        Some(Report { frames: sent_frames, copies: self.wanted_copies })
    }

    pub(crate) fn deadline(&self) -> u64 {
        self.next_report_ps
    }

    /// The loss rate measured, in parts of a billion.
    pub(crate) fn loss_per_billion(&self) -> u64 {
        (self.monitor.loss().to_f64() * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lossy_line_is_told_and_obeyed() {
        let config = MonitorConfig { window_frames: 10_000, least_losses: 3, ..MonitorConfig::prototype() };
        let mut near = Health::new(config, Some(Mode::Ordered));
        let mut far = Health::new(config, None);
        let (mut sent, mut now_ps) = (0, 0);
        let mut orders = Vec::new();
        for round in 0..20 {
            now_ps += INTERVAL_PS;
            for frame in 0..1000 {
                sent += 1;
                // One of a thousand is lost from the sixth round on.
                if round < 5 || frame > 0 {
                    far.count();
                }
            }
            let report = near.poll(now_ps, sent).expect("it is time");
            assert_eq!(far.on_report(now_ps, report), None);
            orders.extend(near.on_report(now_ps, far.poll(now_ps, 0).expect("it is time")));
        }
        let first = orders.first().copied().flatten();
        assert_eq!(first.map(|p| p.mode), Some(Mode::Ordered), "{orders:?}");
        assert_eq!(orders.last().copied().flatten().map(|p| p.copies), Some(2), "{orders:?}");
    }
}
