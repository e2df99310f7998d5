//! The receiving end: finds gaps, asks for what is missing, keeps order.

mod arrival;
mod gaps;
mod original;
mod pressure;
mod slots;
mod stats;
mod timeout;

pub use stats::{ReceiverState, ReceiverStats};

use crate::config::{Acknowledgement, Fidelity, MOST_WINDOW, Mode, ReceiverConfig, Reorder};
use crate::event::{Event, Log};
use crate::frame::{Ack, Arrival, Control, DataHeader, Frame, LinkFrame, Loss, Slot, sync_tag};
use crate::protocol::LinkReceiver;
use crate::sequence::{FIRST, WireSequence};
use gaps::{Gaps, Notices};
use original::Defects;
use pressure::{Change, Pressure};
use slots::Slots;
use std::collections::VecDeque;

/// What became of a frame that came round the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visited<F> {
    /// It was due: to be handed on now.
    Deliver(F),
    /// Round again.
    Again,
    /// It had come before, or was given up.
    Dropped(F),
}

/// The receiving end of one protected direction.
#[derive(Clone, Debug)]
pub struct Receiver<F, L = ()> {
    config: ReceiverConfig,
    mode: Mode,
    /// The next new number.
    expected: u64,
    /// The first number that has neither been handed on nor been given up.
    due: u64,
    slots: Slots<F>,
    /// Frames that go round ([`Reorder::Ring`]).
    ring: VecDeque<(u64, F)>,
    gaps: Gaps,
    notices: Notices,
    pressure: Pressure,
    /// What the original says next: the last number that came in its turn.
    leading: u64,
    acknowledgements_left: u8,
    /// When the original gives the due frame up.
    timeout_at_ps: Option<u64>,
    defects: Defects,
    /// The beginning that is followed; none before the first frame.
    epoch: Option<u64>,
    is_begun: bool,
    sync_reply: Option<u8>,
    stats: ReceiverStats,
    log: L,
}

impl<F: Frame> Receiver<F> {
    /// A receiver that has seen nothing.
    pub fn new(config: ReceiverConfig) -> Receiver<F> {
        Receiver::with_log(config, ())
    }
}

impl<F: Frame, L: Log> Receiver<F, L> {
    /// The same, telling what happens.
    pub fn with_log(mut config: ReceiverConfig, log: L) -> Receiver<F, L> {
        if config.reorder == Reorder::Ring {
            config.fidelity = Fidelity::Original;
        }
        let window = config.window_frames.min(MOST_WINDOW);
        let ring_frames = if config.reorder == Reorder::Ring { window } else { 0 };
        Receiver {
            config,
            mode: Mode::Ordered,
            expected: FIRST,
            due: FIRST,
            slots: Slots::new(window),
            ring: VecDeque::with_capacity(ring_frames),
            gaps: Gaps::new(),
            notices: Notices::new(config.fidelity == Fidelity::Original),
            pressure: Pressure::new(config.thresholds),
            leading: FIRST - 1,
            acknowledgements_left: 0,
            timeout_at_ps: None,
            defects: Defects::default(),
            epoch: None,
            is_begun: config.fidelity == Fidelity::Original,
            sync_reply: None,
            stats: ReceiverStats::default(),
            log,
        }
    }

    /// Counters.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// What the original's `check_receiver_state` shows.
    pub fn state(&self, now_ps: u64) -> ReceiverState {
        let leading = WireSequence::of(self.leading_number());
        let due = WireSequence::of(self.due);
        ReceiverState {
            expected: WireSequence::of(self.expected).low(),
            due: due.low(),
            due_era: due.era(),
            remaining_ps: self.gap_deadline().map(|at| at.saturating_sub(now_ps)),
            leading: leading.low(),
            leading_era: leading.era(),
            acknowledgements_left: self.acknowledgements_left,
            waiting_bytes: self.waiting_bytes(),
            is_paused: self.pressure.is_paused(),
        }
    }

    /// Whether there is an acknowledgement to send.
    pub fn has_acknowledgement(&self) -> bool {
        self.acknowledgements_left > 0
    }

    /// Bytes that wait for frames before them.
    pub fn waiting_bytes(&self) -> u64 {
        self.slots.bytes() + self.ring.iter().map(|(_, f)| u64::from(f.bytes())).sum::<u64>()
    }

    /// Frames that go round.
    pub fn ring_frames(&self) -> usize {
        self.ring.len()
    }

    /// The next number to hand on, of 64 bits.
    pub fn due_sequence(&self) -> u64 {
        self.due
    }

    /// The log.
    pub fn log(&mut self) -> &mut L {
        &mut self.log
    }

