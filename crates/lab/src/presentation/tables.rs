//! Tables of a run.

use super::sentence;
use crate::analysis::{Analysis, MetricAnalysis, VariantFigures};
use crate::bootstrap::Estimate;
use crate::comparison::{Comparison, Finding};
use crate::experiment::Better;
use crate::report::{Cell, Column, Table, plain};
use crate::results::Results;
use crate::statistics::median;
use crate::units::Shown;
use std::collections::BTreeMap;

/// A metric of all variants.
pub fn metric(analysis: &Analysis, metric: &MetricAnalysis) -> Table {
    let sizes: Vec<f64> = metric.variants.iter().map(|v| v.estimate.value.abs()).collect();
    let shown = Shown::of(&metric.unit, median(&sizes));
    let is_published = !metric.metric.published.is_empty();
    let mut columns =
        vec![Column::text("variant"), Column::estimate(&metric.metric.title, &shown.unit, shown.decimals)];
    if is_published {
        columns.push(Column::number("published (other hardware)", &shown.unit, shown.decimals));
    }
    columns.push(Column::estimate("over the baseline", "", 3));
    columns.push(Column::text("finding"));
    columns.push(Column::number("p", "", 4));
    columns.push(Column::number("rounds", "", 0));
    let name = format!("{}-{}", analysis.experiment.name, metric.metric.name);
    let mut table = Table::new(name, columns).caption(caption(metric));
    for variant in &metric.variants {
        let published = metric.metric.published.get(&variant.name).map(|v| v * shown.factor);
        let mut row = vec![Cell::from(variant.name.as_str()), scaled(&variant.estimate, shown.factor)];
        if is_published {
            row.push(published.into());
        }
        row.extend(comparison(variant, metric, &analysis.experiment.variants[0].name));
        row.push((variant.rounds() as f64).into());
        table = table.row(row);
    }
    table
}

fn caption(metric: &MetricAnalysis) -> String {
    let better = match metric.metric.better {
        Better::Lower => ", lower is better",
        Better::Higher => ", higher is better",
        Better::Neither => "",
    };
    let control = match &metric.control {
        Some(c) => format!("{} [{}, {}]", plain(c.value, 3), plain(c.low, 3), plain(c.high, 3)),
        None => "not measured".to_string(),
    };
    format!("{}: medians over trials{better}. The baseline against itself: {control}.", sentence(&metric.metric.title))
}

fn scaled(estimate: &Estimate, factor: f64) -> Cell {
    Cell::Estimate { value: estimate.value * factor, low: estimate.low * factor, high: estimate.high * factor }
}

fn comparison(variant: &VariantFigures, metric: &MetricAnalysis, baseline: &str) -> [Cell; 3] {
    match &variant.comparison {
        Some(found) => [scaled(&found.ratio, 1.0), words(found, metric.metric.better).into(), found.p.into()],
        None if variant.name == baseline => [Cell::Empty, "baseline".into(), Cell::Empty],
        None if metric.named(baseline).is_none() => [Cell::Empty, "the baseline has none".into(), Cell::Empty],
        None => [Cell::Empty, "no round in common with the baseline".into(), Cell::Empty],
    }
}

fn words(found: &Comparison, better: Better) -> &'static str {
    let is_more = found.ratio.value > 1.0;
    match (found.finding, better) {
        (Finding::Open, _) => "cannot be told",
        (Finding::Equivalent, _) => "equivalent",
        (Finding::Different, Better::Neither) => "different",
        (Finding::Different, Better::Higher) if is_more => "better",
        (Finding::Different, Better::Lower) if !is_more => "better",
        (Finding::Different, _) => "worse",
    }
}

/// What could not be measured, and trials that count for nothing, with reasons.
pub fn left_out(results: &Results) -> Option<Table> {
    let columns = vec![Column::text("variant"), Column::text("left out"), Column::text("why")];
    let mut table = Table::new(format!("{}-left-out", results.experiment), columns).caption("What counts for nothing.");
    for (variant, why) in &results.unavailable {
        table = table.row(vec![variant.as_str().into(), "all of it".into(), why.as_str().into()]);
    }
    let mut void: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for trial in &results.trials {
        if let Some(why) = &trial.void {
            *void.entry((&trial.variant, why)).or_default() += 1;
        }
    }
    for ((variant, why), count) in void {
        let trials = if count == 1 { "1 trial".to_string() } else { format!("{count} trials") };
        table = table.row(vec![variant.into(), trials.into(), why.into()]);
    }
    (!table.rows.is_empty()).then_some(table)
}
