//! Smoothed round-trip time and the retransmission timeout from it (RFC 6298, as `tcp_rtt_estimator`
//! and `__tcp_set_rto` have it: the deviation term is never below the least timeout).

/// The estimates of one connection, in picoseconds.
#[derive(Clone, Debug)]
pub struct RoundTrip {
    smoothed: u64,
    deviation: u64,
    minimum: u64,
    least_timeout: u64,
}

impl RoundTrip {
    /// Nothing measured yet.
    pub fn new(least_timeout: u64) -> RoundTrip {
        RoundTrip { smoothed: 0, deviation: 0, minimum: u64::MAX, least_timeout }
    }

    /// Takes a measurement in.
    pub fn sample(&mut self, rtt: u64) {
        self.minimum = self.minimum.min(rtt);
        if self.smoothed == 0 {
            (self.smoothed, self.deviation) = (rtt, rtt / 2);
            return;
        }
        let error = rtt.abs_diff(self.smoothed);
        self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        // A shorter time than expected raises the deviation an eighth as much.
        let gain = if rtt < self.smoothed && error > self.deviation { 32 } else { 4 };
        self.deviation = self.deviation - self.deviation / gain + error / gain;
    }

    /// The smoothed time; 0 before the first measurement.
    pub fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// The shortest time; `u64::MAX` before the first measurement.
    pub fn minimum(&self) -> u64 {
        self.minimum
    }

    /// The timeout, before it is rounded to jiffies.
    pub fn timeout(&self) -> u64 {
        self.smoothed + (4 * self.deviation).max(self.least_timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_time_leaves_the_least_timeout() {
        let mut rtt = RoundTrip::new(1_000);
        (0..100).for_each(|_| rtt.sample(30));
        assert!(rtt.smoothed().abs_diff(30) <= 8, "{}", rtt.smoothed());
        assert_eq!(rtt.timeout(), rtt.smoothed() + 1_000);
    }

    #[test]
    fn an_unsteady_time_raises_it() {
        let mut rtt = RoundTrip::new(1_000);
        (0..100u64).for_each(|i| rtt.sample(10_000 + 8_000 * (i % 2)));
        assert!(rtt.timeout() > 20_000, "{}", rtt.timeout());
    }
}
