//! How full a buffer is, weighted by time.

/// Bytes of a step of the histogram.
const STEP: u64 = 256;
const STEPS: usize = 1024;

/// A histogram of how long a buffer held how much; what is above 256 KiB counts as 256 KiB.
#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    time: Vec<u64>,
    since: u64,
    bytes: u64,
    peak: u64,
}

impl Occupancy {
    /// An empty buffer.
    pub fn new() -> Occupancy {
        Occupancy { time: vec![0; STEPS + 1], since: 0, bytes: 0, peak: 0 }
    }

    /// From now on there are so many bytes.
    #[inline]
    pub fn set(&mut self, now: u64, bytes: u64) {
        if bytes != self.bytes {
            self.time[((self.bytes / STEP) as usize).min(STEPS)] += now - self.since;
            (self.since, self.bytes) = (now, bytes);
            self.peak = self.peak.max(bytes);
        }
    }

    /// Most there was.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// What was not exceeded for this share of the time until `now`.
    pub fn quantile(&self, now: u64, share: f64) -> u64 {
        let done = self.closed(now);
        let total: u64 = done.time.iter().sum();
        let mut left = (total as f64 * share) as u64;
        for (step, time) in done.time.iter().enumerate() {
            if *time > 0 && left <= *time {
                return (step as u64 * STEP).min(self.peak);
            }
            left = left.saturating_sub(*time);
        }
        self.peak
    }

    /// Moves on by `times` the time since `before`, as it was at `then`, in which as much happened.
    pub fn repeat(&mut self, before: &Occupancy, then: u64, now: u64, times: u64) {
        let (done, begun) = (self.closed(now), before.closed(then));
        for ((time, done), begun) in self.time.iter_mut().zip(&done.time).zip(&begun.time) {
            *time += (done - begun) * times;
        }
        self.since += (now - then) * times;
    }

    /// The same with all time up to `now` counted.
    #[must_use]
    pub fn closed(&self, now: u64) -> Occupancy {
        let mut closed = self.clone();
        let now = now.max(self.since);
        closed.time[((self.bytes / STEP) as usize).min(STEPS)] += now - self.since;
        closed.since = now;
        closed
    }

    /// What there is now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Default for Occupancy {
    fn default() -> Self {
        Occupancy::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_weighted_by_time() {
        let mut occupancy = Occupancy::new();
        occupancy.set(90, 10_240);
        occupancy.set(100, 0);
        assert_eq!(occupancy.quantile(100, 0.5), 0);
        assert_eq!(occupancy.quantile(100, 0.95), 10_240);
        assert_eq!(occupancy.peak(), 10_240);
    }

    #[test]
    fn repeating_is_living_through_it() {
        let (mut slow, mut fast) = (Occupancy::new(), Occupancy::new());
        let mut before = fast.clone();
        for round in 0..10 {
            slow.set(round * 10, 512);
            slow.set(round * 10 + 3, 1024);
            if round == 0 {
                before = slow.clone();
            }
            if round == 1 {
                fast = slow.clone();
                fast.repeat(&before, 5, 15, 8);
            }
        }
        assert_eq!(slow.closed(100), fast.closed(100));
    }
}
