//! A data centre over a year, with and without protection.

use super::Order as Run;
use super::judge::{Figure, definition, short};
use crate::failure::Failure;
use karakoram_lab::report::{self, Axis, Block, Cell, Column, Plot, Report, Scale, Section, Series, Table};
use karakoram_lab::statistics::median;
use karakoram_simulator::fabric::{Policy, Protection, Row, Shape, Summary, failures, run as simulate};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Definition {
    title: String,
    source: String,
    hours: u32,
    traces: u64,
    figure: Vec<Published>,
}

#[derive(Deserialize)]
struct Published {
    constraint: f64,
    name: String,
    published: f64,
    band: [f64; 2],
}

/// One trace under one constraint: named figures.
type Figures = BTreeMap<&'static str, f64>;

/// Runs it.
pub fn run(order: &Run) -> Result<Report, Failure> {
    let definition: Definition = definition(include_str!("../../../../../../experiments/link-fabric/simulation.toml"));
    let mut report = Report::new(&definition.title).summary("261 pods of 48 racks, 100,224 optical links; links fail after 10,000 hours in the mean. CorrOpt takes corrupting links out of service where every rack keeps enough of its paths, the rest stays in service: bare, or protected. The penalty is the loss rate of all links in service, added up; the gain is how much smaller it is with protection.");
    for constraint in [0.5, 0.75] {
        report = report.section(section(&definition, constraint, order)?);
    }
    Ok(report)
}

fn section(definition: &Definition, constraint: f64, order: &Run) -> Result<Section, Failure> {
    let title = format!("Every rack keeps {:.0} % of its paths", constraint * 100.0);
    let traces = if order.is_quick { 1 } else { definition.traces };
    let mut all: Vec<Figures> = Vec::new();
    let mut example = None;
    for trace in 0..traces {
        order.step(trace as usize, traces as usize, &title)?;
        let [bare, protected] = year(definition, constraint, order.seed + trace);
        all.push(figures(&bare, &protected));
        example.get_or_insert([bare, protected]);
    }
    let mut section = Section::new(title);
    section.claims.extend(definition.figure.iter().filter(|f| f.constraint == constraint).map(|published| {
        let found: Vec<f64> = all.iter().filter_map(|f| f.get(published.name.as_str()).copied()).collect();
        let figure = Figure {
            text: published.name.clone(),
            source: &definition.source,
            published: published.published,
            measured: median(&found),
            band: (published.band[0], published.band[1]),
            unit: "",
            why: Some(
                "Median of the traces; the authors' trace is not available, and traces differ as the table shows.",
            ),
        };
        figure.judge()
    }));
    let section = section.block(Block::Table(table(constraint, &all)));
    Ok(match example {
        Some([bare, protected]) => section.block(Block::Figure(weeks(constraint, &bare, &protected))),
        None => section,
    })
}

fn year(definition: &Definition, constraint: f64, seed: u64) -> [Summary; 2] {
    let trace = failures(&Shape::PAPER, definition.hours, seed);
    [None, Some(Protection::published())]
        .map(|protection| simulate(&Shape::PAPER, &trace, &Policy { constraint, protection }))
}

fn figures(bare: &Summary, protected: &Summary) -> Figures {
    let pairs = || bare.rows.iter().zip(&protected.rows);
    let gains = sorted(pairs().map(|(b, p)| b.penalty / p.penalty));
    let costs = sorted(pairs().map(|(b, p)| b.least_capacity - p.least_capacity));
    let share = |values: &[f64], limit: f64| values.partition_point(|v| *v < limit) as f64 / values.len() as f64;
    let quantile = |values: &[f64], share: f64| values[((values.len() - 1) as f64 * share) as usize];
    let mean = |rows: &[Row]| rows.iter().map(|r| r.penalty).sum::<f64>() / rows.len() as f64;
    BTreeMap::from([
        ("events with gain 1", share(&gains, 1.001)),
        ("gain, 10 %", quantile(&gains, 0.1)),
        ("gain, median", quantile(&gains, 0.5)),
        ("gain, 75 %", quantile(&gains, 0.75)),
        ("gain, 90 %", quantile(&gains, 0.9)),
        ("events without loss of capacity", share(&costs, 1e-9)),
        ("largest loss of capacity", quantile(&costs, 1.0)),
        ("mean penalty, CorrOpt", mean(&bare.rows)),
        ("mean penalty, protected", mean(&protected.rows)),
        ("failing links kept in service", f64::from(bare.kept)),
        ("failures of links out of order", f64::from(bare.skipped)),
        ("failures", bare.rows.len() as f64),
        ("most protected links at once", protected.rows.iter().map(|r| r.protected).max().unwrap_or(0).into()),
    ])
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn table(constraint: f64, all: &[Figures]) -> Table {
    let columns = ["", "least of the traces", "median", "most"].map(Column::text).to_vec();
    let mut table = Table::new(format!("fabric-{:.0}", constraint * 100.0), columns);
    for name in all.first().into_iter().flat_map(|f| f.keys()) {
        let values = sorted(all.iter().map(|f| f[name]));
        let cells = [values[0], median(&values), values[values.len() - 1]].map(|v| Cell::from(short(v)));
        table = table.row(std::iter::once(Cell::from(*name)).chain(cells).collect());
    }
    table
}

/// The penalty week by week.
fn weeks(constraint: f64, bare: &Summary, protected: &Summary) -> report::Figure {
    let series = |label: &str, rows: &[Row]| {
        let mut weeks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        rows.iter().for_each(|r| weeks.entry(r.hour / 168).or_default().push(r.penalty));
        let points: Vec<(f64, f64)> = weeks
            .into_iter()
            .map(|(week, values)| (f64::from(week), values.iter().sum::<f64>() / values.len() as f64))
            .collect();
        Series::new(label, &points)
    };
    report::Figure {
        name: format!("fabric-{:.0}", constraint * 100.0),
        title: "Penalty, mean of each week".to_string(),
        caption: "One trace.".to_string(),
        plot: Plot::Lines {
            x: Axis::new("week", "", Scale::Linear),
            y: Axis::new("loss rates added up", "", Scale::Log),
            series: vec![series("CorrOpt", &bare.rows), series("CorrOpt and protection", &protected.rows)],
        },
    }
}
