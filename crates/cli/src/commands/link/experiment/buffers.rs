//! What buffers hold, and how often frames go round in rings.

use super::Order as Run;
use super::judge::{Figure, Line, Order, definition, short};
use crate::failure::Failure;
use karakoram_lab::report::{Block, Cell, Claim, Column, Report, Section, Table};
use karakoram_link::config::Protection;
use karakoram_simulator::link::{Buffers, Occupancy};
use karakoram_simulator::stress::{Outcome, Stress, run as simulate};
use serde::Deserialize;

#[derive(Deserialize)]
struct Definition {
    title: String,
    source: String,
    frames: u64,
    pipe: f64,
    run: Vec<Load>,
}

#[derive(Deserialize)]
struct Load {
    line: Line,
    mode: Order,
    loss: f64,
    copies: u8,
    /// Published kilobytes of copies: quartiles and most.
    copied: Option<[f64; 4]>,
    /// The same of frames held back.
    waiting: [f64; 4],
    /// Published percent of the pipe's packets: sender's ring, receiver's ring.
    passes: [f64; 2],
}

/// Runs it.
pub fn run(order: &Run) -> Result<Report, Failure> {
    let definition: Definition = definition(include_str!("../../../../../../experiments/link-buffers/simulation.toml"));
    let report = Report::new(&definition.title).summary("The stress test's buffers. With rings, what waits for the rings' ports counts, as the published switches count it; with sorted buffers, all that is kept does.");
    let rings = occupancy(&definition, Buffers::Rings, order)?;
    let sorted = occupancy(&definition, Buffers::Sorted, order)?;
    Ok(report.section(rings).section(sorted))
}

fn occupancy(definition: &Definition, buffers: Buffers, order: &Run) -> Result<Section, Failure> {
    let title = match buffers {
        Buffers::Rings => "Rings, as published",
        Buffers::Sorted => "Sorted buffers",
    };
    let mut section = Section::new(title);
    let numbers = ["copies q1", "median", "q3", "most", "held back q1", "median ", "q3 ", "most "];
    let mut columns = ["line", "mode", "loss"].map(Column::text).to_vec();
    columns.extend(numbers.map(|name| Column::number(name, "KB", 1)));
    columns.extend(["sender's ring", "receiver's ring"].map(|name| Column::number(name, "% of pipe", 3)));
    let mut table = Table::new(format!("buffers-{}", buffers.name()), columns);
    for (number, load) in definition.run.iter().enumerate() {
        order.step(number, definition.run.len(), title)?;
        let protection = Protection { mode: load.mode.mode(), copies: load.copies };
        let published = Stress::published(load.line.rate(), protection, buffers, load.loss);
        let frames = order.share(definition.frames);
        let (outcome, _) = simulate::<()>(&Stress { frames, seed: order.seed, ..published });
        let shares = passes(definition, &outcome);
        let mut row: Vec<Cell> = vec![load.line.name().into(), load.mode.name().into(), short(load.loss).into()];
        row.extend(kilobytes(&outcome.copy_bytes, &outcome).map(Cell::Number));
        row.extend(kilobytes(&outcome.waiting_bytes, &outcome).map(Cell::Number));
        row.extend(shares.map(Cell::Number));
        table = table.row(row);
        if buffers == Buffers::Rings {
            section.claims.extend(judge(definition, load, &outcome, shares));
        }
    }
    Ok(section.block(Block::Table(table)))
}

/// Percent of the pipe's packets that go round: at the sender, at the receiver.
fn passes(definition: &Definition, outcome: &Outcome) -> [f64; 2] {
    let seconds = outcome.duration as f64 / 1e12;
    outcome.ring_passes.map(|passes| 100.0 * passes as f64 / seconds / definition.pipe)
}

fn kilobytes(occupancy: &Occupancy, outcome: &Outcome) -> [f64; 4] {
    let quantile = |share| occupancy.quantile(outcome.duration, share) as f64 / 1e3;
    [quantile(0.25), quantile(0.5), quantile(0.75), occupancy.peak() as f64 / 1e3]
}

fn judge(definition: &Definition, load: &Load, outcome: &Outcome, shares: [f64; 2]) -> Vec<Claim> {
    let name = format!("{} {} at {}", load.line.name(), load.mode.name(), short(load.loss));
    let claim = |what: &str, published: f64, measured: f64, band: (f64, f64), unit, why| {
        let figure = Figure {
            text: format!("{name}: {what}"),
            source: &definition.source,
            published,
            measured,
            band,
            unit,
            why,
        };
        figure.judge()
    };
    let within = |value: f64, part: f64| (value * (1.0 - part), value * (1.0 + part));
    let order = Some(
        "The order of frames in the original's ring depends on how two mirror ports share its port, which is not published; here frames join at its end.",
    );
    let mut claims = Vec::new();
    let waiting = kilobytes(&outcome.waiting_bytes, outcome);
    claims.push(claim(
        "frames held back, median",
        load.waiting[1],
        waiting[1],
        within(load.waiting[1], 0.3),
        " KB",
        order,
    ));
    claims.push(claim("frames held back, most", load.waiting[3], waiting[3], (40.0, 90.0), " KB", None));
    if let Some(published) = load.copied {
        let copied = kilobytes(&outcome.copy_bytes, outcome);
        claims.push(claim("copies, median", published[1], copied[1], within(published[1], 0.3), " KB", order));
    }
    claims.push(claim(
        "sender's ring",
        load.passes[0],
        shares[0],
        within(load.passes[0], 0.15),
        " % of the pipe",
        order,
    ));
    claims.push(claim(
        "receiver's ring",
        load.passes[1],
        shares[1],
        (load.passes[1] - 0.01, load.passes[1] + 0.01),
        " % of the pipe",
        order,
    ));
    claims
}
