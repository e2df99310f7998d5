//! A frame arrives: is something missing before it, and is it its turn?

use super::Receiver;
use super::gaps::Notice;
use crate::config::{Fidelity, Mode, Reorder};
use crate::event::{Event, Log};
use crate::frame::{Arrival, DataHeader, Frame};
use std::cmp::Ordering;

impl<F: Frame, L: Log> Receiver<F, L> {
    #[inline]
    pub(super) fn on_data(&mut self, now_ps: u64, header: DataHeader, frame: F) -> Arrival<F> {
        self.stats.frames += 1;
        self.set_mode(now_ps, header.mode);
        if !self.is_begun {
            self.adopt(now_ps, header.sequence);
        }
        let sequence = match self.config.fidelity {
            Fidelity::Original => self.detect_original(now_ps, header),
            Fidelity::Corrected => self.detect(now_ps, header),
        };
        match (sequence, header.mode) {
            (None, _) => Arrival::Dropped(frame),
            (Some(sequence), Mode::Ordered) => {
                self.stats.ordered_frames += 1;
                self.order(now_ps, sequence, frame)
            }
            (Some(sequence), Mode::NonBlocking) => self.pass(now_ps, sequence, frame),
        }
    }

    pub(super) fn on_dummy(&mut self, now_ps: u64, header: DataHeader) {
        self.stats.dummies += 1;
        if !self.is_begun {
            self.adopt(now_ps, header.sequence);
        }
        if self.config.fidelity == Fidelity::Original {
            let distance = header.sequence.distance_16(self.expected);
            if distance > 0 {
                let next = self.expected + distance;
                self.miss(now_ps, next, next - 1);
            }
            return;
        }
        let next = header.sequence.near(self.expected).min(self.due + self.slots.window());
        if next > self.expected {
            self.miss(now_ps, next, next - 1);
        }
        self.acknowledgements_left = self.config.acknowledgements;
    }

    /// Looks for a gap before a frame; says its number, if it is wanted.
    #[inline]
    fn detect(&mut self, now_ps: u64, header: DataHeader) -> Option<u64> {
        let sequence = header.sequence.near(self.expected);
        self.acknowledgements_left = self.config.acknowledgements;
        if sequence < self.expected {
            return Some(sequence);
        }
        if header.is_retransmission {
            self.stats.refused_frames += 1;
            return None;
        }
        let room_end = self.due + self.slots.window();
        if sequence > self.expected {
            self.miss(now_ps, sequence.min(room_end), sequence);
        }
        if sequence >= room_end {
            self.overflow(now_ps, sequence);
            return None;
        }
        self.expected = sequence + 1;
        Some(sequence)
    }

    /// The same, as the original does it.
    #[inline]
    fn detect_original(&mut self, now_ps: u64, header: DataHeader) -> Option<u64> {
        if header.is_retransmission {
            return Some(header.sequence.near(self.expected));
        }
        let sequence = self.expected + header.sequence.distance_16(self.expected);
        if sequence > self.expected {
            self.miss(now_ps, sequence, sequence);
            self.acknowledgements_left = 0;
        } else {
            self.leading = sequence;
            self.acknowledgements_left = self.config.acknowledgements;
        }
        self.expected = sequence + 1;
        Some(sequence)
    }

    /// All from the expected number up to `end` are missing; `leading` is known to have been sent.
    fn miss(&mut self, now_ps: u64, end: u64, leading: u64) {
        let (first, count) = (self.expected, end - self.expected);
        if count == 0 {
            return;
        }
        self.stats.gaps += 1;
        let longest = self.stats.gaps_by_length.len() as u64 - 1;
        self.stats.gaps_by_length[count.min(longest) as usize] += 1;
        self.stats.lost_frames += count;
        self.log.event(now_ps, Event::Lost { first, count });
        self.expected = end;
        if self.config.fidelity == Fidelity::Corrected {
            self.gaps.push(now_ps, first, end);
        }
        self.notify(first, count, leading);
    }

