//! When two are called different.

use crate::bootstrap::Estimate;
use crate::random::Random;
use crate::ratio::ratio;
use serde::Serialize;

/// Fewest rounds that anything is concluded from.
pub const FEWEST_ROUNDS: usize = 5;

/// What comparing two came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// The interval of their ratio excludes 1, and the ratio is further from 1 than the control's
    /// interval reaches.
    Different,
    /// The interval lies within the tolerance.
    Equivalent,
    /// Neither.
    Open,
}

/// Two versions, measured in the same rounds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// One over the other.
    pub ratio: Estimate,
    /// How far from 1 the control's interval reaches, as a factor of at least 1: what the machine does
    /// by itself.
    pub band: f64,
    /// Rounds that both were measured in.
    pub rounds: usize,
    /// What it came to.
    pub finding: Finding,
    /// How likely so many rounds would have gone the same way if there were no difference (exact sign test,
    /// two-sided), times the number of comparisons that were looked at (Holm 1979) where there were several.
    pub p: f64,
}

/// How far from 1 an interval reaches, as a factor of at least 1.
pub fn band(control: &Estimate) -> f64 {
    control.high.max(1.0 / control.low).max(1.0)
}

/// Judges a ratio by its interval and the control's.
pub fn judge(ratio: &Estimate, band: f64, rounds: usize, tolerance: f64) -> Finding {
    let distance = ratio.value.max(1.0 / ratio.value);
    if rounds < FEWEST_ROUNDS {
        return Finding::Open;
    }
    if !ratio.holds(1.0) && distance > band {
        return Finding::Different;
    }
    let most = 1.0 + tolerance;
    if ratio.low >= 1.0 / most && ratio.high <= most { Finding::Equivalent } else { Finding::Open }
}

/// Compares values of the same rounds, `a` over `b`; `None` where there is no round.
pub fn compare(a: &[f64], b: &[f64], band: f64, tolerance: f64, random: &mut Random) -> Option<Comparison> {
    let rounds = a.len().min(b.len());
    if rounds == 0 {
        return None;
    }
    let ratio = ratio(&[&a[..rounds]], &[&b[..rounds]], random);
    let (finding, p) = (judge(&ratio, band, rounds, tolerance), sign_test(a, b));
    Some(Comparison { ratio, band, rounds, finding, p })
}

/// Two-sided probability that at least as many of the pairs go the same way by chance; pairs of equal
/// values are left out.
pub fn sign_test(a: &[f64], b: &[f64]) -> f64 {
    let more = a.iter().zip(b).filter(|(a, b)| a > b).count();
    let less = a.iter().zip(b).filter(|(a, b)| a < b).count();
    let all = more + less;
    let mut term = 0.5f64.powi(all as i32);
    let mut tail = 0.0;
    for k in 0..=more.min(less) {
        tail += term;
        term *= (all - k) as f64 / (k + 1) as f64;
    }
    (2.0 * tail).min(1.0)
}

/// Makes the probabilities of several comparisons larger, so that one of them is small by chance as seldom as
/// if it were the only one (Holm's method).
pub fn adjust(all: &mut [&mut Comparison]) {
    all.sort_by(|a, b| a.p.total_cmp(&b.p));
    let (count, mut least) = (all.len(), 0.0);
    for (place, one) in all.iter_mut().enumerate() {
        least = f64::max(least, (one.p * (count - place) as f64).min(1.0));
        one.p = least;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio_of(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    #[test]
    fn different_takes_both_the_interval_and_the_band() {
        let narrow = ratio_of(1.05, 1.04, 1.06);
        assert_eq!(judge(&narrow, 1.01, 20, 0.03), Finding::Different);
        assert_eq!(judge(&narrow, 1.08, 20, 0.03), Finding::Open);
        assert_eq!(judge(&ratio_of(1.05, 0.99, 1.11), 1.01, 20, 0.03), Finding::Open);
        assert_eq!(judge(&ratio_of(0.9, 0.88, 0.92), 1.05, 20, 0.03), Finding::Different);
        assert_eq!(judge(&ratio_of(1.0, 0.99, 1.01), 1.01, 20, 0.03), Finding::Equivalent);
        assert_eq!(judge(&narrow, 1.0, FEWEST_ROUNDS - 1, 0.03), Finding::Open);
    }

    #[test]
    fn signs_and_their_number() {
        assert_eq!(sign_test(&[2.0; 6], &[1.0; 6]), 2.0 / 64.0);
        assert_eq!(sign_test(&[1.0, 2.0], &[2.0, 1.0]), 1.0);
        assert_eq!(sign_test(&[1.0], &[1.0]), 1.0);
        let mut three = [0.02, 0.9, 0.01].map(|p| {
            let ratio = ratio_of(1.1, 1.0, 1.2);
            Comparison { ratio, band: 1.0, rounds: 9, finding: Finding::Open, p }
        });
        adjust(&mut three.iter_mut().collect::<Vec<_>>());
        assert_eq!(three.map(|c| c.p), [0.04, 0.9, 0.03]);
    }

    /// Rounds of three versions: two alike and one slower by a factor, with noise of one percent that
    /// rounds share and half a percent of their own.
    fn rounds(factor: f64, random: &mut Random) -> [Vec<f64>; 3] {
        let mut all = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..20 {
            let common = 1.0 + random.below(1000) as f64 / 1e5;
            for (version, factor) in [1.0, 1.0, factor].into_iter().enumerate() {
                all[version].push(100.0 * factor * common * (1.0 + random.below(1000) as f64 / 2e5));
            }
        }
        all
    }

    #[test]
    fn what_is_alike_is_hardly_ever_called_different_and_what_differs_always() {
        let mut random = Random::new(11);
        let mut false_alarms = 0;
        for _ in 0..200 {
            let [a, again, b] = rounds(1.02, &mut random);
            let control = ratio(&[&a], &[&again], &mut random);
            let [_, same, _] = rounds(1.0, &mut random);
            let of = |b: &[f64], random: &mut Random| compare(&a, b, band(&control), 0.03, random).unwrap().finding;
            assert_eq!(of(&b, &mut random), Finding::Different);
            false_alarms += usize::from(of(&same, &mut random) == Finding::Different);
        }
        assert!(false_alarms <= 10, "{false_alarms} of 200");
    }
}
