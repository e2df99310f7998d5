//! When to protect a link: its port counters over a moving window of frames, after LinkGuardian's
//! `corruptd`. The third machine; it protects no frame itself.
//!
//! With a window of W frames a loss rate below about 10/W is a matter of luck: n losses tell the rate
//! to about one part in the square root of n. [`Monitor::losses`] says how many there were.

use crate::rate::Probability;
use std::collections::VecDeque;

/// Pieces the window is kept in: it is right to about one part in so many.
const PIECES: u64 = 64;

/// Settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MonitorConfig {
    /// Frames looked back at.
    pub window_frames: u64,
    /// Protect from this loss rate on.
    pub activate: Probability,
    /// Stop at this one, which is lower, so that a link between the two does not go back and forth.
    pub deactivate: Probability,
    /// Losses that must be seen before anything is done about them.
    pub least_losses: u64,
    /// A decision stands at least so long, unless the loss gets worse.
    pub dwell_ps: u64,
    /// What the loss is to be brought down to.
    pub target: Probability,
}

impl MonitorConfig {
    /// As published: a window of 100 million frames, from a loss rate of 1e-8 on.
    pub fn published() -> MonitorConfig {
        MonitorConfig {
            window_frames: 100_000_000,
            activate: Probability::HEALTHY,
            deactivate: Probability::of(1, 1_000_000_000),
            least_losses: 1,
            dwell_ps: 60_000_000_000_000,
            target: Probability::HEALTHY,
        }
    }

    /// As the prototype had it: 10 million frames, from 1e-6 on.
    pub fn prototype() -> MonitorConfig {
        MonitorConfig {
            window_frames: 10_000_000,
            activate: Probability::of(1, 1_000_000),
            deactivate: Probability::of(1, 10_000_000),
            ..MonitorConfig::published()
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Protect, or protect with another number of copies.
    Protect {
        /// The loss rate that was measured.
        loss: Probability,
        /// Copies that it calls for.
        copies: u8,
    },
    /// The link is healthy again.
    Stop,
}

#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    frames: u64,
    lost: u64,
}

/// Watches the counters of one port.
#[derive(Clone, Debug)]
pub struct Monitor {
    config: MonitorConfig,
    pieces: VecDeque<Piece>,
    window: Piece,
    last: Option<(u64, u64)>,
    copies: Option<u8>,
    decided_ps: u64,
}

impl Monitor {
    /// Of a link that is not protected.
    pub fn new(config: MonitorConfig) -> Monitor {
        let pieces = VecDeque::with_capacity(PIECES as usize + 2);
        Monitor { config, pieces, window: Piece::default(), last: None, copies: None, decided_ps: 0 }
    }

    /// Losses in the window.
    pub fn losses(&self) -> u64 {
        self.window.lost
    }

    /// The loss rate in the window.
    pub fn loss(&self) -> Probability {
        Probability::of(self.window.lost, self.window.frames)
    }

    /// The counters now: frames received undamaged, and all. Counters that went back start anew.
    pub fn on_sample(&mut self, now_ps: u64, undamaged: u64, all: u64) -> Option<Action> {
        let (last_undamaged, last_all) = self.last.replace((undamaged, all)).unwrap_or((undamaged, all));
        let frames = all.checked_sub(last_all)?;
        let undamaged = undamaged.checked_sub(last_undamaged)?;
        self.add(Piece { frames, lost: frames.saturating_sub(undamaged) });
        self.decide(now_ps)
    }

    fn add(&mut self, new: Piece) {
        let piece_frames = self.config.window_frames / PIECES;
        match self.pieces.back_mut().filter(|p| p.frames < piece_frames) {
            Some(piece) => *piece = Piece { frames: piece.frames + new.frames, lost: piece.lost + new.lost },
            None => self.pieces.push_back(new),
        }
        self.window.frames += new.frames;
        self.window.lost += new.lost;
        while let Some(oldest) = self.pieces.front().copied() {
            if self.window.frames - oldest.frames < self.config.window_frames {
                break;
            }
            self.pieces.pop_front();
            self.window.frames -= oldest.frames;
            self.window.lost -= oldest.lost;
        }
    }

    fn decide(&mut self, now_ps: u64) -> Option<Action> {
        let loss = self.loss();
        let is_settled = now_ps >= self.decided_ps + self.config.dwell_ps;
        let wanted = loss.copies_for(self.config.target);
        let is_bad = self.window.lost >= self.config.least_losses && loss >= self.config.activate;
        let is_full = self.window.frames >= self.config.window_frames;
        let next = match self.copies {
            None if is_bad => Some(wanted),
            Some(copies) if is_bad && wanted > copies => Some(wanted),
            Some(copies) if is_bad && wanted < copies && is_settled && is_full => Some(wanted),
            Some(_) if is_full && is_settled && loss <= self.config.deactivate => None,
            unchanged => unchanged,
        };
        if next == self.copies {
            return None;
        }
        self.copies = next;
        self.decided_ps = now_ps;
        Some(next.map_or(Action::Stop, |copies| Action::Protect { loss, copies }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(text: &str) -> Probability {
        text.parse().unwrap()
    }

    /// A port, polled once a second while 1 million frames pass.
    struct Port {
        monitor: Monitor,
        now_ps: u64,
        undamaged: u64,
        all: u64,
    }

    impl Port {
        fn new() -> Port {
            let config = MonitorConfig { dwell_ps: 5_000_000_000_000, ..MonitorConfig::prototype() };
            let mut port = Port { monitor: Monitor::new(config), now_ps: 0, undamaged: 0, all: 0 };
            assert_eq!(port.monitor.on_sample(0, 0, 0), None);
            port.pass(0);
            port
        }

        fn pass(&mut self, lost: u64) -> Option<Action> {
            self.now_ps += 1_000_000_000_000;
            self.all += 1_000_000;
            self.undamaged += 1_000_000 - lost;
            self.monitor.on_sample(self.now_ps, self.undamaged, self.all)
        }
    }

    #[test]
    fn a_link_goes_bad_worse_and_well_again() {
        let mut port = Port::new();
        assert_eq!(port.pass(0), None);
        assert_eq!(port.pass(1), None); // 1 of 3 million
        let Some(Action::Protect { copies: 1, .. }) = port.pass(40) else { panic!() };
        let mut actions = Vec::new();
        for _ in 0..30 {
            actions.extend(port.pass(1000));
        }
        assert_eq!(actions.len(), 1, "{actions:?}"); // As soon as the window says 1e-4, 2 copies.
        assert!(matches!(actions[0], Action::Protect { copies: 2, .. }));
        assert_eq!(port.monitor.loss(), p("1e-3"));
        let actions: Vec<Action> = (0..30).filter_map(|_| port.pass(0)).collect();
        assert_eq!(actions.last(), Some(&Action::Stop), "{actions:?}");
        assert!((0..30).all(|_| port.pass(0).is_none()));
    }

    #[test]
    fn between_the_thresholds_nothing_changes() {
        let mut port = Port::new();
        port.pass(100);
        for second in 0..50 {
            // 0.5 of a million: above where it stops, below where it starts.
            let action = port.pass(second % 2);
            assert!(!matches!(action, Some(Action::Stop)), "second {second}");
        }
        assert!(port.monitor.losses() > 0);
    }

    #[test]
    fn counters_that_start_anew_are_no_loss() {
        let mut port = Port::new();
        (port.all, port.undamaged) = (0, 0);
        assert_eq!(port.monitor.on_sample(1, 0, 0), None);
        assert_eq!(port.monitor.losses(), 0);
        assert_eq!(port.pass(0), None);
    }
}
