//! What is still lost and still carried under full load, and how long recovery takes.

mod bursts;
mod others;
mod residual;

use super::Order as Run;
use super::judge::{Figure, Line, Order, definition, poisson_interval, poisson_interval_of, short};
use crate::failure::Failure;
use karakoram_lab::report::{Axis, Block, Cell, Claim, Column, Plot, Report, Scale, Section, Series, Table, Verdict};
use karakoram_link::config::Protection;
use karakoram_simulator::link::Buffers;
use karakoram_simulator::stress::{FULL_FRAME, Outcome, Stress, run as simulate};
use serde::Deserialize;

#[derive(Deserialize)]
struct Definition {
    title: String,
    source: String,
    leaping_frames: u64,
    stepping_frames: u64,
    copy_loss: f64,
    rare_losses: f64,
    most_frames: u64,
    point: Vec<Point>,
    law: Vec<Law>,
    recovery: Vec<Recovery>,
    burst: Vec<bursts::Bursts>,
    other: others::Others,
}

#[derive(Deserialize)]
struct Point {
    line: Line,
    mode: Order,
    loss: f64,
    copies: u8,
    effective: f64,
    speed: f64,
    band: [f64; 2],
    why: Option<String>,
}

#[derive(Deserialize)]
struct Law {
    loss: f64,
    copies: u8,
    frames: u64,
}

#[derive(Deserialize)]
struct Recovery {
    line: Line,
    copies: u8,
    /// 1 %, median, 99 %; 0 where nothing was published.
    published: [f64; 3],
    band: [f64; 2],
}

impl Definition {
    /// Counts of lost frames that are judged.
    fn counts(&self) -> usize {
        2 * self.point.len() + self.law.len()
    }
}

/// Runs it.
pub fn run(order: &Run) -> Result<Report, Failure> {
    let definition: Definition = definition(include_str!("../../../../../../experiments/link-stress/simulation.toml"));
    let sections = [
        speeds(&definition, Buffers::Rings, order)?,
        speeds(&definition, Buffers::Sorted, order)?,
        laws(&definition, order)?,
        recovery(&definition, order)?,
        bursts::section(&definition.burst, order)?,
        others::section(&definition.other, order)?,
    ];
    let report = Report::new(&definition.title)
        .summary("Frames of 1,514 bytes at the line's rate. With rings, buffers are those of the published switches; sorted ones are what the same protocol does with random access. The two are never compared with one published figure.");
    Ok(sections.into_iter().fold(report, Report::section))
}

fn name(buffers: Buffers) -> &'static str {
    match buffers {
        Buffers::Rings => "Speed and loss with rings, as published",
        Buffers::Sorted => "Speed and loss with sorted buffers",
    }
}

/// Percent of the reference that published speeds are relative to.
fn speed(line: Line, outcome: &Outcome) -> f64 {
    let reference = if line == Line::G100 { 98.756e9 } else { 25e9 };
    100.0 * outcome.carried(FULL_FRAME) / reference
}

