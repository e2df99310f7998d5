//! Which flow each frame belongs to.

use crate::packet;
use crate::random::Random;

/// Frames before the table repeats, for more than one flow.
const FRAMES: usize = 1 << 18;
/// First of the flows' numbers: source ports from here on.
const FIRST: u32 = 1024;

/// Flow of each frame: flow number k is drawn in proportion to k^-skew (Zipf; 0 is evenly), always in the
/// same order.
pub fn table(flows: usize, skew: f64) -> Vec<u32> {
    if flows <= 1 {
        return vec![u32::from(packet::SOURCE_PORT)];
    }
    let mut sum = 0.0;
    let up_to: Vec<f64> = (1..=flows)
        .map(|k| {
            sum += (k as f64).powf(-skew);
            sum
        })
        .collect();
    let mut random = Random::new(flows as u64);
    let draw = |_| {
        let at = random.number() as f64 / u64::MAX as f64 * sum;
        FIRST + up_to.partition_point(|total| *total < at).min(flows - 1) as u32
    };
    (0..FRAMES).map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_is_skew() {
        let count = |skew: f64, flow: u32| table(1000, skew).iter().filter(|f| **f == FIRST + flow).count() as f64;
        assert!((count(0.0, 0) / count(0.0, 9) - 1.0).abs() < 0.4);
        let ratio = count(1.0, 0) / count(1.0, 9);
        assert!((ratio / 10.0 - 1.0).abs() < 0.1, "{ratio}");
        assert_eq!(table(1, 1.0).len(), 1);
    }
}
