//! When frames are protected: off, agreeing with the receiver where to begin, on, and off again.

use super::Sender;
use crate::config::Protection;
use crate::event::{Event, Log};
use crate::frame::{Frame, LinkFrame};
use crate::sequence::FIRST;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Frames go as they come.
    Off,
    /// As long as the receiver has not agreed; asked for at this time next.
    Syncing { retry_at_ps: u64 },
    /// Frames are numbered.
    On,
    /// Off as soon as all is acknowledged.
    Draining,
}

impl<F: Frame, L: Log> Sender<F, L> {
    /// Starts to protect, or changes how: at once if it does already or there is no handshake.
    pub fn enable(&mut self, now_ps: u64, protection: Protection) {
        self.protection = protection;
        match (self.phase, self.config.handshake) {
            (Phase::On | Phase::Syncing { .. }, _) => {}
            (Phase::Draining, _) | (Phase::Off, None) => self.phase = Phase::On,
            (Phase::Off, Some(_)) => self.begin(now_ps),
        }
    }

    /// Stops to protect; what is kept can still be asked for.
    pub fn disable(&mut self) {
        self.phase = if self.acked < self.next && self.is_numbering() { Phase::Draining } else { Phase::Off };
    }

    /// Whether frames get numbers now.
    pub fn is_numbering(&self) -> bool {
        self.phase == Phase::On
    }

    /// Asks the receiver to begin; old copies mean nothing to it.
    pub(super) fn begin(&mut self, now_ps: u64) {
        self.epoch += 1;
        self.next = self.next.div_ceil(FIRST) * FIRST;
        self.acked = self.next;
        self.copies.restart(self.next);
        self.resending.clear();
        self.dummies_left = 0;
        self.phase = Phase::Syncing { retry_at_ps: now_ps };
        self.stats.handshakes += 1;
        self.log.event(now_ps, Event::Began { next: self.next, epoch: self.epoch });
    }

    pub(super) fn next_sync(&mut self, now_ps: u64, retry_at_ps: u64) -> Option<LinkFrame<F>> {
        let handshake = self.config.handshake?;
        if now_ps < retry_at_ps {
            return None;
        }
        self.phase = Phase::Syncing { retry_at_ps: now_ps + handshake.retry_ps };
        Some(LinkFrame::Sync { header: self.header(self.next, false), epoch: self.epoch })
    }
}
