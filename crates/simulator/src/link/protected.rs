//! The protected link: the protocol's two machines, and everything that takes time between them.

mod receiving;
mod sending;

use super::copy_ring::CopyRing;
use super::line::Line;
use super::losses::Losses;
use super::occupancy::Occupancy;
use super::reorder_ring::ReorderRing;
use super::timing::Timing;
use super::wire::Wire;
use crate::loss::LossStream;
use karakoram_link::config::{CopyStore, Protection, ReceiverConfig, Reorder, SenderConfig};
use karakoram_link::frame::{CELL_BYTES, Control, Frame, LinkFrame};
use karakoram_link::{LinkReceiver, LinkSender, Log, Mode, Receiver, Sender};

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
        let mut link = ProtectedLink {
            sender: Sender::with_log(setup.sender, L::default()),
            receiver: Receiver::with_log(setup.receiver, L::default()),
            timing: setup.timing,
            is_protected: false,
            is_ordered: false,
            has_copy_ring: setup.sender.copy_store == CopyStore::Ring,
            has_reorder_ring: setup.receiver.reorder == Reorder::Ring,
            mark_cells: setup.mark_cells.unwrap_or(u32::MAX),
            requeue: setup.timing.requeue,
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
        };
        if let Some(protection) = setup.protection {
            link.protect(0, protection);
        }
        link
    }
}

impl<F: Carried, L: Log> ProtectedLink<F, L> {
    /// Frames are protected from now on.
    pub fn protect(&mut self, now: u64, protection: Protection) {
        self.sender.enable(now, protection);
        self.is_protected = true;
        self.is_ordered = protection.mode == Mode::Ordered;
        let multicast = if protection.copies > 1 { self.timing.multicast } else { 0 };
        self.requeue = self.timing.requeue + multicast;
    }

    /// From now on the wire loses other frames. Positions count from the first frame of the link.
    pub fn lose(&mut self, losses: impl FnOnce(u64) -> LossStream) {
        self.wire.losses = losses(self.wire.position);
    }

    /// Copies are lost by a stream of their own, whose positions count copies only.
    pub fn lose_copies(&mut self, losses: LossStream) {
        self.wire.copy_losses = Some((0, losses));
    }

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
}

/// Cells of 80 bytes that so many bytes take.
pub(super) fn cells(bytes: u64) -> u32 {
    bytes.div_ceil(CELL_BYTES.into()) as u32
}
