//! What the receiver says: acknowledgements, notifications, pauses.

use super::copies::Resend;
use super::{Phase, Resending, Sender, hole_bit};
use crate::config::{CopyStore, Fidelity};
use crate::event::{Event, Log};
use crate::frame::{Ack, Frame, Loss, sync_tag};
use crate::sequence::{self, WireSequence};

impl<F: Frame, L: Log> Sender<F, L> {
    pub(super) fn on_ack(&mut self, now_ps: u64, ack: Ack) {
        if let Phase::Syncing { .. } = self.phase {
            let is_ours = ack.sync == sync_tag(self.epoch) && ack.leading == WireSequence::of(self.next - 1);
            if is_ours {
                self.phase = Phase::On;
                self.log.event(now_ps, Event::Agreed { epoch: self.epoch });
            }
            return;
        }
        self.acknowledge(now_ps, ack.leading);
    }

    fn acknowledge(&mut self, now_ps: u64, leading: WireSequence) {
        let acked = leading.near(self.next) + 1;
        if acked > self.next {
            self.stats.refused_controls += 1;
            return;
        }
        // Stale: a notification may overtake an acknowledgement. The original goes back with it.
        if acked == self.acked || (acked < self.acked && self.config.fidelity == Fidelity::Corrected) {
            return;
        }
        self.acked = acked;
        self.stats.acknowledgements += 1;
        self.probe_at_ps = now_ps + self.config.probe_ps.unwrap_or(0);
        if self.config.copy_store == CopyStore::Immediate {
            self.stats.freed_copies += self.copies.free_before(acked);
        }
        if self.phase == Phase::Draining && acked == self.next {
            self.phase = Phase::Off;
        }
    }

    pub(super) fn on_loss(&mut self, now_ps: u64, loss: Loss) {
        let leading = loss.leading.near(self.next);
        if leading >= self.next || matches!(self.phase, Phase::Off | Phase::Syncing { .. }) {
            self.stats.refused_controls += 1;
            return;
        }
        self.stats.notifications += 1;
        let first = sequence::last_with_low(loss.first, leading);
        self.log.event(now_ps, Event::Asked { first, count: loss.count.into() });
        let count = loss.count.min(self.config.max_burst.unwrap_or(u8::MAX));
        for place in 0..u64::from(count) {
            self.want(now_ps, first + place, place as usize);
        }
        if self.config.fidelity == Fidelity::Original {
            self.acknowledge(now_ps, loss.leading);
        }
    }

    fn want(&mut self, now_ps: u64, sequence: u64, place: usize) {
        let places = self.stats.retransmitted_by_place.len();
        self.stats.retransmitted_by_place[place.min(places - 1)] += 1;
        match (self.config.copy_store, self.config.fidelity) {
            (CopyStore::Ring, _) => {
                let (word, bit) = hole_bit(sequence);
                self.holes[word] |= bit;
            }
            (CopyStore::Immediate, Fidelity::Original) => self.resend_and_free(now_ps, sequence),
            (CopyStore::Immediate, Fidelity::Corrected) => self.resend(now_ps, sequence),
        }
    }

    /// One chance for each copy.
    pub(super) fn resend_and_free(&mut self, now_ps: u64, sequence: u64) {
        match self.copies.take(sequence) {
            Some(frame) => self.queue_copies(sequence, frame),
            None => self.miss(now_ps, sequence),
        }
    }

    fn resend(&mut self, now_ps: u64, sequence: u64) {
        match self.copies.resend(sequence, now_ps, self.config.resend_guard_ps) {
            Resend::Copy(frame) => self.queue_copies(sequence, frame),
            Resend::Gone => self.miss(now_ps, sequence),
            Resend::TooSoon => {}
        }
    }

    fn miss(&mut self, now_ps: u64, sequence: u64) {
        self.stats.missed_frames += 1;
        self.log.event(now_ps, Event::Missed { sequence });
    }

    fn queue_copies(&mut self, sequence: u64, frame: F) {
        let copies = self.protection.copies;
        if copies == 0 || self.resending.len() == self.resending.capacity() {
            return;
        }
        self.stats.retransmitted_frames += 1;
        self.resending.push_back(Resending { sequence, frame, copy: 1, copies });
    }

    pub(super) fn on_pause(&mut self, now_ps: u64, quanta: u16) {
        let was_paused = self.is_paused(now_ps);
        let length_ps = u64::from(quanta) * self.config.quantum_ps;
        self.paused_until_ps = if quanta == 0 { 0 } else { now_ps + length_ps };
        match (was_paused, quanta) {
            (false, 0) => {}
            (true, 0) => self.log.event(now_ps, Event::Resumed),
            (false, _) => {
                self.stats.pauses += 1;
                self.log.event(now_ps, Event::Stopped);
            }
            (true, _) => {}
        }
    }
}
