//! The protected link: the protocol's two machines, and everything that takes time between them.

use super::copy_ring::CopyRing;
use super::line::Line;
use super::losses::Losses;
use super::occupancy::Occupancy;
use super::reorder_ring::ReorderRing;
use super::timing::{HEADER_BYTES, Timing};
use super::wire::Wire;
use crate::loss::LossStream;
use karakoram_link::config::{CopyStore, Protection, ReceiverConfig, Reorder, SenderConfig};
use karakoram_link::frame::{Arrival, CELL_BYTES, Control, Frame, LinkFrame, Slot};
use karakoram_link::receiver::Visited;
use karakoram_link::sender::Visit;
use karakoram_link::{LinkReceiver, LinkSender, Log, Receiver, Sender};

/// A frame that a simulated link carries.
pub trait Carried: Frame {
    /// Congestion is marked on it, if it can be.
    fn mark(&mut self) {}
}

impl Carried for u32 {}

/// How a protected link is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The sending machine.
    pub sender: SenderConfig,
    /// The receiving machine.
    pub receiver: ReceiverConfig,
    /// Order and copies; without, frames go unprotected.
    pub protection: Option<Protection>,
    /// Delays.
    pub timing: Timing,
    /// Cells in the queue from which on congestion is marked.
    pub mark_cells: Option<u32>,
}

/// What happened on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that left for the first time.
    pub sent: u64,
    /// Of these, corrupted.
    pub lost: u64,
    /// Corrupted copies and dummies.
    pub lost_others: u64,
    /// Frames handed on, the same one only once.
    pub delivered: u64,
    /// Bytes handed on, as they came.
    pub delivered_bytes: u64,
    /// Frames handed on that had been handed on before.
    pub repeated: u64,
    /// Time during which the sender was asked to stop, picoseconds.
    pub stopped: u64,
}

/// A protected link, one direction of it.
pub struct ProtectedLink<F, L = ()> {
    pub(super) sender: Sender<F, L>,
    pub(super) receiver: Receiver<F, L>,
    pub(super) timing: Timing,
    is_protected: bool,
    is_ordered: bool,
    has_copy_ring: bool,
    has_reorder_ring: bool,
    mark_cells: u32,
    requeue: u64,
    pub(super) wire: Wire,
    /// When the port is offered a frame next.
    pub(super) transmit_at: u64,
    pub(super) arrivals: Line<LinkFrame<F>>,
    pub(super) acknowledgements: Line<Control>,
    pub(super) notifications: Line<Control>,
    pub(super) pauses: Line<Control>,
    pub(super) copies: CopyRing,
    /// Copies that are wanted, on their way to the queue.
    pub(super) wanted: Line<u64>,
    pub(super) ring: ReorderRing,
    pub(super) timer_at: u64,
    pub(super) losses: Losses,
    pub(super) counters: Counters,
    stopped_since: Option<u64>,
    pub(super) copy_bytes: Occupancy,
    pub(super) waiting_bytes: Occupancy,
}

impl<F: Carried, L: Log + Default> ProtectedLink<F, L> {
    /// A link at rest. From the first frame on it is as `setup` says.
    pub fn new(setup: &Setup, losses: LossStream) -> Self {
        let mut sender = Sender::with_log(setup.sender, L::default());
        if let Some(protection) = setup.protection {
            sender.enable(0, protection);
        }
        let mode = setup.protection.map(|p| p.mode);
        let has_several = setup.protection.is_some_and(|p| p.copies > 1);
        let multicast = if has_several { setup.timing.multicast } else { 0 };
        ProtectedLink {
            sender,
            receiver: Receiver::with_log(setup.receiver, L::default()),
            timing: setup.timing,
            is_protected: setup.protection.is_some(),
            is_ordered: mode == Some(karakoram_link::Mode::Ordered),
            has_copy_ring: setup.sender.copy_store == CopyStore::Ring,
            has_reorder_ring: setup.receiver.reorder == Reorder::Ring,
            mark_cells: setup.mark_cells.unwrap_or(u32::MAX),
            requeue: setup.timing.requeue + multicast,
            wire: Wire::new(setup.timing.committed, losses),
            transmit_at: u64::MAX,
            arrivals: Line::new(),
            acknowledgements: Line::new(),
            notifications: Line::new(),
            pauses: Line::new(),
            copies: CopyRing::new(),
            wanted: Line::new(),
            ring: ReorderRing::new(),
            timer_at: u64::MAX,
            losses: Losses::new(setup.sender.max_burst),
            counters: Counters::default(),
            stopped_since: None,
            copy_bytes: Occupancy::new(),
            waiting_bytes: Occupancy::new(),
        }
    }
}

impl<F: Carried, L: Log> ProtectedLink<F, L> {
    /// What happened on the wire.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The sending machine.
    pub fn sender(&self) -> &Sender<F, L> {
        &self.sender
    }

    /// The receiving machine.
    pub fn receiver(&self) -> &Receiver<F, L> {
        &self.receiver
    }

    /// What the two machines logged.
    pub fn logs(&mut self) -> (&mut L, &mut L) {
        (self.sender.log(), self.receiver.log())
    }

    /// Looks at copies, and at frames that wait for others.
    pub fn ring_passes(&self) -> [u64; 2] {
        [self.copies.passes, self.ring.passes]
    }

    /// How full the buffers were: copies, and frames that wait for others. With rings, what waits for
    /// their ports.
    pub fn occupancies(&self) -> [&Occupancy; 2] {
        [&self.copy_bytes, &self.waiting_bytes]
    }