    /// Whether this is a moment from which [`Receiver::fast_forward`] may leave out frames.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.due == self.expected && self.ring.is_empty() && self.gaps.is_empty() && !self.pressure.is_paused()
    }

    /// As if so many more frames had come, each in its turn. Counters grow `times` by what they have
    /// grown since `before`.
    pub fn fast_forward(&mut self, before: &ReceiverStats, times: u64, frames: u64) {
        debug_assert!(self.is_quiet() && self.slots.is_empty());
        self.expected += frames;
        self.due += frames;
        self.leading += frames;
        self.stats.repeat(before, times);
    }

    /// How deep the queue of the ring is, in cells, as a frame of it leaves the queue: what
    /// back-pressure goes by with [`Reorder::Ring`].
    pub fn ring_depth(&mut self, now_ps: u64, cells: u32) {
        self.press(now_ps, cells);
    }

    /// The frame at the head of the ring has come round ([`Reorder::Ring`]).
    pub fn visit(&mut self, now_ps: u64) -> Option<Visited<F>> {
        let (sequence, frame) = self.ring.pop_front()?;
        Some(match self.defects.compare(sequence, self.due) {
            std::cmp::Ordering::Equal => {
                self.deliver_due(now_ps);
                Visited::Deliver(frame)
            }
            std::cmp::Ordering::Greater => {
                self.stats.revolutions += 1;
                self.ring.push_back((sequence, frame));
                Visited::Again
            }
            std::cmp::Ordering::Less => {
                self.duplicate(now_ps, sequence);
                Visited::Dropped(frame)
            }
        })
    }

    /// A sender begins. Doing it again changes nothing, and an earlier one is not followed any more.
    fn on_sync(&mut self, now_ps: u64, header: DataHeader, epoch: u64) {
        if self.config.fidelity == Fidelity::Original || self.epoch.is_some_and(|known| epoch < known) {
            return;
        }
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.adopt(now_ps, header.sequence);
            self.stats.handshakes += 1;
            self.log.event(now_ps, Event::Adopted { next: self.expected, epoch });
        }
        if self.expected == header.sequence.near(self.expected) {
            self.sync_reply = Some(sync_tag(epoch));
        }
    }

    /// Goes on at a number. What waits for older ones will never be due.
    fn adopt(&mut self, now_ps: u64, sequence: WireSequence) {
        self.stats.skipped_frames += self.slots.clear();
        self.gaps.clear();
        self.notices.clear();
        self.press(now_ps, 0);
        self.expected = sequence.at_or_after(self.expected);
        self.due = self.expected;
        self.leading = self.expected - 1;
        self.timeout_at_ps = None;
        self.is_begun = true;
    }

    fn press(&mut self, now_ps: u64, cells: u32) {
        match self.pressure.depth(now_ps, cells) {
            Some(Change::Paused) => {
                self.stats.pauses += 1;
                self.log.event(now_ps, Event::Paused);
            }
            Some(Change::Resumed) => {
                self.stats.resumptions += 1;
                self.log.event(now_ps, Event::Unpaused);
            }
            None => {}
        }
    }

    fn leading_number(&self) -> u64 {
        match self.config.fidelity.acknowledgement() {
            Acknowledgement::Reported => self.leading,
            Acknowledgement::Received => self.due - 1,
        }
    }

    fn urgent(&mut self, now_ps: u64) -> Option<Control> {
        if let Some(quanta) = self.pressure.poll() {
            return Some(Control::Pause { quanta });
        }
        if let Some(sync) = self.sync_reply.take() {
            let leading = WireSequence::of(self.expected - 1);
            return Some(Control::Ack(Ack { leading, is_piggybacked: false, sync }));
        }
        let (first, count, leading) = self.notices.pop()?;
        self.stats.notifications += 1;
        self.log.event(now_ps, Event::Notified { first, count });
        let leading = WireSequence::of(leading);
        Some(Control::Loss(Loss { leading, first: WireSequence::of(first).low(), count }))
    }

    #[inline]
    fn acknowledge(&mut self, is_piggybacked: bool) -> Option<Control> {
        self.acknowledgements_left = self.acknowledgements_left.checked_sub(1)?;
        match is_piggybacked {
            true => self.stats.piggybacked_acknowledgements += 1,
            false => self.stats.courier_acknowledgements += 1,
        }
        Some(Control::Ack(Ack { leading: WireSequence::of(self.leading_number()), is_piggybacked, sync: 0 }))
    }
}

impl<F: Frame, L: Log> LinkReceiver<F> for Receiver<F, L> {
    #[inline]
    fn on_frame(&mut self, now_ps: u64, frame: LinkFrame<F>) -> Arrival<F> {
        match frame {
            LinkFrame::Data { header, frame } => self.on_data(now_ps, header, frame),
            LinkFrame::Plain(frame) => {
                self.stats.plain_frames += 1;
                Arrival::Deliver(frame)
            }
            LinkFrame::Dummy(header) => {
                self.on_dummy(now_ps, header);
                Arrival::Consumed
            }
            LinkFrame::Sync { header, epoch } => {
                self.on_sync(now_ps, header, epoch);
                Arrival::Consumed
            }
        }
    }

    #[inline]
    fn poll_deliver(&mut self, now_ps: u64) -> Option<F> {
        loop {
            let frame = self.slots.take(self.due)?;
            self.settle(now_ps);
            if let Some(frame) = frame {
                self.stats.delivered_frames += 1;
                self.log.event(now_ps, Event::Delivered { sequence: self.due - 1 });
                self.press(now_ps, self.slots.cells());
                return Some(frame);
            }
        }
    }

    #[inline]
    fn poll_control(&mut self, now_ps: u64, slot: Slot) -> Option<Control> {
        match slot {
            Slot::Urgent => self.urgent(now_ps),
            Slot::Piggyback => self.acknowledge(true),
            Slot::Idle => self.acknowledge(false),
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let gap = self.gap_deadline();
        let renotify = self.renotify_deadline();
        [gap, renotify, self.pressure.deadline()].into_iter().flatten().min()
    }

    fn on_timer(&mut self, now_ps: u64) {
        self.pressure.on_timer(now_ps);
        self.renotify(now_ps);
        self.give_up(now_ps);
    }
}
