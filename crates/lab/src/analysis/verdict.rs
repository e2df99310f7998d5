//! What came of a published claim.

use super::MetricAnalysis;
use crate::bootstrap::Estimate;
use crate::comparison::{FEWEST_ROUNDS, Finding};
use crate::experiment::{Better, ClaimText, Rule};
use crate::report::{Claim, Verdict, plain};
use crate::results::Results;
use crate::statistics::median;
use crate::units::Shown;

/// A verdict, why, and what was measured.
struct Ruling {
    verdict: Verdict,
    reason: String,
    measured: String,
}

impl Ruling {
    fn new(verdict: Verdict, reason: impl Into<String>) -> Ruling {
        Ruling { verdict, reason: reason.into(), measured: String::new() }
    }

    fn with(self, measured: String) -> Ruling {
        Ruling { measured, ..self }
    }
}

/// Judges a claim by its rule.
pub fn judge(claim: &ClaimText, results: &Results, metrics: &[MetricAnalysis]) -> Claim {
    let ruling = rule(claim, results, metrics);
    let reason = match (ruling.verdict, claim.mechanism.as_str()) {
        (Verdict::DoesNotHold, known) if !known.is_empty() => format!("{}; {known}", ruling.reason),
        _ => ruling.reason,
    };
    Claim {
        text: claim.text.clone(),
        source: claim.source.clone(),
        published: claim.published.clone(),
        measured: ruling.measured,
        verdict: ruling.verdict,
        reason,
    }
}

fn rule(claim: &ClaimText, results: &Results, metrics: &[MetricAnalysis]) -> Ruling {
    if let Rule::NotTestable(why) = &claim.rule {
        return Ruling::new(Verdict::NotTestable, why);
    }
    let metric = metrics.iter().find(|m| Some(&m.metric.name) == claim.metric.as_ref());
    let Some(metric) = metric else {
        return Ruling::new(Verdict::Inconclusive, "nothing was measured");
    };
    let variants = claim.rule.variants();
    if let Some((name, why)) = variants.iter().find_map(|v| Some((v, results.unavailable.get(*v)?))) {
        return Ruling::new(Verdict::NotTestable, format!("{name}: {why}"));
    }
    if let Some(name) = variants.iter().find(|v| metric.named(v).is_none()) {
        return Ruling::new(Verdict::Inconclusive, missing(name, results));
    }
    let measured = shown(metric, &variants);
    let rounds = variants.iter().filter_map(|v| metric.named(v)).map(|v| v.rounds()).min().unwrap_or(0);
    if rounds < FEWEST_ROUNDS {
        let why = format!("{rounds} rounds are too few to conclude anything (least: {FEWEST_ROUNDS})");
        return Ruling::new(Verdict::Inconclusive, why).with(measured);
    }
    let ruling = match &claim.rule {
        Rule::Order(all) => order(metric, all).with(measured),
        Rule::Ratio { of: [a, b], at_least, at_most } => match metric.between(a, b) {
            None => Ruling::new(Verdict::Inconclusive, "the two have no round in common").with(measured),
            Some(found) => {
                let text = format!("{a} over {b}: {}; {measured}", interval(&found.ratio));
                bounds(&found.ratio, *at_least, *at_most, &|v| plain(v, 3)).with(text)
            }
        },
        Rule::Value { of, at_least, at_most } => {
            let estimate = metric.named(of).map(|v| v.estimate).expect("it was looked for above");
            let shown = Shown::of(&metric.unit, estimate.value);
            bounds(&estimate, *at_least, *at_most, &|v| format!("{} {}", shown.number(v), shown.unit)).with(measured)
        }
        Rule::NotTestable(why) => Ruling::new(Verdict::NotTestable, why),
    };
    match limited(metric, &in_doubt(&claim.rule, ruling.verdict), results) {
        Some(why) => Ruling { verdict: Verdict::Inconclusive, reason: why, ..ruling },
        None => ruling,
    }
}

