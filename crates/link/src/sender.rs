//! The sending end: numbers frames as they leave, keeps copies, sends missing ones again.

mod answer;
mod beginning;
pub(crate) mod copies;
pub(crate) mod queue;
mod stats;
mod transmit;

pub use stats::{SenderState, SenderStats};

use crate::config::{CopyStore, Mode, Protection, SenderConfig};
use crate::event::Log;
use crate::frame::{Control, Frame, LinkFrame};
use crate::protocol::LinkSender;
use crate::sequence::{FIRST, HALF, WireSequence};
use beginning::Phase;
use copies::Copies;
use queue::FrameQueue;
use std::collections::VecDeque;

/// With so many frames unacknowledged the other end has lost track: begin anew.
const MOST_OUTSTANDING: u64 = HALF / 2;

#[derive(Clone, Debug)]
struct Resending<F> {
    sequence: u64,
    frame: F,
    /// Which copy goes next, from 1, and how many there are to be.
    copy: u8,
    copies: u8,
}

/// What a copy that came round is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// Go round again.
    Keep,
    /// It is not needed any more.
    Free,
    /// It leaves the ring to be sent again.
    Retransmit,
}

/// The sending end of one protected direction.
#[derive(Clone, Debug)]
pub struct Sender<F, L = ()> {
    config: SenderConfig,
    protection: Protection,
    phase: Phase,
    epoch: u64,
    /// The next number.
    next: u64,
    /// All before this one need no copy.
    acked: u64,
    queue: FrameQueue<F>,
    copies: Copies<F>,
    /// A bit for each 16-bit number, for copies that come round.
    holes: Box<[u64]>,
    resending: VecDeque<Resending<F>>,
    dummies_left: u8,
    dummy_at_ps: u64,
    probe_at_ps: u64,
    paused_until_ps: u64,
    stats: SenderStats,
    log: L,
}

impl<F: Frame> Sender<F> {
    /// A sender that sends frames as they come, until [`Sender::enable`].
    pub fn new(config: SenderConfig) -> Sender<F> {
        Sender::with_log(config, ())
    }
}

impl<F: Frame, L: Log> Sender<F, L> {
    /// The same, telling what happens.
    pub fn with_log(config: SenderConfig, log: L) -> Sender<F, L> {
        let hole_words = if config.copy_store == CopyStore::Ring { 1 << 10 } else { 0 };
        Sender {
            config,
            protection: Protection { mode: Mode::Ordered, copies: 1 },
            phase: Phase::Off,
            epoch: config.handshake.map_or(0, |h| h.epoch),
            next: FIRST,
            acked: FIRST,
            queue: FrameQueue::new(config.queue_cells),
            copies: Copies::new(config.copy_frames, FIRST),
            holes: vec![0; hole_words].into(),
            resending: VecDeque::with_capacity(config.copy_frames.next_power_of_two()),
            dummies_left: 0,
            dummy_at_ps: 0,
            probe_at_ps: 0,
            paused_until_ps: 0,
            stats: SenderStats::default(),
            log,
        }
    }

    /// Cells that wait in the queue: what marks for congestion go by.
    #[inline]
    pub fn queue_cells(&self) -> u32 {
        self.queue.cells()
    }