fn speeds(definition: &Definition, buffers: Buffers, order: &Run) -> Result<Section, Failure> {
    let mut section = Section::new(name(buffers));
    let texts = ["line", "mode", "copies", "actual loss", "published effective loss", "p^(N+1)", "effective loss"];
    let mut columns = texts.map(Column::text).to_vec();
    columns.extend(["published speed", "speed"].map(|name| Column::number(name, "%", 2)));
    let mut table = Table::new(format!("speeds-{}", buffers.name()), columns);
    for (number, point) in definition.point.iter().enumerate() {
        order.step(number, definition.point.len(), name(buffers))?;
        let outcome = measure(definition, point, buffers, order);
        let residual = residual::measure(definition, number, buffers, order);
        table = table.row(vec![
            point.line.name().into(),
            point.mode.name().into(),
            point.copies.to_string().into(),
            short(outcome.actual_loss()).into(),
            short(point.effective).into(),
            short(residual.law()).into(),
            residual.text().into(),
            point.speed.into(),
            speed(point.line, &outcome).into(),
        ]);
        if buffers == Buffers::Rings {
            section = section.claim(judge_speed(definition, point, &outcome));
        }
        section = section.claim(residual.judge(point));
    }
    let text = match buffers {
        Buffers::Rings => {
            "A frame in the receiver's ring is looked at once in a round, so the ring needs gaps in the stream to drain; this costs the 8 % at 100G and 1e-3."
        }
        Buffers::Sorted => {
            "With random access, order costs nothing that could be measured: what is missing from 100 % are headers and copies."
        }
    };
    let rare = "What is still lost at these rates cannot be counted in any run of bearable length (1e-10 is one frame of ten billion). So it was measured in runs of their own in which the bare link loses frames at the published rate, but copies at 0.5 instead: a frame that stays lost then counts (p/0.5)^N frames (importance sampling). A loss for any other reason than lost copies would count fully, and show.";
    Ok(section.text(text).text(rare).block(Block::Table(table)))
}

fn stress(point: &Point, buffers: Buffers) -> Stress {
    let protection = Protection { mode: point.mode.mode(), copies: point.copies };
    Stress::published(point.line.rate(), protection, buffers, point.loss)
}

fn measure(definition: &Definition, point: &Point, buffers: Buffers, order: &Run) -> Outcome {
    let is_slow = buffers == Buffers::Rings && !(point.line == Line::G25 && point.mode == Order::NonBlocking);
    let frames = order.share(if is_slow { definition.stepping_frames } else { definition.leaping_frames });
    simulate::<()>(&Stress { frames, seed: order.seed, ..stress(point, buffers) }).0
}

fn judge_speed(definition: &Definition, point: &Point, outcome: &Outcome) -> Claim {
    let figure = Figure {
        text: format!("{} {} at {}: effective speed", point.line.name(), point.mode.name(), short(point.loss)),
        source: &definition.source,
        published: point.speed,
        measured: speed(point.line, outcome),
        band: (point.band[0], point.band[1]),
        unit: " %",
        why: point.why.as_deref(),
    };
    figure.judge()
}

fn laws(definition: &Definition, order: &Run) -> Result<Section, Failure> {
    let columns = ["loss", "copies", "frames", "expected", "lost", "95 % interval", "timeouts"];
    let mut table = Table::new("law", columns.map(Column::text).to_vec());
    let mut section = Section::new("What is still lost is p^(N+1)");
    for (number, law) in definition.law.iter().enumerate() {
        order.step(number, definition.law.len(), "the law")?;
        let protection = Protection { mode: Order::Ordered.mode(), copies: law.copies };
        let published = Stress::published(Line::G100.rate(), protection, Buffers::Sorted, law.loss);
        let (outcome, _) =
            simulate::<()>(&Stress { frames: order.share(law.frames), seed: order.seed + number as u64, ..published });
        let frames = outcome.counters.sent as f64;
        let expected = frames * law.loss.powi(i32::from(law.copies) + 1);
        let (low, high) = poisson_interval(outcome.residual);
        let (least, most) = poisson_interval_of(outcome.residual, definition.counts());
        let is_inside = (least..=most).contains(&expected);
        table = table.row(vec![
            short(law.loss).into(),
            law.copies.to_string().into(),
            short(frames).into(),
            short(expected).into(),
            outcome.residual.to_string().into(),
            format!("{} to {}", short(low), short(high)).into(),
            outcome.receiver.timeouts.to_string().into(),
        ]);
        section = section.claim(Claim {
            text: format!("loss {}, {} copies", short(law.loss), law.copies),
            source: "Equation 2".to_string(),
            published: short(law.loss.powi(i32::from(law.copies) + 1)),
            measured: short(outcome.effective_loss()),
            verdict: if is_inside { Verdict::Holds } else { Verdict::DoesNotHold },
            reason: format!(
                "{} lost frames, expected {}; what was seen means {} to {}, so that all {} counts are right in 95 % of cases",
                outcome.residual,
                short(expected),
                short(least),
                short(most),
                definition.counts()
            ),
        });
    }
    Ok(section
        .text("At the rates of real links the law can hardly be seen: 1e-9 needs many billions of frames. It is checked where it can be, and extrapolated. Bursts of more than five frames, which the original cannot ask for, are rare at these rates but not impossible; at 5e-2 they add 3e-7. In ordered mode nearly every frame that stays lost costs one timeout, p^N of all losses (published: 476 of 31 million).")
        .block(Block::Table(table)))
}

