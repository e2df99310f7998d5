//! Leaping over stretches without loss. When a link is in a state in which it was before, but for
//! the time and the numbers of frames, and nothing was lost in between, then it will come to that
//! state again and again until the next frame is corrupted. So all but the last of these rounds can
//! be left out: times, numbers and counters move on by as many rounds. The result is the same as
//! going through them, to the bit.

use super::occupancy::Occupancy;
use super::protected::{Carried, Counters, ProtectedLink};
use karakoram_link::frame::{Ack, Control, LinkFrame};
use karakoram_link::receiver::ReceiverStats;
use karakoram_link::sender::SenderStats;
use karakoram_link::{LinkSender, Log, WireSequence};

/// A moment of a link without losses under way.
pub struct Moment {
    now: u64,
    next: u64,
    phase: Vec<u64>,
    position: u64,
    busy: u64,
    passes: [u64; 2],
    counters: Counters,
    occupancies: [Occupancy; 2],
    stats: (SenderStats, ReceiverStats),
}

impl Moment {
    /// When it was.
    pub fn now(&self) -> u64 {
        self.now
    }
}

impl<F: Carried, L: Log> ProtectedLink<F, L> {
    /// Whether nothing is under way because of a loss: only then the link may repeat itself.
    pub fn is_quiet(&self) -> bool {
        let has_no_control = self.notifications.next() == u64::MAX && self.pauses.next() == u64::MAX;
        let is_settled = self.wanted.next() == u64::MAX && self.ring.is_empty() && self.timer_at == u64::MAX;
        let is_plain = |f: &LinkFrame<F>| matches!(f, LinkFrame::Data { header, .. } if !header.is_retransmission);
        has_no_control
            && is_settled
            && self.losses.is_quiet()
            && self.sender.is_quiet()
            && self.receiver.is_quiet()
            && self.sender.next_sequence() - self.receiver.due_sequence() == self.arrivals.iter().count() as u64
            && self.arrivals.iter().all(|(_, frame)| is_plain(frame))
    }

    /// Frames that may leave before the next one is corrupted.
    pub fn frames_before_loss(&self) -> u64 {
        self.wire.next_loss() - self.wire.position
    }

    /// Remembers this moment, in which the link is quiet.
    pub fn remember(&self, now: u64) -> Moment {
        Moment {
            now,
            next: self.sender.next_sequence(),
            phase: self.phase(now).collect(),
            position: self.wire.position,
            busy: self.wire.busy,
            passes: self.ring_passes(),
            counters: self.counters,
            occupancies: [self.copy_bytes.clone(), self.waiting_bytes.clone()],
            stats: (*self.sender.stats(), *self.receiver.stats()),
        }
    }

    /// Whether the link, quiet now and without losses since, is as it was then.
    pub fn is_like(&self, moment: &Moment, now: u64) -> bool {
        let lost = |c: &Counters| c.lost + c.lost_others;
        lost(&self.counters) == lost(&moment.counters) && self.phase(now).eq(moment.phase.iter().copied())
    }

    /// How many frames left since.
    pub fn frames_since(&self, moment: &Moment) -> u64 {
        self.wire.position - moment.position
    }

    /// Everything that decides what comes next, relative to now and to the next number.
    fn phase(&self, now: u64) -> impl Iterator<Item = u64> + '_ {
        let next = self.sender.next_sequence();
        let ahead = move |at: u64| if at == u64::MAX { at } else { at.saturating_sub(now) };
        let deadline = self.sender.next_deadline().map_or(u64::MAX, ahead);
        let state = self.receiver.state(now);
        let leading = WireSequence::from_fields(state.leading_era, state.leading);
        let leading = next - leading.near(next);
        let small = [
            self.sender.queue_cells().into(),
            self.sender.outstanding(),
            self.sender.copy_bytes(),
            next - self.receiver.due_sequence(),
            ahead(self.transmit_at),
            deadline,
            state.acknowledgements_left.into(),
            leading,
        ];
        let arrivals = self.arrivals.iter().flat_map(move |(at, frame)| {
            let bytes = if let LinkFrame::Data { frame, .. } = frame { frame.bytes() } else { 0 };
            [at - now, bytes.into()]
        });
        let acks = self.acknowledgements.iter().flat_map(move |(at, control)| match control {
            Control::Ack(ack) => [at - now, next - ack.leading.near(next)],
            _ => [at - now, u64::MAX],
        });
        let held = [self.copy_bytes.bytes(), self.waiting_bytes.bytes()];
        let wire = self.wire.phase(now);
        small.into_iter().chain(wire).chain(acks).chain(arrivals).chain(self.copies.phase(now, next)).chain(held)
    }

    /// Lives through the time since `moment` again, so many times.
    pub fn repeat(&mut self, moment: &Moment, now: u64, times: u64) {
        let next = self.sender.next_sequence();
        let elapsed = (now - moment.now) * times;
        let frames = (next - moment.next) * times;
        self.shift_under_way(next, frames, elapsed);
        let passes = self.ring_passes();
        self.copies.skip(elapsed, frames, (passes[0] - moment.passes[0]) * times);
        let position = (self.wire.position - moment.position) * times;
        self.wire.skip(elapsed, position, (self.wire.busy - moment.busy) * times);
        self.losses.skip(frames);
        self.counters.repeat(&moment.counters, times);
        self.copy_bytes.repeat(&moment.occupancies[0], moment.now, now, times);
        self.waiting_bytes.repeat(&moment.occupancies[1], moment.now, now, times);
        self.sender.fast_forward(&moment.stats.0, times, frames, elapsed);
        self.receiver.fast_forward(&moment.stats.1, times, frames);
    }

    fn shift_under_way(&mut self, next: u64, frames: u64, elapsed: u64) {
        if self.transmit_at != u64::MAX {
            self.transmit_at += elapsed;
        }
        let shift = |s: WireSequence| WireSequence::of(s.near(next) + frames);
        for (at, frame) in self.arrivals.iter_mut() {
            *at += elapsed;
            if let LinkFrame::Data { header, .. } = frame {
                header.sequence = shift(header.sequence);
            }
        }
        for (at, control) in self.acknowledgements.iter_mut() {
            *at += elapsed;
            if let Control::Ack(Ack { leading, .. }) = control {
                *leading = shift(*leading);
            }
        }
    }
}

impl Counters {
    fn repeat(&mut self, before: &Counters, times: u64) {
        self.sent += (self.sent - before.sent) * times;
        self.delivered += (self.delivered - before.delivered) * times;
        self.delivered_bytes += (self.delivered_bytes - before.delivered_bytes) * times;
    }
}
