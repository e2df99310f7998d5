//! The sender's switch: the port takes frames, copies go round and are sent again.

use super::{Carried, ProtectedLink};
use crate::link::timing::HEADER_BYTES;
use karakoram_link::frame::LinkFrame;
use karakoram_link::sender::Visit;
use karakoram_link::{LinkSender, Log};

impl<F: Carried, L: Log> ProtectedLink<F, L> {
    /// The port may have room.
    #[inline]
    pub(super) fn offer(&mut self, now: u64) {
        self.transmit_at = self.transmit_at.min(self.wire.ready_at().max(now));
    }

    #[inline]
    pub(super) fn transmit(&mut self, now: u64) {
        let is_marked = self.sender.queue_cells() >= self.mark_cells;
        let Some(frame) = self.sender.poll_transmit(now) else {
            self.wait(now);
            return;
        };
        self.transmit_at = self.wire.ready_at().max(now);
        self.commit(now, frame, is_marked);
        self.transmit_at = self.wire.ready_at().max(now);
        if self.sender.queue_cells() == 0 && self.sender.is_quiet() {
            self.wait(now);
        }
    }

    /// Nothing to send: until something comes, or a dummy is due.
    #[inline]
    pub(super) fn wait(&mut self, now: u64) {
        let at = self.sender.next_deadline().unwrap_or(u64::MAX);
        self.transmit_at = if at == u64::MAX { at } else { at.max(self.wire.ready_at()).max(now + 1) };
    }

    #[inline]
    pub(super) fn commit(&mut self, now: u64, mut frame: LinkFrame<F>, is_marked: bool) {
        let time = match &mut frame {
            LinkFrame::Data { frame, .. } => {
                if is_marked {
                    frame.mark();
                }
                self.timing.rate.frame(frame.bytes().into(), HEADER_BYTES)
            }
            LinkFrame::Plain(frame) => {
                if is_marked {
                    frame.mark();
                }
                self.timing.rate.frame(frame.bytes().into(), 0)
            }
            LinkFrame::Dummy(_) | LinkFrame::Sync { .. } => self.timing.rate.frame(0, 0),
        };
        let is_copy = matches!(&frame, LinkFrame::Data { header, .. } if header.is_retransmission);
        let (start, end, is_lost) = self.wire.commit(now, time, is_copy);
        self.account(start, &frame, is_lost);
        if !is_lost {
            self.arrivals.push(end + self.timing.propagation, frame);
        }
    }

    #[inline]
    pub(super) fn account(&mut self, start: u64, frame: &LinkFrame<F>, is_lost: bool) {
        let is_first = match frame {
            LinkFrame::Data { header, frame } if !header.is_retransmission => {
                self.mirror(start, frame.bytes());
                true
            }
            LinkFrame::Plain(_) => true,
            _ => false,
        };
        self.counters.sent += u64::from(is_first);
        if is_lost {
            self.counters.lost += u64::from(is_first);
            self.counters.lost_others += u64::from(!is_first);
            if is_first && self.is_protected {
                self.losses.lose(self.sender.next_sequence() - 1);
            }
        }
    }

    #[inline]
    pub(super) fn mirror(&mut self, start: u64, bytes: u32) {
        if self.has_copy_ring {
            let time = self.timing.ring_rate.frame(bytes.into(), HEADER_BYTES);
            self.copies.enter(start + self.timing.mirror - time, self.sender.next_sequence() - 1, time);
        } else {
            self.copy_bytes.set(start, self.sender.copy_bytes());
        }
    }

    #[inline]
    pub(super) fn look_at_copy(&mut self, now: u64) {
        let waiting = self.copies.waiting(now);
        let Some((sequence, time)) = self.copies.pop() else { return };
        let bytes = time / self.timing.ring_rate.time(1);
        self.copy_bytes.set(now, waiting * bytes);
        if self.losses.is_wanted(sequence) {
            self.wanted.push(now + self.requeue, sequence);
        } else if self.sender.visit(now, sequence) == Visit::Keep {
            self.copies.stay(now + self.timing.copy_round - time, sequence, time);
        }
    }

    pub(super) fn resend(&mut self, now: u64) {
        if let Some((_, sequence)) = self.wanted.pop() {
            self.losses.forget_wanted(sequence);
            self.sender.visit(now, sequence);
            self.offer(now);
        }
    }
}
