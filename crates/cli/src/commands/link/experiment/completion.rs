//! How long flows take, with each part of the protocol.

use super::Order as Run;
use super::judge::{Figure, definition};
use crate::failure::Failure;
use karakoram_lab::report::{self, Axis, Block, Cell, Column, Plot, Report, Scale, Section, Series, Table};
use karakoram_link::config::LineRate;
use karakoram_simulator::fct::{Completions, Flows, Variant, run as simulate};
use karakoram_simulator::flow::Kind;
use karakoram_simulator::link::Buffers;
use karakoram_simulator::loss::LossModel;
use karakoram_simulator::rdma::Repair;
use karakoram_simulator::tcp::congestion::Algorithm;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Definition {
    title: String,
    source: String,
    loss: f64,
    copies: u8,
    flows: Vec<Load>,
    published: Vec<Published>,
    ratio: Vec<Ratio>,
}

/// Flows of one size and transport.
#[derive(Deserialize)]
struct Load {
    transport: String,
    bytes: u64,
    count: u64,
}

/// Published quantiles, by variant, microseconds.
#[derive(Deserialize, Default)]
struct Published {
    transport: String,
    bytes: u64,
    #[serde(default)]
    p99: BTreeMap<String, f64>,
    #[serde(default)]
    p999: BTreeMap<String, f64>,
}

/// A published ratio of two variants' p99.9.
#[derive(Deserialize)]
struct Ratio {
    transport: String,
    bytes: u64,
    of: String,
    to: String,
    published: f64,
    band: [f64; 2],
    why: Option<String>,
}

/// Runs it.
pub fn run(order: &Run) -> Result<Report, Failure> {
    let definition: Definition = definition(include_str!("../../../../../../experiments/link-fct/simulation.toml"));
    let mut report = Report::new(&definition.title)
        .summary("Flows one after the other between two hosts over a 100G link that loses 1.16e-3 of all frames (what the published \"1e-3\" was), on connections of their own, without the handshake. The hosts' latencies were fitted to the published times without loss of 143 bytes and 24,387 bytes; the clock ticks at 1000 Hz, as that of the published hosts. Judged are ratios of p99.9. The switches' buffers are rings.");
    for (number, load) in definition.flows.iter().enumerate() {
        report = report.section(section(&definition, load, number, order)?);
    }
    Ok(report)
}

fn section(definition: &Definition, load: &Load, number: usize, order: &Run) -> Result<Section, Failure> {
    let title = format!("{}, {} bytes", load.transport, load.bytes);
    let mut all = Vec::new();
    for (done, variant) in Variant::ALL.into_iter().enumerate() {
        let of_all = definition.flows.len() * Variant::ALL.len();
        order.step(number * Variant::ALL.len() + done, of_all, &format!("{title}, {}", variant.name()))?;
        let flows = Flows {
            kind: kind(&load.transport),
            bytes: load.bytes,
            count: order.share(load.count) as u32,
            variant,
            line: LineRate::G100,
            loss: LossModel::Independent(definition.loss),
            copies: definition.copies,
            buffers: Buffers::Rings,
            seed: order.seed,
        };
        all.push((variant.name(), simulate(&flows)));
    }
    let mut section = Section::new(&title);
    let ratios = definition.ratio.iter().filter(|r| r.transport == load.transport && r.bytes == load.bytes);
    section.claims.extend(ratios.map(|ratio| judge(definition, ratio, &all)));
    let block = Block::Figure(distributions(load, &all));
    Ok(section.block(Block::Table(table(definition, load, &all))).block(block))
}

fn kind(name: &str) -> Kind {
    let algorithm = Algorithm::ALL.into_iter().find(|a| a.name() == name).map(Kind::Tcp);
    let repairs = [Kind::Rdma(Repair::GoBackN), Kind::Rdma(Repair::Selective)];
    algorithm.or_else(|| repairs.into_iter().find(|k| k.name() == name)).expect("a transport of the definition")
}

fn microseconds(times: &Completions, share: f64) -> f64 {
    times.quantile(share) as f64 / 1e6
}

fn judge(definition: &Definition, ratio: &Ratio, all: &[(&str, Completions)]) -> report::Claim {
    let tail =
        |name: &str| all.iter().find(|(n, _)| *n == name).map_or(f64::NAN, |(_, times)| microseconds(times, 0.999));
    let figure = Figure {
        text: format!("{}, {} bytes: p99.9 of {} to that of {}", ratio.transport, ratio.bytes, ratio.of, ratio.to),
        source: &definition.source,
        published: ratio.published,
        measured: tail(&ratio.of) / tail(&ratio.to),
        band: (ratio.band[0], ratio.band[1]),
        unit: " times",
        why: ratio.why.as_deref(),
    };
    figure.judge()
}

fn table(definition: &Definition, load: &Load, all: &[(&str, Completions)]) -> Table {
    let mut columns = vec![Column::text("")];
    columns.extend(["p50", "p99", "p99.9", "p99.99", "p99.999", "deviation"].map(|name| Column::number(name, "us", 1)));
    columns.extend(["published p99", "published p99.9"].map(|name| Column::number(name, "us", 1)));
    columns.extend(["hit", "repaired by the transport", "timed out"].map(|name| Column::number(name, "%", 3)));
    let nothing = Published::default();
    let published = definition.published.iter().find(|p| p.transport == load.transport && p.bytes == load.bytes);
    let published = published.unwrap_or(&nothing);
    let mut table = Table::new(format!("fct-{}-{}", load.transport, load.bytes), columns)
        .caption("Hit: a frame of the flow was lost by the link. Timed out: probes of the tail are counted too.");
    for (name, times) in all {
        let percent = |count: u32| Cell::Number(100.0 * f64::from(count) / times.times.len() as f64);
        let mut row = vec![Cell::from(*name)];
        row.extend([0.5, 0.99, 0.999, 0.9999, 0.99999].map(|share| Cell::Number(microseconds(times, share))));
        row.push(Cell::Number(times.moments().1 / 1e6));
        row.extend([&published.p99, &published.p999].map(|p| Cell::from(p.get(*name).copied())));
        row.extend([times.hit, times.repaired, times.timed_out].map(percent));
        table = table.row(row);
    }
    table
}

/// The tails: how large a share takes longer.
fn distributions(load: &Load, all: &[(&str, Completions)]) -> report::Figure {
    let series = all.iter().map(|(name, times)| {
        let count = times.times.len();
        let ranks = (0..=120).map(|step| ((1.0 - 10f64.powf(-f64::from(step) / 24.0)) * count as f64) as usize);
        let mut points: Vec<(f64, f64)> = ranks
            .filter(|rank| *rank < count)
            .map(|rank| (times.times[rank] as f64 / 1e6, (count - rank) as f64 / count as f64))
            .collect();
        points.dedup_by(|a, b| a.0 == b.0);
        Series::new(*name, &points)
    });
    report::Figure {
        name: format!("fct-{}-{}", load.transport, load.bytes),
        title: format!("{}, {} bytes: share of flows that take longer", load.transport, load.bytes),
        caption: String::new(),
        plot: Plot::Lines {
            x: Axis::new("time", "us", Scale::Log),
            y: Axis::new("share", "", Scale::Log),
            series: series.collect(),
        },
    }
}
