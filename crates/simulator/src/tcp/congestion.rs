//! Congestion control: how large the window is, and how fast segments leave.

mod bbr;
mod cubic;
mod dctcp;
mod reno;

use super::rate::Sample;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use reno::Reno;

/// The window, in segments.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Segments that may be in flight.
    pub size: u32,
    /// Where slow start ends.
    pub threshold: u32,
    /// Acknowledged since the window grew last (congestion avoidance).
    pub credit: u32,
}

impl Window {
    /// Whether it grows with every acknowledged segment.
    pub fn is_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Slow start; returns what was acknowledged beyond it.
    pub fn slow_start(&mut self, acknowledged: u32) -> u32 {
        let size = (self.size + acknowledged).min(self.threshold);
        let rest = acknowledged - (size - self.size);
        self.size = size;
        rest
    }

    /// One more segment for every `per` acknowledged ones (`tcp_cong_avoid_ai`).
    pub fn grow(&mut self, per: u32, acknowledged: u32) {
        if self.credit >= per {
            self.credit = 0;
            self.size += 1;
        }
        self.credit += acknowledged;
        if self.credit >= per {
            self.size += self.credit / per;
            self.credit %= per;
        }
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing unusual.
    Open,
    /// The window shrinks because of congestion marks or a repaired tail.
    Reduction,
    /// Losses are repaired.
    Recovery,
    /// A timeout went by.
    Loss,
}

/// What an acknowledgement tells congestion control.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// When.
    pub now: u64,
    /// All below this is acknowledged.
    pub first: u32,
    /// The next new segment.
    pub next: u32,
    /// Segments newly acknowledged in order.
    pub acknowledged: u32,
    /// Segments newly delivered, in order or not.
    pub delivered: u32,
    /// Delivered in all.
    pub delivered_total: u64,
    /// Segments newly taken for lost.
    pub lost: u32,
    /// Segments in flight before and after.
    pub prior_in_flight: u32,
    /// Segments in flight now.
    pub in_flight: u32,
    /// A measured round trip.
    pub rtt: Option<u64>,
    /// The shortest round trip.
    pub least_rtt: u64,
    /// The receiver saw congestion.
    pub echo: bool,
    /// A rate sample.
    pub sample: Option<Sample>,
    /// Where the connection stands.
    pub state: State,
}

/// A congestion control, with the hooks that Linux gives them.
pub trait Congestion {
    /// Sees every acknowledgement.
    fn observe(&mut self, _progress: &Progress, _window: &Window) {}

    /// May enlarge the window; not asked while it is being reduced.
    fn grow(&mut self, progress: &Progress, window: &mut Window);

    /// Where slow start ends from now on, because of loss or a congestion mark.
    fn reduce(&mut self, window: &Window) -> u32;

    /// Sets the window itself on every acknowledgement; false: the usual way.
    fn control(&mut self, _progress: &Progress, _window: &mut Window) -> bool {
        false
    }

    /// The connection's standing changes.
    fn on_state(&mut self, _state: State, _window: &mut Window) {}

    /// A reduction turned out to be wrong. Returns the window to go back to, if the control knows better.
    fn on_undo(&mut self) -> Option<u32> {
        None
    }

    /// Segments per second; none when they are not paced.
    fn pacing(&self) -> Option<f64> {
        None
    }

    /// Whether segments carry ECT.
    fn is_ecn(&self) -> bool {
        false
    }
}

/// The controls there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Reno (RFC 5681).
    Reno,
    /// CUBIC (RFC 8312, `tcp_cubic.c`).
    Cubic,
    /// DCTCP (RFC 8257, `tcp_dctcp.c`).
    Dctcp,
    /// BBR version 1 (`tcp_bbr.c`).
    Bbr,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Algorithm; 4] = [Algorithm::Reno, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Bbr];

    /// Its name, as Linux writes it.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Reno => "reno",
            Algorithm::Cubic => "cubic",
            Algorithm::Dctcp => "dctcp",
            Algorithm::Bbr => "bbr",
        }
    }

    /// One for a new connection.
    pub fn start(self, seed: u64) -> Box<dyn Congestion> {
        match self {
            Algorithm::Reno => Box::new(Reno),
            Algorithm::Cubic => Box::new(Cubic::default()),
            Algorithm::Dctcp => Box::new(Dctcp::default()),
            Algorithm::Bbr => Box::new(Bbr::new(seed)),
        }
    }
}
