//! How much faster, and how sure that is: medians of paired ratios with bootstrap intervals.
//!
//! Times of two versions come in pairs, one for each round, so whatever slows a round down slows both
//! down. A ratio is the median of the pairs' ratios; ratios of several inputs are combined by their
//! geometric mean. The interval comes from drawing rounds with replacement and doing the same again
//! (percentile bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13).

use crate::random::Random;
use crate::statistics::median;

/// Draws for one interval.
const DRAWS: usize = 2_000;

/// A ratio with the interval that 95 % of the draws are in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// The ratio.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    /// Half of the interval's width.
    pub fn plus_minus(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether the interval leaves open which one is faster.
    pub fn is_open(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }
}

/// How often `slow` takes the time of `fast`; both hold one list for each input with one time for each
/// round, all of one length that is not 0.
pub fn ratio(slow: &[&[f64]], fast: &[&[f64]], random: &mut Random) -> Ratio {
    let logs: Vec<Vec<f64>> =
        slow.iter().zip(fast).map(|(s, f)| s.iter().zip(f.iter()).map(|(s, f)| (s / f).ln()).collect()).collect();
    let rounds = logs.iter().map(Vec::len).min().unwrap_or(0);
    let all: Vec<usize> = (0..rounds).collect();
    let mut draws: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn: Vec<usize> = all.iter().map(|_| random.below(rounds as u64) as usize).collect();
            combined(&logs, &drawn)
        })
        .collect();
    draws.sort_by(f64::total_cmp);
    let at = |share: f64| draws[((DRAWS - 1) as f64 * share).round() as usize].exp();
    Ratio { ratio: combined(&logs, &all).exp(), low: at(0.025), high: at(0.975) }
}

/// Mean over inputs of the median over those rounds.
fn combined(logs: &[Vec<f64>], rounds: &[usize]) -> f64 {
    let medians = logs.iter().map(|one| median(&rounds.iter().map(|r| one[*r]).collect::<Vec<_>>()));
    medians.sum::<f64>() / logs.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times around `centre` with noise of a few percent, and outliers.
    fn times(centre: f64, random: &mut Random) -> Vec<f64> {
        (0..40)
            .map(|i| {
                let noise = 1.0 + random.below(1000) as f64 / 20_000.0;
                if i % 13 == 0 { centre * 3.0 } else { centre * noise }
            })
            .collect()
    }

    #[test]
    fn a_difference_is_found_and_none_is_not() {
        let mut random = Random::new(7);
        let (a, b, c) = (times(100.0, &mut random), times(80.0, &mut random), times(100.0, &mut random));
        let found = ratio(&[&a], &[&b], &mut random);
        assert!(found.low <= 1.25 && 1.25 <= found.high && found.plus_minus() < 0.03, "{found:?}");
        assert!(!found.is_open());
        assert!(ratio(&[&a], &[&c], &mut random).is_open());
    }

    #[test]
    fn several_inputs_are_combined_by_the_geometric_mean() {
        let mut random = Random::new(1);
        let found = ratio(&[&[2.0, 2.0], &[8.0, 8.0]], &[&[1.0, 1.0], &[1.0, 1.0]], &mut random);
        assert!((found.ratio - 4.0).abs() < 1e-9 && (found.low - 4.0).abs() < 1e-9);
    }
}