    /// From the notice of a loss to the first copy: how often it took so many nanoseconds.
    pub fn recovery_ns(&self) -> &[u64] {
        self.losses.delays_ns()
    }

    /// Frames of any kind on the wire.
    pub fn wire_frames(&self) -> u64 {
        self.wire.position
    }

    /// How long the wire was busy, picoseconds.
    pub fn busy(&self) -> u64 {
        self.wire.busy
    }

    /// Takes a frame to send; false when the queue is full.
    #[inline]
    pub fn enqueue(&mut self, now: u64, frame: F) -> bool {
        let is_taken = self.sender.enqueue(now, frame).is_ok();
        self.offer(now);
        is_taken
    }

    /// Cells in the queue.
    #[inline]
    pub fn queue_cells(&self) -> u32 {
        self.sender.queue_cells()
    }

    /// When something happens next.
    #[inline]
    pub fn next_time(&self) -> u64 {
        let sender = self.transmit_at.min(self.copies.next()).min(self.wanted.next());
        let reverse = self.acknowledgements.next().min(self.notifications.next()).min(self.pauses.next());
        let ring = self.ring.next_departure().min(self.ring.next_look());
        self.arrivals.next().min(sender).min(reverse).min(ring).min(self.timer_at)
    }

    /// Lets what happens at `now`, which is [`ProtectedLink::next_time`], happen: one thing of it.
    #[inline]
    pub fn step(&mut self, now: u64, sink: &mut impl FnMut(u64, F)) {
        if self.arrivals.next() == now {
            self.arrive(now, sink);
        } else if self.transmit_at == now {
            self.transmit(now);
        } else if self.acknowledgements.next() == now {
            self.control(now, 0);
        } else if self.copies.next() == now {
            self.look_at_copy(now);
        } else {
            self.step_rarely(now, sink);
        }
    }

    fn step_rarely(&mut self, now: u64, sink: &mut impl FnMut(u64, F)) {
        if self.notifications.next() == now {
            self.control(now, 1);
        } else if self.pauses.next() == now {
            self.control(now, 2);
        } else if self.wanted.next() == now {
            self.resend(now);
        } else if self.ring.next_look() == now {
            self.look_at_ring(now, sink);
        } else if self.ring.next_departure() == now {
            self.depart(now);
        } else {
            self.sender.on_timer(now);
            self.receiver.on_timer(now);
            self.after_receiver(now, sink);
            self.offer(now);
        }
    }

    /// The port may have room.
    #[inline]
    fn offer(&mut self, now: u64) {
        self.transmit_at = self.transmit_at.min(self.wire.ready_at().max(now));
    }

    #[inline]
    fn transmit(&mut self, now: u64) {
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
    fn wait(&mut self, now: u64) {
        let at = self.sender.next_deadline().unwrap_or(u64::MAX);
        self.transmit_at = if at == u64::MAX { at } else { at.max(self.wire.ready_at()).max(now + 1) };
    }

    #[inline]
    fn commit(&mut self, now: u64, mut frame: LinkFrame<F>, is_marked: bool) {
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
        let (start, end, is_lost) = self.wire.commit(now, time);
        self.account(start, &frame, is_lost);
        if !is_lost {
            self.arrivals.push(end + self.timing.propagation, frame);
        }
    }

    #[inline]
    fn account(&mut self, start: u64, frame: &LinkFrame<F>, is_lost: bool) {
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
    fn mirror(&mut self, start: u64, bytes: u32) {
        if self.has_copy_ring {
            let time = self.timing.ring_rate.frame(bytes.into(), HEADER_BYTES);
            self.copies.enter(start + self.timing.mirror - time, self.sender.next_sequence() - 1, time);
        } else {
            self.copy_bytes.set(start, self.sender.copy_bytes());
        }
    }

    #[inline]
    fn look_at_copy(&mut self, now: u64) {
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

    fn resend(&mut self, now: u64) {
        if let Some((_, sequence)) = self.wanted.pop() {
            self.losses.forget_wanted(sequence);
            self.sender.visit(now, sequence);
            self.offer(now);
        }
    }

    #[inline]
    fn control(&mut self, now: u64, line: usize) {
        let line = match line {
            0 => &mut self.acknowledgements,
            1 => &mut self.notifications,
            _ => &mut self.pauses,
        };
        let Some((_, control)) = line.pop() else { return };
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

    fn on_pause(&mut self, now: u64, is_stopped: bool) {
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
    fn arrive(&mut self, now: u64, sink: &mut impl FnMut(u64, F)) {
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
    fn hand_on(&mut self, now: u64, frame: F, sink: &mut impl FnMut(u64, F)) {
        self.counters.delivered_bytes += u64::from(frame.bytes());
        sink(now, frame);
    }

    fn look_at_ring(&mut self, now: u64, sink: &mut impl FnMut(u64, F)) {
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

    fn depart(&mut self, now: u64) {
        let time = self.timing.ring_rate.frame(self.ring.head_bytes(), HEADER_BYTES);
        let depth = self.ring.depart(now, time, self.timing.reorder_round);
        self.receiver.ring_depth(now, depth);
        self.waiting_bytes.set(now, self.ring.queued_bytes());
        self.send_urgent(now);
    }

    /// What is due leaves, and what there is to say is said.
    #[inline]
    fn after_receiver(&mut self, now: u64, sink: &mut impl FnMut(u64, F)) {
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
    fn send_urgent(&mut self, now: u64) {
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

/// Cells of 80 bytes that so many bytes take.
pub(super) fn cells(bytes: u64) -> u32 {
    bytes.div_ceil(CELL_BYTES.into()) as u32
}
