//! How much faster, and how sure that is: medians of paired ratios with bootstrap intervals.
//!
//! Times of two versions come in pairs, one for each round, so whatever slows a round down slows both
//! down. A ratio is the median of the pairs' ratios; ratios of several inputs are combined by their
//! geometric mean. The interval comes from drawing rounds with replacement and doing the same again.

use crate::bootstrap::{Estimate, estimate};
use crate::random::Random;
use crate::statistics::median;

/// How often `slow` takes the time of `fast`; both hold one list for each input with one time for each
/// round, all of one length that is not 0.
pub fn ratio(slow: &[&[f64]], fast: &[&[f64]], random: &mut Random) -> Estimate {
    let logs: Vec<Vec<f64>> =
        slow.iter().zip(fast).map(|(s, f)| s.iter().zip(f.iter()).map(|(s, f)| (s / f).ln()).collect()).collect();
    let rounds = logs.iter().map(Vec::len).min().unwrap_or(0);
    estimate(rounds, &|drawn| combined(&logs, drawn), random).map(f64::exp)
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
        assert!(!found.holds(1.0));
        assert!(ratio(&[&a], &[&c], &mut random).holds(1.0));
    }

    #[test]
    fn several_inputs_are_combined_by_the_geometric_mean() {
        let mut random = Random::new(1);
        let found = ratio(&[&[2.0, 2.0], &[8.0, 8.0]], &[&[1.0, 1.0], &[1.0, 1.0]], &mut random);
        assert!((found.value - 4.0).abs() < 1e-9 && (found.low - 4.0).abs() < 1e-9);
    }
}
