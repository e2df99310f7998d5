//! What stays lost at rates at which it is too rare to see: by importance sampling.

use super::super::Order as Run;
use super::super::judge::{poisson_interval, poisson_interval_of, short};
use super::{Definition, Point, simulate, stress};
use karakoram_lab::report::{Claim, Verdict};
use karakoram_simulator::link::Buffers;
use karakoram_simulator::stress::{Outcome, Stress};

/// A run in which copies are lost more often than frames.
pub(super) struct Residual {
    outcome: Outcome,
    loss: f64,
    copies: i32,
    /// At which rate copies were lost.
    copy_loss: f64,
    /// How many counts are judged.
    counts: usize,
}

/// Runs until about `rare_losses` frames stay lost.
pub(super) fn measure(definition: &Definition, number: usize, buffers: Buffers, order: &Run) -> Residual {
    let point = &definition.point[number];
    let copies = i32::from(point.copies);
    let wanted = definition.rare_losses / (point.loss * definition.copy_loss.powi(copies));
    let frames = order.share((wanted as u64).min(definition.most_frames));
    // Otherwise all points would share their luck.
    let seed = order.seed + 1000 * (1 + number as u64);
    let biased = Stress { frames, seed, copy_loss: Some(definition.copy_loss), ..stress(point, buffers) };
    let (outcome, _) = simulate::<()>(&biased);
    let counts = definition.counts();
    Residual { outcome, loss: point.loss, copies, copy_loss: definition.copy_loss, counts }
}

impl Residual {
    /// Equation 2.
    pub(super) fn law(&self) -> f64 {
        self.loss.powi(self.copies + 1)
    }

    /// How many frames one that stayed lost stands for, for each frame that was sent.
    fn weight(&self) -> f64 {
        (self.loss / self.copy_loss).powi(self.copies) / self.outcome.counters.sent as f64
    }

    /// The effective loss with its 95 % interval.
    pub(super) fn text(&self) -> String {
        let (low, high) = poisson_interval(self.outcome.residual);
        let [rate, low, high] = [self.outcome.residual as f64, low, high].map(|count| short(count * self.weight()));
        format!("{rate} [{low}, {high}]")
    }

    /// Against p^(N+1) of the losses that there were.
    pub(super) fn judge(&self, point: &Point) -> Claim {
        let counted = self.outcome.residual;
        let expected = self.outcome.counters.lost as f64 * self.copy_loss.powi(self.copies);
        let (low, high) = poisson_interval_of(counted, self.counts);
        Claim {
            text: format!("{} {} at {}: effective loss", point.line.name(), point.mode.name(), short(point.loss)),
            source: "Equation 2: p^(N+1)".to_string(),
            published: format!("{} (law: {})", short(point.effective), short(self.law())),
            measured: self.text(),
            verdict: if (low..=high).contains(&expected) { Verdict::Holds } else { Verdict::DoesNotHold },
            reason: format!(
                "judged against the law. Of {} lost frames {counted} stayed lost with copies lost at {}; expected {}, what was seen means {} to {}, so that all {} counts are right in 95 % of cases{}",
                self.outcome.counters.lost,
                self.copy_loss,
                short(expected),
                short(low),
                short(high),
                self.counts,
                if point.effective > 3.0 * self.law() {
                    ". The published figure is above the law because losses of those optics were not independent, as its authors say"
                } else {
                    ""
                }
            ),
        }
    }
}