/// Variants whose rates, were they higher than measured, could change the verdict.
fn in_doubt(rule: &Rule, verdict: Verdict) -> Vec<&str> {
    let (wanted_low, wanted_high): (Vec<&String>, Vec<&String>) = match rule {
        Rule::Order(all) => (all.iter().rev().skip(1).collect(), all.iter().skip(1).collect()),
        Rule::Ratio { of: [a, b], at_least, at_most } => {
            let given = |bound: &Option<f64>, variant| bound.map(|_| variant);
            let low = [given(at_most, a), given(at_least, b)];
            let high = [given(at_least, a), given(at_most, b)];
            (low.into_iter().flatten().collect(), high.into_iter().flatten().collect())
        }
        Rule::Value { of, at_least, at_most } => {
            (at_most.iter().map(|_| of).collect(), at_least.iter().map(|_| of).collect())
        }
        Rule::NotTestable(_) => Default::default(),
    };
    let all = match verdict {
        Verdict::Holds => wanted_low,
        Verdict::DoesNotHold => wanted_high,
        _ => [wanted_low, wanted_high].concat(),
    };
    all.into_iter().map(String::as_str).collect()
}

/// Why rates say little: those of most trials of a variant are lower bounds.
fn limited(metric: &MetricAnalysis, variants: &[&str], results: &Results) -> Option<String> {
    if metric.metric.better != Better::Higher {
        return None;
    }
    variants.iter().find_map(|variant| {
        let mine: Vec<_> =
            results.trials.iter().filter(|t| t.counts() && !t.is_control && t.variant == *variant).collect();
        let bounds = mine.iter().filter(|t| t.is_lower_bound()).count();
        let why = format!("the generator set the limit in {bounds} of {} trials of {variant}", mine.len());
        (2 * bounds > mine.len()).then_some(why)
    })
}

/// Why there is no value.
fn missing(variant: &str, results: &Results) -> String {
    let mine: Vec<_> = results.trials.iter().filter(|t| t.variant == variant && t.round >= 0).collect();
    match mine.iter().find_map(|t| t.void.as_ref()) {
        Some(why) => format!("all {} trials of {variant} were void: {why}", mine.len()),
        None if mine.is_empty() => format!("{variant} was not measured in this run"),
        None => format!("no trial of {variant} could measure it"),
    }
}

fn order(metric: &MetricAnalysis, all: &[String]) -> Ruling {
    let mut open = Vec::new();
    for pair in all.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        match metric.between(after, before) {
            Some(found) if found.finding == Finding::Different && found.ratio.value > 1.0 => {}
            Some(found) if found.finding == Finding::Different => {
                let why = format!("{after} over {before} is {}", interval(&found.ratio));
                return Ruling::new(Verdict::DoesNotHold, why);
            }
            found => open.push(format!("{before} and {after} ({})", found.map_or("?".into(), |f| interval(&f.ratio)))),
        }
    }
    if open.is_empty() {
        return Ruling::new(Verdict::Holds, "");
    }
    Ruling::new(Verdict::Inconclusive, format!("cannot be told apart: {}", open.join(", ")))
}

fn bounds(found: &Estimate, least: Option<f64>, most: Option<f64>, show: &dyn Fn(f64) -> String) -> Ruling {
    let (least, most) = (least.unwrap_or(f64::NEG_INFINITY), most.unwrap_or(f64::INFINITY));
    if found.low >= least && found.high <= most {
        return Ruling::new(Verdict::Holds, "");
    }
    let wanted = match (least.is_finite(), most.is_finite()) {
        (true, true) => format!("{} to {}", show(least), show(most)),
        (true, false) => format!("at least {}", show(least)),
        _ => format!("at most {}", show(most)),
    };
    if found.high < least || found.low > most {
        let why = format!("{} [{}, {}] is not {wanted}", show(found.value), show(found.low), show(found.high));
        return Ruling::new(Verdict::DoesNotHold, why);
    }
    Ruling::new(Verdict::Inconclusive, format!("the interval lies on both sides of what is asked, {wanted}"))
}

/// The values of variants with their intervals, in one unit.
fn shown(metric: &MetricAnalysis, variants: &[&str]) -> String {
    let figures: Vec<_> = variants.iter().filter_map(|v| metric.named(v)).collect();
    let sizes: Vec<f64> = figures.iter().map(|f| f.estimate.value.abs()).collect();
    let shown = Shown::of(&metric.unit, median(&sizes));
    let one = |f: &&super::VariantFigures| {
        let e = &f.estimate;
        format!("{} {} [{}, {}]", f.name, shown.number(e.value), shown.number(e.low), shown.number(e.high))
    };
    format!("{} {}", figures.iter().map(one).collect::<Vec<_>>().join(", "), shown.unit)
}

fn interval(ratio: &Estimate) -> String {
    format!("{} [{}, {}]", plain(ratio.value, 3), plain(ratio.low, 3), plain(ratio.high, 3))
}
