//! Loss by request, of what leaves over the line.

use karakoram_link::sequence::FIRST;
use karakoram_link::{LinkFrame, LossTrace, Probability};

/// Which frames are lost.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum LossModel {
    /// None on purpose.
    #[default]
    None,
    /// Each with the same probability, whatever it carries.
    Random {
        /// How likely.
        rate: Probability,
        /// Start of the random numbers.
        seed: u64,
    },
    /// Those of a trace.
    Trace(LossTrace),
}

#[derive(Debug)]
pub(crate) struct Loss {
    model: LossModel,
    limit: u64,
    random: u64,
    pub(crate) lost_frames: u64,
}

impl Loss {
    pub(crate) fn new(model: LossModel) -> Loss {
        let (limit, random) = match &model {
            LossModel::Random { rate, seed } => ((rate.to_f64() * u64::MAX as f64) as u64, *seed),
            _ => (0, 0),
        };
        Loss { model, limit, random, lost_frames: 0 }
    }

    /// Whether a frame is lost; `next` is the sender's next number.
    pub(crate) fn is_lost<F>(&mut self, frame: Option<&LinkFrame<F>>, next: u64) -> bool {
        let is_lost = match &mut self.model {
            LossModel::None => false,
            LossModel::Random { .. } => splitmix(&mut self.random) < self.limit,
            LossModel::Trace(trace) => match frame {
                Some(LinkFrame::Data { header, .. }) => trace.is_lost(header.sequence.near(next.max(FIRST))),
                _ => false,
            },
        };
        self.lost_frames += u64::from(is_lost);
        is_lost
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_as_many_as_asked_for_and_the_same_every_time() {
        let lose = || {
            let mut loss = Loss::new(LossModel::Random { rate: Probability::of(1, 1000), seed: 3 });
            let lost: Vec<u32> = (0..1_000_000).filter(|_| loss.is_lost::<u32>(None, FIRST)).collect();
            lost
        };
        let lost = lose();
        assert!((800..1200).contains(&lost.len()), "{}", lost.len());
        assert_eq!(lost, lose());
    }
}
