//! Runs of experiments as a report.

mod figures;
mod tables;

use crate::analysis::{Analysis, MetricAnalysis};
use crate::error::LabError;
use crate::experiment::Better;
use crate::report::{Block, Report, Section, plain};
use crate::results::Results;
use std::collections::BTreeMap;

/// A report of several runs, each a part of it; there must be one.
pub fn report(title: &str, runs: &[Results]) -> Result<Report, LabError> {
    let mut report = Report::new(title).summary(
        "A trial is one attach, measure, detach; a round measures every variant once, in random order, and the \
         baseline twice, as a control against itself (A/A). Ratios are pseudo-medians over rounds (Hodges and \
         Lehmann) with 95 % bootstrap intervals. Two are called different only when the interval excludes 1 and the \
         ratio lies outside of what the control shows. Figures of others were measured on other hardware.",
    );
    if runs.iter().any(|r| r.is_quick) {
        report = report.warning(
            "This was a quick run: few rounds, short trials. It shows that everything works, not what is true.",
        );
    }
    for (complaint, experiments) in contaminations(runs) {
        let whose = match experiments.len() {
            all if all == runs.len() && all > 1 => format!("all {all} experiments"),
            _ => experiments.join(", "),
        };
        report = report.warning(format!("Contaminated: {whose}: {complaint}."));
    }
    for run in runs {
        report = report.section(section(run)?);
    }
    Ok(report.environment(runs.first().map(|r| r.environment.clone()).unwrap_or_default()))
}

/// What others did to which experiments, in the order of the runs: a run of all begins with one look at the machine.
fn contaminations(runs: &[Results]) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (complaint, run) in runs.iter().flat_map(|run| run.contamination.iter().map(move |c| (c.as_str(), run))) {
        match all.iter_mut().find(|(known, _)| *known == complaint) {
            Some((_, experiments)) => experiments.push(&run.experiment),
            None => all.push((complaint, vec![&run.experiment])),
        }
    }
    all
}

/// One run.
pub fn section(results: &Results) -> Result<Section, LabError> {
    let analysis = Analysis::of(results)?;
    let definition = &analysis.experiment.definition;
    let mut section = Section::new(&definition.title);
    section.claims = analysis.claims.clone();
    if !definition.about.is_empty() {
        section = section.text(definition.about.trim());
    }
    section = section.text(outline(results, &analysis));
    for metric in analysis.metrics.iter().filter(|m| !m.variants.is_empty()) {
        section = section.block(Block::Table(tables::metric(&analysis, metric)));
        for text in [drifted(metric), bounded(results, metric)].into_iter().flatten() {
            section = section.text(text);
        }
    }
    for figure in figures::all(results, &analysis) {
        section = section.block(Block::Figure(figure));
    }
    if let Some(table) = tables::left_out(results) {
        section = section.block(Block::Table(table));
    }
    Ok(section)
}

/// How much was measured.
fn outline(results: &Results, analysis: &Analysis) -> String {
    let rounds = results.trials.iter().map(|t| t.round + 1).max().unwrap_or(0).max(0);
    let void = results.trials.iter().filter(|t| t.void.is_some()).count();
    let tolerance = analysis.experiment.definition.tolerance * 100.0;
    let form = if results.is_quick { "Quick form: " } else { "" };
    format!(
        "{form}{rounds} rounds, {} trials ({void} void), seed {}, {} s. The baseline is {}; equivalent means within {} %.",
        results.trials.len(),
        results.seed,
        plain(results.seconds, 0),
        analysis.experiment.variants[0].name,
        plain(tolerance, 1),
    )
}

fn drifted(metric: &MetricAnalysis) -> Option<String> {
    let is_much = metric.drift.abs() > metric.band - 1.0;
    is_much.then(|| {
        format!(
            "The baseline's {} changed by {} % from the first round to the last, more than the control allows for.",
            metric.metric.title,
            plain(metric.drift * 100.0, 1)
        )
    })
}

/// How many rates are lower bounds.
fn bounded(results: &Results, metric: &MetricAnalysis) -> Option<String> {
    let counted = || results.trials.iter().filter(|t| t.counts());
    let (bounds, all) = (counted().filter(|t| t.is_lower_bound()).count(), counted().count());
    let is_told = bounds > 0 && metric.metric.better == Better::Higher;
    is_told.then(|| format!("In {bounds} of {all} trials the generator set the limit: their rates are lower bounds."))
}

/// Text with a capital at its head.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// How many claims came out how, by the words of the verdict.
pub fn tally(report: &Report) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for claim in report.sections.iter().flat_map(|s| &s.claims) {
        *counts.entry(claim.verdict.words()).or_insert(0) += 1;
    }
    counts
}
