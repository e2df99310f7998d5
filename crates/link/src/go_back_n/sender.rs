//! The end that replays.

use super::GoBackConfig;
use crate::config::Mode;
use crate::event::{Event, Log};
use crate::frame::{Ack, Control, DataHeader, Frame, LinkFrame, sync_tag};
use crate::protocol::LinkSender;
use crate::sender::copies::Copies;
use crate::sender::queue::FrameQueue;
use crate::sequence::{FIRST, WireSequence};

/// What the sender is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoBackPhase {
    /// Waits until the receiver agrees where to begin.
    Init,
    /// Sends new frames.
    Advance,
    /// Sends old ones again, this one next.
    Replay {
        /// Its number.
        next: u64,
    },
}

/// Numbers of things since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GoBackSenderStats {
    /// New frames sent.
    pub frames: u64,
    /// Frames sent again.
    pub replayed_frames: u64,
    /// Replays, asked for or not.
    pub replays: u64,
    /// Of these, those that the timer started.
    pub timer_replays: u64,
    /// Frames given up after too many replays.
    pub flushed_frames: u64,
    /// Frames that found the queue full.
    pub queue_drops: u64,
    /// Control messages that cannot be true.
    pub refused_controls: u64,
    /// Most bytes kept for replay.
    pub peak_copy_bytes: u64,
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct GoBackSender<F, L = ()> {
    config: GoBackConfig,
    phase: GoBackPhase,
    epoch: u64,
    next: u64,
    acked: u64,
    queue: FrameQueue<F>,
    copies: Copies<F>,
    /// Replays since anything was acknowledged.
    replays: u8,
    timer_at_ps: u64,
    stats: GoBackSenderStats,
    log: L,
}

impl<F: Frame> GoBackSender<F> {
    /// A sender that begins with a handshake.
    pub fn new(config: GoBackConfig) -> GoBackSender<F> {
        GoBackSender::with_log(config, ())
    }
}

impl<F: Frame, L: Log> GoBackSender<F, L> {
    /// The same, telling what happens.
    pub fn with_log(config: GoBackConfig, log: L) -> GoBackSender<F, L> {
        GoBackSender {
            phase: GoBackPhase::Init,
            epoch: config.epoch,
            next: FIRST,
            acked: FIRST,
            queue: FrameQueue::new(config.queue_cells),
            copies: Copies::new(config.window(), FIRST),
            replays: 0,
            timer_at_ps: 0,
            stats: GoBackSenderStats::default(),
            config,
            log,
        }
    }

    /// What it is doing.
    pub fn phase(&self) -> GoBackPhase {
        self.phase
    }

    /// Counters.
    pub fn stats(&self) -> &GoBackSenderStats {
        &self.stats
    }

    /// The log.
    pub fn log(&mut self) -> &mut L {
        &mut self.log
    }

