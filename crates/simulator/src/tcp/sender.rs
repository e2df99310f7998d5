//! The sending end: what goes out when.

use super::Segment;
use super::congestion::{Algorithm, Congestion, State, Window};
use super::rack::Rack;
use super::rate::Deliveries;
use super::round_trip::RoundTrip;
use super::scoreboard::Scoreboard;
use super::timer::{Jiffies, Purpose};

/// How a connection is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The congestion control.
    pub algorithm: Algorithm,
    /// Bytes to send; none: without end.
    pub bytes: Option<u64>,
    /// Bytes of payload in a segment.
    pub segment_bytes: u32,
    /// Segments of the first window.
    pub first_window: u32,
    /// Segments that buffers have room for.
    pub largest_window: u32,
    /// The least timeout, picoseconds (`rto_min`).
    pub least_timeout: u64,
    /// The host's clock.
    pub jiffies: Jiffies,
    /// A round trip measured before, by the handshake.
    pub handshake_rtt: u64,
    /// Seed of what is random in congestion control.
    pub seed: u64,
}

/// What a connection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments sent again.
    pub retransmissions: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Probes of the tail.
    pub probes: u64,
    /// Times that losses were repaired.
    pub recoveries: u64,
    /// Reductions that were taken back.
    pub undone: u64,
    /// Segments that arrived out of order.
    pub sacked: u64,
}

/// Sends one flow.
pub struct Sender {
    pub(super) config: Config,
    pub(super) control: Box<dyn Congestion>,
    pub(super) window: Window,
    pub(super) state: State,
    pub(super) board: Scoreboard,
    pub(super) rack: Rack,
    pub(super) rtt: RoundTrip,
    pub(super) deliveries: Deliveries,
    pub(super) timer: Option<(u64, Purpose)>,
    /// When the current timeout began to run.
    pub(super) backoff: u32,
    /// A reduction or recovery ends when this is acknowledged.
    pub(super) high: u32,
    pub(super) reduction: Reduction,
    pub(super) probe: Option<Probe>,
    pub(super) undo: Option<Undo>,
    next_pacing: u64,
    /// There is room, but it is not time yet.
    waits_for_pacing: bool,
    segments: u32,
    /// Deliveries that congestion control knows of.
    pub(super) told: u64,
    pub(super) statistics: Statistics,
}

/// Proportional rate reduction (RFC 6937).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduction {
    pub(super) prior_window: u32,
    pub(super) delivered: u32,
    pub(super) sent: u32,
}

/// A probe of the tail that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Acknowledged beyond here, it is over.
    pub(super) high: u32,
    /// Whether it repeated the last segment.
    pub(super) is_copy: bool,
}

/// What to go back to when all that was sent again arrives twice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) first: u32,
    pub(super) copies: u32,
    pub(super) window: Window,
}

impl Sender {
    /// A connection that has just been made.
    pub fn new(config: Config) -> Sender {
        let mut rtt = RoundTrip::new(config.least_timeout);
        rtt.sample(config.handshake_rtt);
        let segments = config.bytes.map_or(u32::MAX, |bytes| bytes.div_ceil(u64::from(config.segment_bytes)) as u32);
        Sender {
            config,
            control: config.algorithm.start(config.seed),
            window: Window { size: config.first_window, threshold: u32::MAX / 2, credit: 0 },
            state: State::Open,
            board: Scoreboard::default(),
            rack: Rack::new(),
            rtt,
            deliveries: Deliveries::default(),
            timer: None,
            backoff: 0,
            high: 0,
            reduction: Reduction::default(),
            probe: None,
            undo: None,
            next_pacing: 0,
            waits_for_pacing: false,
            segments,
            told: 0,
            statistics: Statistics::default(),
        }
    }

    /// Whether everything is acknowledged.
    pub fn is_done(&self) -> bool {
        self.board.first == self.segments
    }

    /// Segments acknowledged in order.
    pub fn acknowledged(&self) -> u32 {
        self.board.first
    }

    /// What happened so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The window, in segments.
    pub fn window(&self) -> u32 {
        self.window.size
    }

    /// The smoothed round trip, picoseconds.
    pub fn smoothed_rtt(&self) -> u64 {
        self.rtt.smoothed()
    }

    /// Whether segments carry ECT.
    pub fn is_ecn(&self) -> bool {
        self.control.is_ecn()
    }

    /// When [`Sender::on_timer`] or [`Sender::poll`] wants to be called.
    pub fn next_deadline(&self) -> Option<u64> {
        let pacing = self.waits_for_pacing.then_some(self.next_pacing);
        let timer = self.timer.map(|(at, _)| at);
        [pacing, timer].into_iter().flatten().min()
    }

    /// The next segment to send now.
    pub fn poll(&mut self, now: u64) -> Option<Segment> {
        let has_room = self.has_room();
        self.waits_for_pacing = has_room && now < self.next_pacing;
        if !has_room || self.waits_for_pacing {
            return None;
        }
        let number = match self.board.first_to_resend() {
            Some(number) => self.resend(now, number),
            None => self.send_new(now)?,
        };
        if let Some(rate) = self.control.pacing() {
            self.next_pacing = now.max(self.next_pacing) + (1e12 / rate) as u64;
        }
        Some(self.segment(number))
    }

    fn has_room(&self) -> bool {
        self.board.in_flight() < self.window.size
    }

    fn has_new(&self) -> bool {
        self.board.next() < self.segments && self.board.outstanding() < self.config.largest_window
    }

    pub(super) fn send_new(&mut self, now: u64) -> Option<u32> {
        if !self.has_new() {
            return None;
        }
        let number = self.board.next();
        let stamp = self.deliveries.stamp(now, self.board.in_flight());
        self.board.push(now, stamp);
        self.reduction.sent += 1;
        if self.board.next() == self.segments {
            self.deliveries.limit(self.board.in_flight());
        }
        self.on_sent_new(now);
        Some(number)
    }

    /// Sends a segment again.
    pub(super) fn resend(&mut self, now: u64, number: u32) -> u32 {
        let stamp = self.deliveries.stamp(now, self.board.in_flight());
        self.board.resend(number, now, stamp);
        self.reduction.sent += 1;
        self.statistics.retransmissions += 1;
        if let Some(undo) = &mut self.undo {
            undo.copies += 1;
        }
        if number == self.board.first {
            self.arm_timeout(now);
        }
        number
    }

    pub(super) fn segment(&self, number: u32) -> Segment {
        let full = self.config.segment_bytes;
        let is_last = number + 1 == self.segments;
        let payload = match self.config.bytes {
            Some(bytes) if is_last => (bytes - u64::from(number) * u64::from(full)) as u32,
            _ => full,
        };
        Segment { number, payload, is_last }
    }
}
