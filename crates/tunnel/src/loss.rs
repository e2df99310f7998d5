//! Loss by request, of what leaves over the line.

use karakoram_link::sequence::FIRST;
use karakoram_link::{LinkFrame, LossTrace, Probability};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

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
    random: Xoshiro256PlusPlus,
    pub(crate) lost_frames: u64,
}

impl Loss {
    pub(crate) fn new(model: LossModel) -> Loss {
        let (limit, seed) = match &model {
            LossModel::Random { rate, seed } => ((rate.to_f64() * u64::MAX as f64) as u64, *seed),
            _ => (0, 0),
        };
        Loss { model, limit, random: Xoshiro256PlusPlus::seed_from_u64(seed), lost_frames: 0 }
    }

    /// Whether a frame is lost; `next` is the sender's next number.
    pub(crate) fn is_lost<F>(&mut self, frame: Option<&LinkFrame<F>>, next: u64) -> bool {
        let is_lost = match &mut self.model {
            LossModel::None => false,
            LossModel::Random { .. } => self.random.next_u64() < self.limit,
            LossModel::Trace(trace) => match frame {
                Some(LinkFrame::Data { header, .. }) => trace.is_lost(header.sequence.near(next.max(FIRST))),
                _ => false,
            },
        };
        self.lost_frames += u64::from(is_lost);
        is_lost
    }
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