    /// How many frames were sent and not acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.next - self.acked
    }

    /// Cells that wait in the queue.
    pub fn queue_cells(&self) -> u32 {
        self.queue.cells()
    }

    /// Whether one more frame may be under way.
    fn has_room(&self) -> bool {
        self.outstanding() < self.config.window() as u64 && self.copies.bytes() < self.config.replay_bytes
    }

    fn header(sequence: u64, is_retransmission: bool) -> DataHeader {
        DataHeader { sequence: WireSequence::of(sequence), is_retransmission, mode: Mode::Ordered }
    }

    fn start_timer(&mut self, now_ps: u64) {
        self.timer_at_ps = now_ps + self.config.replay_timer_ps;
    }

    fn next_sync(&mut self, now_ps: u64) -> Option<LinkFrame<F>> {
        if now_ps < self.timer_at_ps {
            return None;
        }
        self.start_timer(now_ps);
        self.log.event(now_ps, Event::Began { next: self.next, epoch: self.epoch });
        Some(LinkFrame::Sync { header: Self::header(self.next, false), epoch: self.epoch })
    }

    fn next_new(&mut self, now_ps: u64) -> Option<LinkFrame<F>> {
        if !self.has_room() {
            return None;
        }
        let frame = self.queue.pop()?;
        let sequence = self.next;
        self.next += 1;
        self.copies.push(frame.clone());
        self.stats.frames += 1;
        self.stats.peak_copy_bytes = self.stats.peak_copy_bytes.max(self.copies.bytes());
        if self.acked == sequence {
            self.start_timer(now_ps);
        }
        self.log.event(now_ps, Event::Sent { sequence });
        Some(LinkFrame::Data { header: Self::header(sequence, false), frame })
    }

    fn next_old(&mut self, now_ps: u64, sequence: u64) -> Option<LinkFrame<F>> {
        let sequence = sequence.max(self.acked);
        let after = sequence + 1;
        self.phase = if after < self.next { GoBackPhase::Replay { next: after } } else { GoBackPhase::Advance };
        let frame = self.copies.get(sequence)?.clone();
        self.stats.replayed_frames += 1;
        self.start_timer(now_ps);
        self.log.event(now_ps, Event::Retransmitted { sequence, copy: self.replays });
        Some(LinkFrame::Data { header: Self::header(sequence, true), frame })
    }

    fn acknowledge(&mut self, now_ps: u64, ack: Ack) {
        if self.phase == GoBackPhase::Init {
            if ack.sync == sync_tag(self.epoch) && ack.leading == WireSequence::of(self.next - 1) {
                self.phase = GoBackPhase::Advance;
                self.log.event(now_ps, Event::Agreed { epoch: self.epoch });
            }
            return;
        }
        self.advance(now_ps, ack.leading.near(self.next) + 1);
    }

    /// All before `acked` has arrived.
    fn advance(&mut self, now_ps: u64, acked: u64) {
        if acked > self.next {
            self.stats.refused_controls += 1;
        } else if acked > self.acked {
            self.acked = acked;
            self.copies.free_before(acked);
            self.replays = 0;
            self.start_timer(now_ps);
        }
    }

    /// Everything from the first that was not acknowledged on.
    fn replay(&mut self, now_ps: u64) {
        if self.replays >= self.config.most_replays {
            self.flush(now_ps);
            return;
        }
        self.replays += 1;
        self.stats.replays += 1;
        self.phase = GoBackPhase::Replay { next: self.acked };
        self.start_timer(now_ps);
    }

    /// The other end does not take them: begin anew.
    fn flush(&mut self, now_ps: u64) {
        self.stats.flushed_frames += self.outstanding();
        self.next = self.next.div_ceil(FIRST) * FIRST;
        self.acked = self.next;
        self.copies.restart(self.next);
        self.replays = 0;
        self.epoch += 1;
        self.timer_at_ps = now_ps;
        self.phase = GoBackPhase::Init;
    }
}

impl<F: Frame, L: Log> LinkSender<F> for GoBackSender<F, L> {
    fn enqueue(&mut self, _now_ps: u64, frame: F) -> Result<(), F> {
        let result = self.queue.push(frame);
        self.stats.queue_drops += u64::from(result.is_err());
        result
    }

    fn poll_transmit(&mut self, now_ps: u64) -> Option<LinkFrame<F>> {
        match self.phase {
            GoBackPhase::Init => self.next_sync(now_ps),
            GoBackPhase::Replay { next } if next < self.next => self.next_old(now_ps, next),
            GoBackPhase::Replay { .. } | GoBackPhase::Advance => self.next_new(now_ps),
        }
    }

    fn on_control(&mut self, now_ps: u64, control: Control) {
        match control {
            Control::Ack(ack) => self.acknowledge(now_ps, ack),
            Control::Replay(from) if self.phase != GoBackPhase::Init => {
                self.advance(now_ps, from.near(self.next));
                if self.acked == from.near(self.next) && self.acked < self.next {
                    self.replay(now_ps);
                }
            }
            Control::Replay(_) | Control::Loss(_) | Control::Pause { .. } => self.stats.refused_controls += 1,
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let is_waiting = self.phase == GoBackPhase::Init || self.acked < self.next;
        is_waiting.then_some(self.timer_at_ps)
    }

    fn on_timer(&mut self, now_ps: u64) {
        let is_due = now_ps >= self.timer_at_ps && self.acked < self.next;
        if is_due && self.phase != GoBackPhase::Init {
            self.stats.timer_replays += 1;
            self.replay(now_ps);
        }
    }
}
