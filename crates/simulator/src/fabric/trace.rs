//! When which link starts to corrupt frames, and how badly.

use super::{LinkId, Shape};
use crate::random::Random;

/// Mean time to failure of a link.
const MTTF_HOURS: f64 = 10_000.0;
/// Failures of one link that are drawn at most.
const FAILURES_PER_LINK: usize = 10;
/// Shares of loss rates among corrupting links, and their bounds; uniform within.
const RATES: [(f64, f64, f64); 4] =
    [(0.4723, 1e-8, 9e-6), (0.1843, 1e-5, 9.9e-5), (0.2166, 1e-4, 9.99e-4), (0.1267, 1e-3, 1e-2)];
/// How long repairs take, and how often they take the shorter time.
const REPAIR_HOURS: [u32; 2] = [48, 96];
const SHARE_OF_SHORT_REPAIRS: f64 = 0.8;

/// A link starts to corrupt frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// Hours since the start.
    pub hour: u32,
    /// The link.
    pub link: LinkId,
    /// The share of frames it loses from now on, until it is repaired.
    pub rate: f64,
    /// How long its repair takes, once it is out of service.
    pub repair_hours: u32,
}

/// The failures of so many hours, in the order in which they happen.
pub fn failures(shape: &Shape, hours: u32, seed: u64) -> Vec<Failure> {
    let mut random = Random::named(seed, "fabric failures");
    let mut all = Vec::new();
    for link in 0..shape.links() {
        let mut hour = 0.0;
        for _ in 0..FAILURES_PER_LINK {
            hour += libm::round(random.exponential(MTTF_HOURS));
            if hour >= f64::from(hours) {
                break;
            }
            all.push(Failure { hour: hour as u32, link, rate: rate(&mut random), repair_hours: repair(&mut random) });
        }
    }
    all.sort_by_key(|f| (f.hour, f.link));
    all
}

fn rate(random: &mut Random) -> f64 {
    let mut left = random.unit() * RATES.iter().map(|(share, ..)| share).sum::<f64>();
    for (share, low, high) in RATES {
        left -= share;
        if left <= 0.0 {
            return random.between(low, high);
        }
    }
    random.between(RATES[0].1, RATES[0].2)
}

fn repair(random: &mut Random) -> u32 {
    REPAIR_HOURS[usize::from(!random.chance(SHARE_OF_SHORT_REPAIRS))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_the_paper_has() {
        let all = failures(&Shape::PAPER, 9000, 1);
        assert!((89_000..92_000).contains(&all.len()), "{}", all.len());
        let bad = all.iter().filter(|f| f.rate >= 1e-3).count() as f64 / all.len() as f64;
        assert!((bad - 0.1267).abs() < 0.005, "{bad}");
        assert!(all.windows(2).all(|w| w[0].hour <= w[1].hour));
    }
}
