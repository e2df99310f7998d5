//! BBR version 1: a model of the path (bottleneck rate, round trip) instead of losses. Without the
//! detection of policers.

use super::{Congestion, Progress, State, Window};
use crate::random::Random;
use std::collections::VecDeque;

const HIGH_GAIN: f64 = 2885.0 / 1000.0;
const WINDOW_GAIN: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Paced slightly below the estimate, to keep queues short.
const PACING_MARGIN: f64 = 0.99;
/// Rounds over which the rate's maximum is taken.
const RATE_ROUNDS: u64 = 10;
const FULL_RATE_GROWTH: f64 = 1.25;
const FULL_RATE_ROUNDS: u32 = 3;
const PROBE_EVERY: u64 = 10_000_000_000_000;
const PROBE_TIME: u64 = 200_000_000_000;
const LEAST_WINDOW: u32 = 4;
/// Full segments in 64 KB.
const LARGEST_BURST: u32 = 44;
const SECOND: f64 = 1e12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    Drain,
    ProbeRate,
    ProbeRoundTrip,
}

/// The model.
pub struct Bbr {
    phase: Phase,
    /// Maxima of the rate in segments per second, with their rounds; the largest first.
    rates: VecDeque<(u64, f64)>,
    least_rtt: u64,
    least_rtt_at: u64,
    rounds: u64,
    round_ends_at: u64,
    is_round_start: bool,
    full_rate: f64,
    full_rate_rounds: u32,
    cycle: usize,
    cycle_at: u64,
    probe_ends_at: Option<u64>,
    is_probe_round_done: bool,
    prior_window: u32,
    is_conserving: bool,
    is_entering: bool,
    state: State,
    pacing: f64,
    random: Random,
}

impl Bbr {
    /// Knows nothing yet.
    pub fn new(seed: u64) -> Bbr {
        Bbr {
            phase: Phase::Startup,
            rates: VecDeque::new(),
            least_rtt: u64::MAX,
            least_rtt_at: 0,
            rounds: 0,
            round_ends_at: 0,
            is_round_start: false,
            full_rate: 0.0,
            full_rate_rounds: 0,
            cycle: 0,
            cycle_at: 0,
            probe_ends_at: None,
            is_probe_round_done: false,
            prior_window: 0,
            is_conserving: false,
            is_entering: false,
            state: State::Open,
            pacing: 0.0,
            random: Random::named(seed, "bbr"),
        }
    }

    /// The bottleneck's rate, in segments per second.
    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    fn is_pipe_full(&self) -> bool {
        self.full_rate_rounds >= FULL_RATE_ROUNDS
    }

    fn gains(&self) -> (f64, f64) {
        match self.phase {
            Phase::Startup => (HIGH_GAIN, HIGH_GAIN),
            Phase::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Phase::ProbeRate => (CYCLE[self.cycle], WINDOW_GAIN),
            Phase::ProbeRoundTrip => (1.0, 1.0),
        }
    }

    /// Segments on the path at this gain, and a few more for what hosts batch.
    fn target(&self, gain: f64) -> u32 {
        if self.least_rtt == u64::MAX || self.rates.is_empty() {
            return 10;
        }
        let path = self.rate() * self.least_rtt as f64 / SECOND;
        let target = libm::ceil(path * gain) as u32 + 3 * self.burst();
        let target = (target + 1) & !1;
        if self.phase == Phase::ProbeRate && self.cycle == 0 { target + 2 } else { target }
    }

    /// Segments that the host hands over at once (`bbr_tso_segs_goal`): what it sends in a millisecond, as
    /// much as fits into 64 KB. Three of these may be in the hosts beside what is on the path, so that slow
    /// interrupts do not starve it.
    fn burst(&self) -> u32 {
        ((self.pacing / 1024.0) as u32).clamp(1, LARGEST_BURST)
    }

    fn update_rate(&mut self, progress: &Progress) {
        self.is_round_start = false;
        let Some(sample) = progress.sample else { return };
        if sample.prior_delivered >= self.round_ends_at {
            self.round_ends_at = progress.delivered_total;
            self.rounds += 1;
            self.is_round_start = true;
            self.is_conserving = false;
        }
        let rate = sample.delivered as f64 * SECOND / sample.interval as f64;
        if !sample.is_application_limited || rate >= self.rate() {
            while self.rates.back().is_some_and(|(_, r)| *r <= rate) {
                self.rates.pop_back();
            }
            self.rates.push_back((self.rounds, rate));
        }
        while self.rates.len() > 1 && self.rates[0].0 + RATE_ROUNDS < self.rounds {
            self.rates.pop_front();
        }
    }

    fn check_full_pipe(&mut self, progress: &Progress) {
        let is_limited = progress.sample.is_some_and(|s| s.is_application_limited);
        if self.is_pipe_full() || !self.is_round_start || is_limited {
            return;
        }
        if self.rate() >= self.full_rate * FULL_RATE_GROWTH {
            (self.full_rate, self.full_rate_rounds) = (self.rate(), 0);
        } else {
            self.full_rate_rounds += 1;
        }
    }

    fn check_drain(&mut self, progress: &Progress) {
        if self.phase == Phase::Startup && self.is_pipe_full() {
            self.phase = Phase::Drain;
        }
        if self.phase == Phase::Drain && progress.in_flight <= self.target(1.0) {
            self.enter_probe_rate(progress.now);
        }
    }

    fn enter_probe_rate(&mut self, now: u64) {
        self.phase = Phase::ProbeRate;
        // Any phase but the one that drains.
        self.cycle = (8 - self.random.below(7) as usize) % 8;
        self.cycle_at = now;
    }

