//! How much faster, and how sure that is: the middle of paired ratios with a bootstrap interval.
//!
//! Times of two versions come in pairs, one for each round, so whatever slows a round down slows both
//! down. A ratio is the pseudo-median of the pairs' ratios, on the scale of their logarithms; ratios of several inputs are
//! combined by their geometric mean. The interval comes from drawing rounds with replacement and doing the same again.

use crate::bootstrap::{Estimate, estimate};
use crate::random::Random;
use crate::statistics::PseudoMedian;

/// How often `slow` takes the time of `fast`; both hold one list for each input with one time for each
/// round, all of one length that is not 0.
pub fn ratio(slow: &[&[f64]], fast: &[&[f64]], random: &mut Random) -> Estimate {
    let logs: Vec<Vec<f64>> =
        slow.iter().zip(fast).map(|(s, f)| s.iter().zip(f.iter()).map(|(s, f)| (s / f).ln()).collect()).collect();
    let rounds = logs.iter().map(Vec::len).min().unwrap_or(0);
    let middles: Vec<PseudoMedian> = logs.iter().map(|one| PseudoMedian::new(&one[..rounds])).collect();
    let mean = |drawn: &[usize]| middles.iter().map(|m| m.of(drawn)).sum::<f64>() / middles.len().max(1) as f64;
    estimate(rounds, &mean, random).map(f64::exp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::tests::skewed;

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
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut random = Random::new(3);
        for (rounds, least, most) in [(5, 0.92, 0.99), (8, 0.93, 0.98), (20, 0.93, 0.98)] {
            let runs = 400;
            let held = (0..runs).filter(|_| {
                let of = |random: &mut Random| (0..rounds).map(|_| skewed(random, 0.08)).collect::<Vec<f64>>();
                let (a, b) = (of(&mut random), of(&mut random));
                ratio(&[&a], &[&b], &mut random).holds(1.0)
            });
            let share = held.count() as f64 / f64::from(runs);
            assert!((least..=most).contains(&share), "{rounds} rounds: {share}");
        }
    }

    #[test]
    fn several_inputs_are_combined_by_the_geometric_mean() {
        let mut random = Random::new(1);
        let found = ratio(&[&[2.0, 2.0], &[8.0, 8.0]], &[&[1.0, 1.0], &[1.0, 1.0]], &mut random);
        assert!((found.value - 4.0).abs() < 1e-9 && (found.low - 4.0).abs() < 1e-9);
    }
}
