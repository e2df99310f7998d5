//! Timers, and how the window shrinks and is restored (`tcp_input.c`, `tcp_timer.c`).

use super::Segment;
use super::congestion::State;
use super::sender::{Probe, Reduction, Sender, Undo};
use super::timer::Purpose;

/// Added to a probe's time when one segment only is out, whose acknowledgement may be delayed
/// (`TCP_RTO_MIN`, whatever the route says).
const LONE_PROBE: u64 = 200_000_000_000;
/// Shortest useful timer (`TCP_TIMEOUT_MIN`).
const LEAST_TICKS: u64 = 2;
/// Timeouts are doubled so many times at most.
const LARGEST_BACKOFF: u32 = 10;

impl Sender {
    fn timeout_ticks(&self) -> u64 {
        self.config.jiffies.of(self.rtt.timeout()) << self.backoff.min(LARGEST_BACKOFF)
    }

    /// The timeout begins to run now.
    pub(super) fn arm_timeout(&mut self, now: u64) {
        self.timer = match self.board.outstanding() {
            0 => None,
            _ => Some((self.config.jiffies.expiry(now, self.timeout_ticks()), Purpose::Retransmit)),
        };
    }

    /// What is in flight may only be late; look again after this span.
    pub(super) fn arm_reorder(&mut self, now: u64, span: u64) {
        let ticks = self.config.jiffies.of(span) + LEAST_TICKS;
        self.timer = Some((self.config.jiffies.expiry(now, ticks), Purpose::Reorder));
    }

    /// A probe of the tail instead of the timeout, if it would be sooner (`tcp_schedule_loss_probe`).
    pub(super) fn arm_probe(&mut self, now: u64) -> bool {
        let is_usual = matches!(self.state, State::Open | State::Reduction);
        let is_allowed = is_usual && self.board.sacked() == 0 && self.probe.is_none();
        if !is_allowed || self.board.outstanding() == 0 {
            return false;
        }
        let jiffies = self.config.jiffies;
        let ticks = match self.board.outstanding() {
            1 => jiffies.of(2 * self.rtt.smoothed()) + jiffies.of(LONE_PROBE),
            _ => jiffies.of(2 * self.rtt.smoothed()) + LEAST_TICKS,
        };
        self.timer = Some((jiffies.expiry(now, ticks.min(self.timeout_ticks())), Purpose::Probe));
        true
    }

    /// Something new went out.
    pub(super) fn on_sent_new(&mut self, now: u64) {
        let is_first = self.board.outstanding() == 1;
        if !self.arm_probe(now) && (is_first || self.timer.is_none()) {
            self.arm_timeout(now);
        }
    }

    /// A deadline was reached. Returns a segment that goes out whatever the window says.
    pub fn on_timer(&mut self, now: u64) -> Option<Segment> {
        let (at, purpose) = self.timer?;
        if now < at {
            return None;
        }
        self.timer = None;
        match purpose {
            Purpose::Retransmit => self.on_timeout(now),
            Purpose::Probe => return self.send_probe(now),
            Purpose::Reorder => self.on_reorder_timer(now),
        }
        None
    }

    fn on_reorder_timer(&mut self, now: u64) {
        self.rack.on_timer();
        let (lost, wait) = self.detect(now);
        if lost > 0 && !self.is_repairing() {
            self.enter_recovery();
        }
        match wait {
            Some(span) => self.arm_reorder(now, span),
            None => self.arm_timeout(now),
        }
    }

    fn send_probe(&mut self, now: u64) -> Option<Segment> {
        self.statistics.probes += 1;
        let (number, is_copy) = match self.send_new(now) {
            Some(number) => (number, false),
            None if self.board.outstanding() > 0 => (self.resend(now, self.board.next() - 1), true),
            None => return None,
        };
        self.probe = Some(Probe { high: self.board.next(), is_copy });
        self.arm_timeout(now);
        Some(self.segment(number))
    }

    fn on_timeout(&mut self, now: u64) {
        if self.board.outstanding() == 0 {
            return;
        }
        self.statistics.timeouts += 1;
        if self.state != State::Loss {
            self.begin_reduction();
            self.undo = None;
        }
        self.set_state(State::Loss);
        let all: Vec<u32> = self.board.iter().filter(|(_, s)| !s.is_sacked).map(|(number, _)| number).collect();
        all.iter().for_each(|number| self.board.lose(*number));
        self.high = self.board.next();
        self.probe = None;
        self.window.size = self.board.in_flight() + 1;
        self.window.credit = 0;
        self.backoff += 1;
        self.arm_timeout(now);
    }

    /// Whether losses are being repaired.
    pub(super) fn is_repairing(&self) -> bool {
        matches!(self.state, State::Recovery | State::Loss)
    }

    pub(super) fn set_state(&mut self, state: State) {
        self.state = state;
        self.control.on_state(state, &mut self.window);
    }

    fn begin_reduction(&mut self) {
        self.reduction = Reduction { prior_window: self.window.size, ..Reduction::default() };
        self.undo = Some(Undo { first: self.board.first, copies: 0, window: self.window });
        self.window.threshold = self.control.reduce(&self.window);
        self.high = self.board.next();
    }

    /// Losses were noticed.
    pub(super) fn enter_recovery(&mut self) {
        self.statistics.recoveries += 1;
        if self.state != State::Reduction {
            self.begin_reduction();
        }
        self.high = self.board.next();
        self.probe = None;
        self.set_state(State::Recovery);
    }

    /// The window shrinks without anything being repaired: a congestion mark, or a tail that a probe
    /// has repaired.
    pub(super) fn enter_reduction(&mut self) {
        if self.state == State::Open {
            self.begin_reduction();
            self.undo = None;
            self.set_state(State::Reduction);
        }
    }

    /// A reduction, a recovery or the time after a timeout ends.
    pub(super) fn leave(&mut self) {
        if self.state != State::Loss {
            self.window.size = self.window.size.min(self.window.threshold).max(2);
        }
        if self.state == State::Recovery {
            self.rack.on_recovered();
        }
        self.set_state(State::Open);
    }

    /// Nothing was lost after all: the window is as before.
    pub(super) fn take_back(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        self.statistics.undone += 1;
        self.board.forgive();
        let size = self.control.on_undo().unwrap_or(undo.window.size);
        self.window.size = self.window.size.max(size);
        self.window.threshold = self.window.threshold.max(undo.window.threshold);
        self.set_state(State::Open);
    }

    /// The window during a reduction (RFC 6937, `tcp_cwnd_reduction`).
    pub(super) fn reduce_proportionally(&mut self, delivered: u32, has_repaired: bool, lost: u32) {
        if delivered == 0 || self.reduction.prior_window == 0 {
            return;
        }
        let reduction = &mut self.reduction;
        reduction.delivered += delivered;
        let in_flight = self.board.in_flight();
        let room = i64::from(self.window.threshold) - i64::from(in_flight);
        let mut more = if room < 0 {
            let allowed = u64::from(self.window.threshold) * u64::from(reduction.delivered);
            let allowed = allowed.div_ceil(u64::from(reduction.prior_window));
            allowed as i64 - i64::from(reduction.sent)
        } else if has_repaired && lost == 0 {
            let owed = i64::from(reduction.delivered) - i64::from(reduction.sent);
            room.min(owed.max(i64::from(delivered)) + 1)
        } else {
            room.min(i64::from(delivered))
        };
        more = more.max(if reduction.sent == 0 { 1 } else { 0 });
        self.window.size = in_flight + more as u32;
    }
}