    pub(super) fn notify(&mut self, first: u64, count: u64, leading: u64) {
        let notice = Notice { first, count, leading, times_left: self.config.notifications };
        self.stats.dropped_notifications += u64::from(!self.notices.push(notice));
    }

    #[inline]
    fn order(&mut self, now_ps: u64, sequence: u64, frame: F) -> Arrival<F> {
        match self.defects.compare(sequence, self.due) {
            Ordering::Equal => {
                self.stats.recovered_frames += u64::from(sequence + 1 < self.expected);
                self.deliver_due(now_ps);
                Arrival::Deliver(frame)
            }
            Ordering::Less => {
                self.duplicate(now_ps, sequence);
                Arrival::Dropped(frame)
            }
            Ordering::Greater => self.hold(now_ps, sequence, frame),
        }
    }

    fn hold(&mut self, now_ps: u64, sequence: u64, frame: F) -> Arrival<F> {
        self.arm(now_ps);
        if self.config.reorder == Reorder::Ring {
            if self.ring.len() == self.ring.capacity() {
                self.overflow(now_ps, sequence);
                return Arrival::Dropped(frame);
            }
            self.ring.push_back((sequence, frame));
            return Arrival::Held;
        }
        if sequence >= self.due + self.slots.window() {
            self.overflow(now_ps, sequence);
            return Arrival::Dropped(frame);
        }
        if sequence < self.due || !self.slots.is_missing(sequence) {
            self.duplicate(now_ps, sequence);
            return Arrival::Dropped(frame);
        }
        self.stats.recovered_frames += u64::from(sequence + 1 < self.expected);
        self.slots.hold(sequence, frame);
        self.stats.peak_waiting_bytes = self.stats.peak_waiting_bytes.max(self.slots.bytes());
        self.press(now_ps, self.slots.cells());
        Arrival::Held
    }

    /// Without order: everything passes, once.
    #[inline]
    fn pass(&mut self, now_ps: u64, sequence: u64, frame: F) -> Arrival<F> {
        if self.config.fidelity == Fidelity::Original && !self.config.drops_duplicates {
            self.due = self.expected;
            self.stats.delivered_frames += 1;
            self.log.event(now_ps, Event::Delivered { sequence });
            return Arrival::Deliver(frame);
        }
        let is_new = sequence >= self.due && sequence < self.due + self.slots.window();
        if !is_new || !self.slots.is_missing(sequence) {
            self.duplicate(now_ps, sequence);
            return Arrival::Dropped(frame);
        }
        self.stats.recovered_frames += u64::from(sequence + 1 < self.expected);
        self.stats.delivered_frames += 1;
        self.log.event(now_ps, Event::Delivered { sequence });
        if sequence == self.due {
            self.settle(now_ps);
        } else {
            self.arm(now_ps);
            self.slots.mark(sequence);
        }
        Arrival::Deliver(frame)
    }

    #[inline]
    pub(super) fn deliver_due(&mut self, now_ps: u64) {
        self.log.event(now_ps, Event::Delivered { sequence: self.due });
        self.stats.delivered_frames += 1;
        self.settle(now_ps);
    }

    /// The due number is dealt with.
    #[inline]
    pub(super) fn settle(&mut self, now_ps: u64) {
        self.due += 1;
        self.expected = self.expected.max(self.due);
        if !self.gaps.is_empty() {
            self.gaps.head(self.due);
        }
        self.timeout_at_ps = None;
        self.arm(now_ps);
    }

    pub(super) fn duplicate(&mut self, now_ps: u64, sequence: u64) {
        self.stats.duplicates += 1;
        self.log.event(now_ps, Event::Duplicate { sequence });
    }

    fn overflow(&mut self, now_ps: u64, sequence: u64) {
        self.stats.overflows += 1;
        self.log.event(now_ps, Event::Overflow { sequence });
    }
}
