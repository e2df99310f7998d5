//! Random numbers: xoshiro256++ (Blackman and Vigna 2019), seeded by SplitMix64. Logarithms come
//! from `libm`, so that a seed means the same on every machine.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Another stream of the same seed, for another purpose: streams with different names are
    /// independent, so that one consumer does not shift what another one sees.
    pub fn named(seed: u64, name: &str) -> Random {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Random::new(name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, fold))
    }

    /// Any number.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..`limit`, which is not 0 (Lemire's multiplication; the bias is below 2^-32 for
    /// limits below 2^32).
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Uniform in [`low`, `high`].
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Yes with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() <= probability
    }

    /// Exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.unit())
    }

    /// Failures before the first success, each trial succeeding with `probability`; `u64::MAX` when
    /// that never happens.
    pub fn failures_before_success(&mut self, probability: f64) -> u64 {
        if probability <= 0.0 {
            return u64::MAX;
        }
        if probability >= 1.0 {
            return 0;
        }
        let trials = libm::log(self.unit()) / libm::log1p(-probability);
        if trials >= 1e18 { u64::MAX } else { trials as u64 }
    }

    /// Log-normal: `median` times e to the power of a normal number with deviation `sigma`.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        let normal = radius * libm::cos(std::f64::consts::TAU * self.unit());
        median * libm::exp(sigma * normal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_stream_and_names_part_it() {
        let first = |mut r: Random| r.bits();
        assert_eq!(first(Random::new(7)), first(Random::new(7)));
        assert_ne!(first(Random::named(7, "loss")), first(Random::named(7, "hosts")));
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(1);
        let n = 200_000;
        let mean = |f: &mut dyn FnMut(&mut Random) -> f64, r: &mut Random| (0..n).map(|_| f(r)).sum::<f64>() / n as f64;
        let gap = mean(&mut |r| r.failures_before_success(0.01) as f64, &mut random);
        assert!((gap - 99.0).abs() < 1.5, "{gap}");
        let exponential = mean(&mut |r| r.exponential(3.0), &mut random);
        assert!((exponential - 3.0).abs() < 0.05, "{exponential}");
        let uniform = mean(&mut |r| r.below(10) as f64, &mut random);
        assert!((uniform - 4.5).abs() < 0.05, "{uniform}");
    }
}
