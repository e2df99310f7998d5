//! Which key is asked for: Zipf's distribution, as a table of samples that is gone through in a circle.

use karakoram_lab::random::Random;

/// Samples.
const SAMPLES: usize = 1 << 21;

/// A table of samples.
pub struct Zipf {
    samples: Vec<u32>,
}

impl Zipf {
    /// Of so many keys, the n-th being asked for as often as `n` to the power of `-exponent`.
    pub fn new(keys: usize, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=keys)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        let mut random = Random::new(keys as u64);
        let one = |_| {
            let share = random.number() as f64 / (u64::MAX as f64 + 1.0) * sum;
            sums.partition_point(|s| *s <= share) as u32
        };
        Zipf { samples: (0..SAMPLES).map(one).collect() }
    }

    /// The samples from a place on, for ever.
    pub fn from(&self, start: u64) -> impl Iterator<Item = u32> {
        let start = start as usize % SAMPLES;
        self.samples[start..].iter().chain(self.samples.iter().cycle()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With exponent 1 and three keys the shares are 6, 3 and 2 elevenths.
    #[test]
    fn shares_are_those_of_the_law() {
        let zipf = Zipf::new(3, 1.0);
        for (key, share) in [(0, 6.0 / 11.0), (1, 3.0 / 11.0), (2, 2.0 / 11.0)] {
            let found = zipf.samples.iter().filter(|k| **k == key).count() as f64 / SAMPLES as f64;
            assert!((found - share).abs() < 0.005, "key {key}: {found}");
        }
    }
}