    fn advance_cycle(&mut self, progress: &Progress) {
        if self.phase != Phase::ProbeRate {
            return;
        }
        let is_over = progress.now - self.cycle_at > self.least_rtt;
        let ends = match CYCLE[self.cycle] {
            gain if gain > 1.0 => is_over && (progress.lost > 0 || progress.prior_in_flight >= self.target(gain)),
            gain if gain < 1.0 => is_over || progress.prior_in_flight <= self.target(1.0),
            _ => is_over,
        };
        if ends {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_at = progress.now;
        }
    }

    fn update_round_trip(&mut self, progress: &Progress, window: &mut Window) {
        let is_expired = progress.now > self.least_rtt_at + PROBE_EVERY;
        if let Some(rtt) = progress.rtt.filter(|rtt| *rtt <= self.least_rtt || is_expired) {
            (self.least_rtt, self.least_rtt_at) = (rtt, progress.now);
        }
        if is_expired && self.phase != Phase::ProbeRoundTrip && self.least_rtt != u64::MAX {
            self.phase = Phase::ProbeRoundTrip;
            self.prior_window = window.size;
            self.probe_ends_at = None;
        }
        if self.phase == Phase::ProbeRoundTrip {
            self.probe_round_trip(progress, window);
        }
    }

    fn probe_round_trip(&mut self, progress: &Progress, window: &mut Window) {
        let Some(end) = self.probe_ends_at else {
            if progress.in_flight <= LEAST_WINDOW {
                self.probe_ends_at = Some(progress.now + PROBE_TIME);
                self.is_probe_round_done = false;
                self.round_ends_at = progress.delivered_total;
            }
            return;
        };
        self.is_probe_round_done |= self.is_round_start;
        if self.is_probe_round_done && progress.now > end {
            self.least_rtt_at = progress.now;
            window.size = window.size.max(self.prior_window);
            match self.is_pipe_full() {
                true => self.enter_probe_rate(progress.now),
                false => self.phase = Phase::Startup,
            }
        }
    }

    fn set_pacing(&mut self, window: &Window) {
        let (gain, _) = self.gains();
        let rate = match self.rates.is_empty() {
            true if self.least_rtt == u64::MAX => return,
            true => HIGH_GAIN * f64::from(window.size) * SECOND / self.least_rtt as f64,
            false => self.rate() * gain * PACING_MARGIN,
        };
        if self.is_pipe_full() || rate > self.pacing {
            self.pacing = rate;
        }
    }

    fn set_window(&mut self, progress: &Progress, window: &mut Window) {
        if progress.delivered > 0 {
            self.adapt_window(progress, window);
        }
        if self.phase == Phase::ProbeRoundTrip {
            window.size = window.size.min(LEAST_WINDOW);
        }
    }

    fn adapt_window(&mut self, progress: &Progress, window: &mut Window) {
        if progress.lost > 0 {
            window.size = window.size.saturating_sub(progress.lost).max(1);
        }
        if std::mem::take(&mut self.is_entering) {
            self.round_ends_at = progress.delivered_total;
            window.size = progress.in_flight + progress.delivered;
        }
        if self.is_conserving {
            window.size = window.size.max(progress.in_flight + progress.delivered);
            return;
        }
        let target = self.target(self.gains().1);
        if self.is_pipe_full() {
            window.size = (window.size + progress.delivered).min(target);
        } else if window.size < target || progress.delivered_total < 10 {
            window.size += progress.delivered;
        }
        window.size = window.size.max(LEAST_WINDOW);
    }
}

impl Congestion for Bbr {
    fn grow(&mut self, _progress: &Progress, _window: &mut Window) {}

    fn reduce(&mut self, window: &Window) -> u32 {
        self.save(window);
        window.threshold
    }

    fn control(&mut self, progress: &Progress, window: &mut Window) -> bool {
        self.leave_repair(progress, window);
        self.update_rate(progress);
        self.advance_cycle(progress);
        self.check_full_pipe(progress);
        self.check_drain(progress);
        self.update_round_trip(progress, window);
        self.set_pacing(window);
        self.set_window(progress, window);
        true
    }

    fn on_state(&mut self, state: State, window: &mut Window) {
        match state {
            State::Recovery => {
                self.save(window);
                (self.is_conserving, self.is_entering) = (true, true);
            }
            State::Loss => {
                self.save(window);
                self.full_rate = 0.0;
                self.is_round_start = true;
            }
            _ => {}
        }
        self.state = state;
    }

    fn on_undo(&mut self) -> Option<u32> {
        self.full_rate = 0.0;
        self.full_rate_rounds = 0;
        Some(self.prior_window)
    }

    fn pacing(&self) -> Option<f64> {
        (self.pacing > 0.0).then_some(self.pacing)
    }
}

impl Bbr {
    /// Remembers the last good window.
    fn save(&mut self, window: &Window) {
        let is_usual =
            self.state != State::Recovery && self.state != State::Loss && self.phase != Phase::ProbeRoundTrip;
        self.prior_window = if is_usual { window.size } else { self.prior_window.max(window.size) };
    }

    fn leave_repair(&mut self, progress: &Progress, window: &mut Window) {
        let is_over = !matches!(progress.state, State::Recovery | State::Loss);
        if is_over && matches!(self.state, State::Recovery | State::Loss) {
            self.is_conserving = false;
            window.size = window.size.max(self.prior_window);
            self.state = progress.state;
        }
    }
}
