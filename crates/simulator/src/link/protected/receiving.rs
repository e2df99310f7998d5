//! What the two switches hear of each other: frames arrive, frames that wait go round, and the receiver's
//! messages reach the sender.

use super::{Carried, ProtectedLink};
use crate::link::timing::HEADER_BYTES;
use karakoram_link::frame::{Arrival, Control, Slot};
use karakoram_link::receiver::Visited;
use karakoram_link::{LinkReceiver, LinkSender, Log};

impl<F: Carried, L: Log> ProtectedLink<F, L> {
    #[inline]
    pub(super) fn control(&mut self, now: u64, line: usize) {
        let line = match line {
            0 => &mut self.acknowledgements,
            1 => &mut self.notifications,
            _ => &mut self.pauses,
        };
        let Some((_, control)) = line.pop() else { return };
        if let Control::Loss(_) = control {
            self.forget_overtaken(now);
        }
        self.sender.on_control(now, control);
        match control {
            Control::Ack(_) if !self.has_copy_ring => self.copy_bytes.set(now, self.sender.copy_bytes()),
            Control::Ack(_) => {}
            Control::Pause { quanta } => {
                self.on_pause(now, quanta > 0);
                self.offer(now);
            }
            Control::Loss(loss) => {
                if self.has_copy_ring {
                    self.losses.want(loss, self.sender.next_sequence());
                }
                self.offer(now);
            }
            Control::Replay(_) => self.offer(now),
        }
    }

    /// Both go the same way in the switches, and when it notifies, the receiver takes back what it was about to
    /// acknowledge: that notifications take less time than acknowledgements here must not make old ones of them.
    fn forget_overtaken(&mut self, now: u64) {
        let sent_before = now + self.timing.acknowledgement.saturating_sub(self.timing.notification);
        while self.acknowledgements.next() <= sent_before {
            self.acknowledgements.pop();
        }
    }

    pub(super) fn on_pause(&mut self, now: u64, is_stopped: bool) {
        match (is_stopped, self.stopped_since) {
            (true, None) => self.stopped_since = Some(now),
            (false, Some(since)) => {
                self.counters.stopped += now - since;
                self.stopped_since = None;
            }
            _ => {}
        }
    }

    #[inline]
    pub(super) fn arrive(&mut self, now: u64, sink: &mut impl FnMut(u64, F)) {
        let Some((_, frame)) = self.arrivals.pop() else { return };
        let is_again = self.losses.arrive(now, &frame, self.receiver.due_sequence());
        match self.receiver.on_frame(now, frame) {
            Arrival::Deliver(frame) => {
                self.counters.repeated += u64::from(is_again && !self.is_ordered);
                self.counters.delivered += u64::from(!is_again || self.is_ordered);
                self.hand_on(now, frame, sink);
            }
            Arrival::Held if self.has_reorder_ring => {
                let (bytes, cells) = self.losses.held;
                self.ring.enter(now, bytes, cells);
                self.waiting_bytes.set(now, self.ring.queued_bytes());
            }
            Arrival::Held | Arrival::Consumed | Arrival::Dropped(_) => {}
        }
        self.after_receiver(now, sink);
    }

    #[inline]
    pub(super) fn hand_on(&mut self, now: u64, frame: F, sink: &mut impl FnMut(u64, F)) {
        self.counters.delivered_bytes += u64::from(frame.bytes());
        sink(now, frame);
    }

    pub(super) fn look_at_ring(&mut self, now: u64, sink: &mut impl FnMut(u64, F)) {
        let Some((bytes, cells)) = self.ring.look() else { return };
        match self.receiver.visit(now) {
            Some(Visited::Deliver(frame)) => {
                self.counters.delivered += 1;
                self.hand_on(now, frame, sink);
            }
            Some(Visited::Again) => self.ring.enter(now, bytes, cells),
            Some(Visited::Dropped(_)) | None => {}
        }
        self.waiting_bytes.set(now, self.ring.queued_bytes());
        self.after_receiver(now, sink);
    }

    pub(super) fn depart(&mut self, now: u64) {
        let time = self.timing.ring_rate.frame(self.ring.head_bytes(), HEADER_BYTES);
        let depth = self.ring.depart(now, time, self.timing.reorder_round);
        self.receiver.ring_depth(now, depth);
        self.waiting_bytes.set(now, self.ring.queued_bytes());
        self.send_urgent(now);
    }

    /// What is due leaves, and what there is to say is said.
    #[inline]
    pub(super) fn after_receiver(&mut self, now: u64, sink: &mut impl FnMut(u64, F)) {
        if !self.is_protected {
            return;
        }
        if !self.has_reorder_ring {
            while let Some(frame) = self.receiver.poll_deliver(now) {
                self.counters.delivered += 1;
                self.hand_on(now, frame, sink);
            }
            if self.is_ordered {
                self.waiting_bytes.set(now, self.receiver.waiting_bytes());
            }
        }
        self.send_urgent(now);
        if let Some(control) = self.receiver.poll_control(now, Slot::Idle) {
            self.acknowledgements.push(now + self.timing.acknowledgement, control);
        }
        self.timer_at = self.receiver.next_deadline().unwrap_or(u64::MAX);
    }

    #[inline]
    pub(super) fn send_urgent(&mut self, now: u64) {
        while let Some(control) = self.receiver.poll_control(now, Slot::Urgent) {
            match control {
                Control::Pause { .. } => {
                    let tick = now.next_multiple_of(self.timing.tick);
                    self.pauses.push(tick + self.timing.pause, control);
                }
                Control::Ack(_) => self.acknowledgements.push(now + self.timing.acknowledgement, control),
                Control::Loss(_) | Control::Replay(_) => {
                    self.notifications.push(now + self.timing.notification, control);
                }
            }
        }
    }
}
