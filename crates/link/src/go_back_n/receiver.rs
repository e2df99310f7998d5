//! The end that takes frames in their turn only.

use crate::event::{Event, Log};
use crate::frame::{Ack, Arrival, Control, DataHeader, Frame, LinkFrame, Slot, sync_tag};
use crate::protocol::LinkReceiver;
use crate::sequence::{FIRST, WireSequence};

/// Numbers of things since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GoBackReceiverStats {
    /// Frames handed on.
    pub delivered_frames: u64,
    /// Frames that came after a lost one, and were thrown away.
    pub early_frames: u64,
    /// Frames that had come before.
    pub duplicates: u64,
    /// Replays asked for.
    pub replay_requests: u64,
    /// Beginnings of a sender that were followed.
    pub handshakes: u64,
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct GoBackReceiver<L = ()> {
    expected: u64,
    epoch: Option<u64>,
    /// A replay was asked for, and what was asked for has not come.
    has_asked: bool,
    wants_replay: bool,
    wants_ack: bool,
    sync_reply: Option<u8>,
    stats: GoBackReceiverStats,
    log: L,
}

impl Default for GoBackReceiver {
    fn default() -> GoBackReceiver {
        GoBackReceiver::with_log(())
    }
}

impl<L: Log> GoBackReceiver<L> {
    /// A receiver that tells what happens.
    pub fn with_log(log: L) -> GoBackReceiver<L> {
        GoBackReceiver {
            expected: FIRST,
            epoch: None,
            has_asked: false,
            wants_replay: false,
            wants_ack: false,
            sync_reply: None,
            stats: GoBackReceiverStats::default(),
            log,
        }
    }

    /// Counters.
    pub fn stats(&self) -> &GoBackReceiverStats {
        &self.stats
    }

    /// The log.
    pub fn log(&mut self) -> &mut L {
        &mut self.log
    }

    fn on_sync(&mut self, now_ps: u64, header: DataHeader, epoch: u64) {
        if self.epoch.is_none_or(|known| epoch > known) {
            self.epoch = Some(epoch);
            self.expected = header.sequence.at_or_after(self.expected);
            (self.has_asked, self.wants_replay) = (false, false);
            self.stats.handshakes += 1;
            self.log.event(now_ps, Event::Adopted { next: self.expected, epoch });
        }
        if self.epoch == Some(epoch) && self.expected == header.sequence.near(self.expected) {
            self.sync_reply = Some(sync_tag(epoch));
        }
    }

    fn on_data<F>(&mut self, now_ps: u64, header: DataHeader, frame: F) -> Arrival<F> {
        let sequence = header.sequence.near(self.expected);
        match sequence.cmp(&self.expected) {
            _ if self.epoch.is_none() => Arrival::Dropped(frame),
            std::cmp::Ordering::Equal => {
                self.expected += 1;
                self.has_asked = false;
                self.wants_replay = false;
                self.wants_ack = true;
                self.stats.delivered_frames += 1;
                self.log.event(now_ps, Event::Delivered { sequence });
                Arrival::Deliver(frame)
            }
            std::cmp::Ordering::Greater => {
                self.stats.early_frames += 1;
                if !self.has_asked {
                    self.has_asked = true;
                    self.wants_replay = true;
                    self.log.event(now_ps, Event::Lost { first: self.expected, count: sequence - self.expected });
                }
                Arrival::Dropped(frame)
            }
            std::cmp::Ordering::Less => {
                self.stats.duplicates += 1;
                self.wants_ack = true;
                self.log.event(now_ps, Event::Duplicate { sequence });
                Arrival::Dropped(frame)
            }
        }
    }

    fn ack(&self, sync: u8, is_piggybacked: bool) -> Control {
        Control::Ack(Ack { leading: WireSequence::of(self.expected - 1), is_piggybacked, sync })
    }

    fn urgent(&mut self, now_ps: u64) -> Option<Control> {
        if let Some(sync) = self.sync_reply.take() {
            return Some(self.ack(sync, false));
        }
        if !std::mem::take(&mut self.wants_replay) {
            return None;
        }
        self.stats.replay_requests += 1;
        self.log.event(now_ps, Event::Notified { first: self.expected, count: 1 });
        Some(Control::Replay(WireSequence::of(self.expected)))
    }
}

impl<F: Frame, L: Log> LinkReceiver<F> for GoBackReceiver<L> {
    fn on_frame(&mut self, now_ps: u64, frame: LinkFrame<F>) -> Arrival<F> {
        match frame {
            LinkFrame::Data { header, frame } => self.on_data(now_ps, header, frame),
            LinkFrame::Plain(frame) => Arrival::Deliver(frame),
            LinkFrame::Dummy(_) => Arrival::Consumed,
            LinkFrame::Sync { header, epoch } => {
                self.on_sync(now_ps, header, epoch);
                Arrival::Consumed
            }
        }
    }

    fn poll_deliver(&mut self, _now_ps: u64) -> Option<F> {
        None
    }

    fn poll_control(&mut self, now_ps: u64, slot: Slot) -> Option<Control> {
        match slot {
            Slot::Urgent => self.urgent(now_ps),
            Slot::Piggyback | Slot::Idle => {
                std::mem::take(&mut self.wants_ack).then(|| self.ack(0, slot == Slot::Piggyback))
            }
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }

    fn on_timer(&mut self, _now_ps: u64) {}
}