    /// The next number, of 64 bits.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// How many frames were sent and not acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.next - self.acked
    }

    /// Whether the receiver has asked to stop.
    #[inline]
    pub fn is_paused(&self, now_ps: u64) -> bool {
        now_ps < self.paused_until_ps
    }

    /// Bytes kept in copies.
    pub fn copy_bytes(&self) -> u64 {
        self.copies.bytes()
    }

    /// Counters.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// What the original's `check_sender_state` shows.
    pub fn state(&self, now_ps: u64) -> SenderState {
        let (next, leading) = (WireSequence::of(self.next), WireSequence::of(self.acked - 1));
        SenderState {
            next: next.low(),
            next_era: next.era(),
            leading: leading.low(),
            leading_era: leading.era(),
            copies: self.protection.copies,
            queue_cells: self.queue.cells(),
            copy_bytes: self.copies.bytes(),
            is_protecting: self.is_numbering(),
            is_paused: self.is_paused(now_ps),
        }
    }

    /// The log.
    pub fn log(&mut self) -> &mut L {
        &mut self.log
    }

    /// Whether this is a moment from which [`Sender::fast_forward`] may leave out frames.
    pub fn is_quiet(&self) -> bool {
        self.phase == Phase::On && self.resending.is_empty() && self.paused_until_ps == 0
    }

    /// As if so many more frames like those that are kept had been sent, and as many acknowledged,
    /// without anything being lost. Times move by `elapsed_ps`. Counters grow `times` by what they
    /// have grown since `before`.
    pub fn fast_forward(&mut self, before: &SenderStats, times: u64, frames: u64, elapsed_ps: u64) {
        debug_assert!(self.is_quiet() && self.holes.iter().all(|w| *w == 0));
        self.next += frames;
        self.acked += frames;
        self.copies.shift(frames);
        self.stats.repeat(before, times);
        self.dummy_at_ps += elapsed_ps;
        self.probe_at_ps += elapsed_ps;
    }

    /// A copy has come round ([`CopyStore::Ring`]).
    pub fn visit(&mut self, now_ps: u64, sequence: u64) -> Visit {
        let (word, bit) = hole_bit(sequence);
        let is_hole = self.holes[word] & bit != 0;
        if sequence >= self.acked {
            self.stats.revolutions += 1;
            return Visit::Keep;
        }
        self.holes[word] &= !bit;
        if !is_hole {
            self.stats.freed_copies += u64::from(self.copies.take(sequence).is_some());
            return Visit::Free;
        }
        self.resend_and_free(now_ps, sequence);
        Visit::Retransmit
    }

    fn is_waiting_for_ack(&self) -> bool {
        matches!(self.phase, Phase::On | Phase::Draining) && self.acked < self.next && self.dummies_left == 0
    }
}

fn hole_bit(sequence: u64) -> (usize, u64) {
    let low = sequence as usize & 0xffff;
    (low / 64, 1 << (low % 64))
}

impl<F: Frame, L: Log> LinkSender<F> for Sender<F, L> {
    #[inline]
    fn enqueue(&mut self, _now_ps: u64, frame: F) -> Result<(), F> {
        let result = self.queue.push(frame);
        self.stats.queue_drops += u64::from(result.is_err());
        result
    }

    #[inline]
    fn poll_transmit(&mut self, now_ps: u64) -> Option<LinkFrame<F>> {
        if !self.resending.is_empty() {
            return self.next_copy(now_ps);
        }
        let may_send = !self.is_paused(now_ps) && !self.queue.is_empty();
        match self.phase {
            Phase::On if may_send && self.has_room() => self.next_numbered(now_ps),
            Phase::On => self.next_dummy(now_ps),
            Phase::Syncing { retry_at_ps } => {
                let sync = self.next_sync(now_ps, retry_at_ps);
                sync.or_else(|| if may_send { self.next_plain() } else { None })
            }
            Phase::Off | Phase::Draining if may_send => self.next_plain(),
            Phase::Draining => self.next_dummy(now_ps),
            Phase::Off => None,
        }
    }

    fn on_control(&mut self, now_ps: u64, control: Control) {
        match control {
            Control::Ack(ack) => self.on_ack(now_ps, ack),
            Control::Loss(loss) => self.on_loss(now_ps, loss),
            Control::Pause { quanta } => self.on_pause(now_ps, quanta),
            Control::Replay(_) => self.stats.refused_controls += 1,
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let sync = match self.phase {
            Phase::Syncing { retry_at_ps } => Some(retry_at_ps),
            _ => None,
        };
        let dummy = (self.dummies_left > 0).then_some(self.dummy_at_ps);
        let probe = self.config.probe_ps.filter(|_| self.is_waiting_for_ack()).map(|_| self.probe_at_ps);
        let resume = (self.paused_until_ps > 0 && !self.queue.is_empty()).then_some(self.paused_until_ps);
        [sync, dummy, probe, resume].into_iter().flatten().min()
    }

    fn on_timer(&mut self, now_ps: u64) {
        if self.paused_until_ps <= now_ps {
            self.paused_until_ps = 0;
        }
        if self.config.probe_ps.is_some() && self.is_waiting_for_ack() && now_ps >= self.probe_at_ps {
            self.dummies_left = 1;
            self.dummy_at_ps = now_ps;
        }
    }
}