fn recovery(definition: &Definition, order: &Run) -> Result<Section, Failure> {
    let columns = ["line", "copies", "1 %", "median", "99 %", "published 1 %", "published median", "published 99 %"];
    let mut columns: Vec<Column> = columns.map(|name| Column::number(name, "ns", 0)).to_vec();
    columns[0] = Column::text("line");
    columns[1] = Column::text("copies");
    let mut table = Table::new("recovery", columns);
    let mut section = Section::new("How long recovery takes (calibration)");
    let mut series = Vec::new();
    for (number, recovery) in definition.recovery.iter().enumerate() {
        order.step(number, definition.recovery.len(), "recovery")?;
        let protection = Protection { mode: Order::NonBlocking.mode(), copies: recovery.copies };
        let published = Stress::published(recovery.line.rate(), protection, Buffers::Rings, 1e-3);
        let frames = order.share(definition.stepping_frames);
        let (outcome, _) = simulate::<()>(&Stress { frames, seed: order.seed, ..published });
        let quantile = |share| outcome.recovery_quantile_ns(share).unwrap_or(0) as f64;
        let found = [0.01, 0.5, 0.99].map(quantile);
        let shown = recovery.published.map(|ns| if ns > 0.0 { Cell::Number(ns) } else { Cell::Empty });
        let mut row = vec![recovery.line.name().into(), recovery.copies.to_string().into()];
        row.extend(found.map(Cell::Number));
        row.extend(shown);
        table = table.row(row);
        section = section.claim(judge_recovery(recovery, found[1]));
        series.push(distribution(recovery, &outcome));
    }
    let figure = karakoram_lab::report::Figure {
        name: "recovery".to_string(),
        title: "From the notice of a loss to the first copy".to_string(),
        caption: "Steps are frames on the wire: a copy waits for those that are committed to the port.".to_string(),
        plot: Plot::Lines { x: Axis::new("time", "ns", Scale::Linear), y: Axis::new("share", "", Scale::Zero), series },
    };
    Ok(section
        .text("The delays of the switches were fitted to these figures, once for all line rates. The simulator's hosts have no jitter, so its distributions are narrower than the published ones.")
        .block(Block::Table(table))
        .block(Block::Figure(figure)))
}

fn judge_recovery(recovery: &Recovery, median: f64) -> Claim {
    let figure = Figure {
        text: format!("{}, {} copies: median", recovery.line.name(), recovery.copies),
        source: "Figure 19 (calibration)",
        published: recovery.published[1],
        measured: median,
        band: (recovery.band[0], recovery.band[1]),
        unit: " ns",
        why: None,
    };
    figure.judge()
}

fn distribution(recovery: &Recovery, outcome: &Outcome) -> Series {
    let total: u64 = outcome.recovery_ns.iter().sum();
    let mut seen = 0;
    let mut points = Vec::new();
    for (ns, count) in outcome.recovery_ns.iter().enumerate().filter(|(_, count)| **count > 0) {
        seen += count;
        points.push((ns as f64, seen as f64 / total.max(1) as f64));
    }
    let every = points.len().div_ceil(200).max(1);
    let last = points.len().saturating_sub(1);
    let points: Vec<_> =
        points.into_iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last).map(|(_, p)| p).collect();
    let label = format!("{}, {} copies", recovery.line.name(), recovery.copies);
    Series { is_step: true, ..Series::new(label, &points) }
}
