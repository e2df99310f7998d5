//! What the trials of a run say: estimates, comparisons with the baseline, verdicts on claims.
//!
//! A trial gives one number for each metric. Two variants are compared round by round, so only rounds
//! count in which both have a trial that is not void.

mod verdict;

use crate::bootstrap::{Estimate, median_estimate};
use crate::comparison::{Comparison, adjust, band, compare};
use crate::error::LabError;
use crate::experiment::{Experiment, Metric};
use crate::random::Random;
use crate::ratio::ratio;
use crate::report::Claim;
use crate::results::{Results, TrialRecord};
use crate::statistics::{mean, median, slope};
use std::collections::BTreeMap;

/// Values of a metric by round.
type ByRound = BTreeMap<i64, f64>;

/// What a run says.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The experiment.
    pub experiment: Experiment,
    /// For each metric, in its order.
    pub metrics: Vec<MetricAnalysis>,
    /// What came of published claims.
    pub claims: Vec<Claim>,
}

/// What a run says of one metric.
#[derive(Clone, Debug)]
pub struct MetricAnalysis {
    /// The metric.
    pub metric: Metric,
    /// Unit of its values.
    pub unit: String,
    /// Variants that have values, the baseline first.
    pub variants: Vec<VariantFigures>,
    /// The baseline over itself.
    pub control: Option<Estimate>,
    /// How far from 1 the control reaches, as a factor.
    pub band: f64,
    /// By what share the baseline changed from the first round to the last.
    pub drift: f64,
    seed: u64,
    tolerance: f64,
}

/// Figures of a variant.
#[derive(Clone, Debug)]
pub struct VariantFigures {
    /// Its name.
    pub name: String,
    /// Median over trials.
    pub estimate: Estimate,
    /// It over the baseline; not for the baseline.
    pub comparison: Option<Comparison>,
    values: ByRound,
}

impl Analysis {
    /// Analyses a run.
    pub fn of(results: &Results) -> Result<Analysis, LabError> {
        let experiment = results.experiment()?;
        let mut metrics: Vec<MetricAnalysis> =
            experiment.definition.metrics.iter().map(|m| MetricAnalysis::of(results, &experiment, m)).collect();
        let variants = metrics.iter_mut().flat_map(|m| &mut m.variants);
        adjust(&mut variants.filter_map(|v| v.comparison.as_mut()).collect::<Vec<_>>());
        let claims = experiment.definition.claims.iter().map(|c| verdict::judge(c, results, &metrics)).collect();
        Ok(Analysis { experiment, metrics, claims })
    }
}

/// Whether the intervals of all ratios are at most this wide to either side, as a share.
pub fn is_precise(results: &Results, target: f64) -> Result<bool, LabError> {
    let experiment = results.experiment()?;
    let is_narrow = |ratio: &Estimate| ratio.plus_minus() <= target * ratio.value;
    Ok(experiment.definition.metrics.iter().all(|metric| {
        let one = MetricAnalysis::of(results, &experiment, metric);
        let mut ratios = one.variants.iter().filter_map(|v| v.comparison.as_ref());
        ratios.all(|c| is_narrow(&c.ratio)) && one.control.as_ref().is_none_or(is_narrow)
    }))
}

impl MetricAnalysis {
    fn of(results: &Results, experiment: &Experiment, metric: &Metric) -> MetricAnalysis {
        // The same intervals whenever they are made from these results.
        let mut random = Random::new(results.seed);
        let baseline = &experiment.variants[0].name;
        let own = by_round(results, metric, baseline, false);
        let again = by_round(results, metric, baseline, true);
        let (a, b) = common(&own, &again);
        let control = (!a.is_empty()).then(|| ratio(&[&b], &[&a], &mut random));
        let mut one = MetricAnalysis {
            metric: metric.clone(),
            unit: unit(results, metric),
            variants: Vec::new(),
            band: control.as_ref().map_or(f64::INFINITY, band),
            control,
            drift: drift(&own),
            seed: results.seed,
            tolerance: experiment.definition.tolerance,
        };
        for (place, variant) in experiment.variants.iter().enumerate() {
            let values = if place == 0 { own.clone() } else { by_round(results, metric, &variant.name, false) };
            let list: Vec<f64> = values.values().copied().collect();
            let Some(estimate) = median_estimate(&list, &mut random) else { continue };
            let comparison = if place == 0 { None } else { one.compared(&values, &own, &mut random) };
            one.variants.push(VariantFigures { name: variant.name.clone(), estimate, comparison, values });
        }
        one
    }

    fn compared(&self, a: &ByRound, b: &ByRound, random: &mut Random) -> Option<Comparison> {
        let (a, b) = common(a, b);
        compare(&a, &b, self.band, self.tolerance, random)
    }

    /// The figures of a variant.
    pub fn named(&self, name: &str) -> Option<&VariantFigures> {
        self.variants.iter().find(|v| v.name == name)
    }

    /// One variant over another.
    pub fn between(&self, a: &str, b: &str) -> Option<Comparison> {
        self.compared(&self.named(a)?.values, &self.named(b)?.values, &mut Random::new(self.seed))
    }
}

impl VariantFigures {
    /// Rounds it was measured in.
    pub fn rounds(&self) -> usize {
        self.values.len()
    }
}

fn by_round(results: &Results, metric: &Metric, variant: &str, is_control: bool) -> ByRound {
    let wanted = |t: &&TrialRecord| t.counts() && t.variant == variant && t.is_control == is_control;
    let value = |t: &TrialRecord| {
        let samples = t.samples.iter().find(|s| s.name == metric.samples)?;
        Some((t.round, samples.reduce(metric.statistic).filter(|v| v.is_finite())?))
    };
    results.trials.iter().filter(wanted).filter_map(value).collect()
}

fn unit(results: &Results, metric: &Metric) -> String {
    let samples = results.trials.iter().flat_map(|t| &t.samples).find(|s| s.name == metric.samples);
    samples.map_or(String::new(), |s| s.unit.to_string())
}

/// Values of the rounds that are in both.
fn common(a: &ByRound, b: &ByRound) -> (Vec<f64>, Vec<f64>) {
    // A ratio with nothing is none.
    let both = a.iter().filter_map(|(round, a)| Some((*a, *b.get(round)?))).filter(|(a, b)| *a > 0.0 && *b > 0.0);
    both.unzip()
}

/// By what share values change over all rounds.
fn drift(values: &ByRound) -> f64 {
    let points: Vec<(f64, f64)> = values.iter().map(|(round, value)| (*round as f64, *value)).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let list: Vec<f64> = points.iter().map(|p| p.1).collect();
    let typical = median(&list).abs().max(mean(&list).abs() * 1e-9);
    if typical == 0.0 { 0.0 } else { slope(&points) * (last.0 - first.0) / typical }
}
