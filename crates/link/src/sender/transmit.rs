//! What goes on the link next: copies that are wanted, numbered frames, dummies.

use super::{MOST_OUTSTANDING, Sender};
use crate::config::Fidelity;
use crate::event::{Event, Log};
use crate::frame::{DataHeader, Frame, LinkFrame};
use crate::sequence::WireSequence;

impl<F: Frame, L: Log> Sender<F, L> {
    /// Whether one more frame can be kept. The original sends it anyway, and loses an older copy.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.config.fidelity == Fidelity::Original || self.outstanding() < self.copies.capacity()
    }

    pub(super) fn header(&self, sequence: u64, is_retransmission: bool) -> DataHeader {
        DataHeader { sequence: WireSequence::of(sequence), is_retransmission, mode: self.protection.mode }
    }

    pub(super) fn next_copy(&mut self, now_ps: u64) -> Option<LinkFrame<F>> {
        let head = self.resending.front_mut()?;
        let (sequence, copy) = (head.sequence, head.copy);
        head.copy += 1;
        let frame = if copy < head.copies { head.frame.clone() } else { self.resending.pop_front()?.frame };
        self.stats.retransmitted_copies += 1;
        self.log.event(now_ps, Event::Retransmitted { sequence, copy });
        Some(LinkFrame::Data { header: self.header(sequence, true), frame })
    }

    #[inline]
    pub(super) fn next_numbered(&mut self, now_ps: u64) -> Option<LinkFrame<F>> {
        let frame = self.queue.pop()?;
        let sequence = self.next;
        self.next += 1;
        self.stats.evicted_copies += u64::from(self.copies.push(frame.clone()));
        self.stats.peak_copy_bytes = self.stats.peak_copy_bytes.max(self.copies.bytes());
        self.stats.frames += 1;
        self.dummies_left = self.config.dummies;
        self.wait_from(now_ps);
        self.log.event(now_ps, Event::Sent { sequence });
        if self.config.handshake.is_some() && self.outstanding() >= MOST_OUTSTANDING {
            self.begin(now_ps);
        }
        Some(LinkFrame::Data { header: self.header(sequence, false), frame })
    }

    #[inline]
    fn wait_from(&mut self, now_ps: u64) {
        self.dummy_at_ps = now_ps + self.config.dummy_delay_ps;
        self.probe_at_ps = now_ps + self.config.probe_ps.unwrap_or(0);
    }

    pub(super) fn next_dummy(&mut self, now_ps: u64) -> Option<LinkFrame<F>> {
        if self.dummies_left == 0 || now_ps < self.dummy_at_ps {
            return None;
        }
        self.dummies_left -= 1;
        self.stats.dummies += 1;
        self.wait_from(now_ps);
        self.log.event(now_ps, Event::Probed { next: self.next });
        Some(LinkFrame::Dummy(self.header(self.next, false)))
    }

    pub(super) fn next_plain(&mut self) -> Option<LinkFrame<F>> {
        let frame = self.queue.pop()?;
        self.stats.plain_frames += 1;
        Some(LinkFrame::Plain(frame))
    }
}
