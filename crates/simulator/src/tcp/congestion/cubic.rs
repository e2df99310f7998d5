//! CUBIC: the window follows a cubic of the time since the last loss, and is never below Reno's.

use super::{Congestion, Progress, State, Window};

/// What is left of the window after a loss.
const BETA: f64 = 717.0 / 1024.0;
/// The cubic's scale, in segments per cubic second (Linux: `bic_scale` 41, divided by 2^10 / 10).
const SCALE: f64 = 41.0 * 10.0 / 1024.0;

/// The cubic since the last loss.
#[derive(Default)]
pub struct Cubic {
    epoch: Option<u64>,
    last_maximum: f64,
    origin: f64,
    /// Seconds from the epoch to the origin.
    turn: f64,
    /// The window Reno would have, with CUBIC's smaller reduction.
    reno: f64,
    window_at_loss: u32,
}

impl Cubic {
    fn begin(&mut self, now: u64, size: f64) -> u64 {
        self.reno = size;
        (self.origin, self.turn) = match self.last_maximum <= size {
            true => (size, 0.0),
            false => (self.last_maximum, libm::cbrt((self.last_maximum - size) / SCALE)),
        };
        *self.epoch.insert(now)
    }

    /// Acknowledged segments for one more in the window.
    fn per(&mut self, progress: &Progress, window: &Window) -> u32 {
        let size = f64::from(window.size);
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(progress.now, size),
        };
        let rtt = if progress.least_rtt == u64::MAX { 0 } else { progress.least_rtt };
        let seconds = (progress.now - epoch + rtt) as f64 / 1e12;
        let past = seconds - self.turn;
        let target = self.origin + SCALE * past * past * past;
        let cubic = if target > size { size / (target - size) } else { 100.0 * size };
        self.reno += f64::from(progress.acknowledged) * 3.0 * (1.0 - BETA) / (1.0 + BETA) / size;
        let friendly = if self.reno > size { size / (self.reno - size) } else { f64::INFINITY };
        cubic.min(friendly).clamp(2.0, f64::from(u32::MAX / 2)) as u32
    }
}

impl Congestion for Cubic {
    fn grow(&mut self, progress: &Progress, window: &mut Window) {
        let mut advance = *progress;
        if window.is_slow_start() {
            advance.acknowledged = window.slow_start(progress.acknowledged);
        }
        if advance.acknowledged > 0 {
            let per = self.per(&advance, window);
            window.grow(per, advance.acknowledged);
        }
    }

    fn reduce(&mut self, window: &Window) -> u32 {
        let size = f64::from(window.size);
        self.epoch = None;
        self.window_at_loss = window.size;
        // Fast convergence: a flow that lost below its last maximum makes room.
        self.last_maximum = if size < self.last_maximum { size * (1.0 + BETA) / 2.0 } else { size };
        ((size * BETA) as u32).max(2)
    }

    fn on_state(&mut self, state: State, _window: &mut Window) {
        if state == State::Loss {
            *self = Cubic { window_at_loss: self.window_at_loss, ..Cubic::default() };
        }
    }

    fn on_undo(&mut self) -> Option<u32> {
        Some(self.window_at_loss)
    }
}
