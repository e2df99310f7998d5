//! How late packets were sent, compared with when they should have been.

use std::fmt;

/// Packets by the logarithm of the nanoseconds they were late.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lateness {
    buckets: Vec<u64>,
}

/// One packet in a thousand may be later than the limit.
const SHARE: f64 = 0.999;

impl Lateness {
    /// From counts: bucket `n` holds those late by 2^n ns and less than twice that.
    pub fn new(buckets: Vec<u64>) -> Lateness {
        Lateness { buckets }
    }

    /// Counts one more.
    pub fn record(&mut self, ns: u64) {
        let bucket = ns.max(1).ilog2() as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// Packets counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// An upper bound, in ns, of how late that share of the packets was; 0 of nothing.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return 1 << (bucket + 1);
            }
        }
        0
    }

    /// Whether 99.9 % of the packets were sent within that time.
    pub fn is_within(&self, ns: u64) -> bool {
        self.quantile_ns(SHARE) <= ns
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let us = |share| self.quantile_ns(share) as f64 / 1e3;
        write!(f, "p50 below {:.1} us, p99.9 below {:.1} us, all below {:.1} us", us(0.5), us(SHARE), us(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_quantiles() {
        let mut late = Lateness::default();
        (0..999).for_each(|_| late.record(100));
        late.record(1_000_000);
        assert_eq!((late.quantile_ns(0.5), late.quantile_ns(1.0)), (128, 1 << 20));
        assert!(late.is_within(50_000));
        late.record(1_000_000);
        assert!(!late.is_within(50_000));
        assert_eq!(Lateness::default().quantile_ns(0.5), 0);
    }
}
