//! One flow while its link goes bad and is protected (Figures 9 and 21).

use super::super::Order as Run;
use super::super::judge::{Figure, Line};
use crate::failure::Failure;
use karakoram_lab::report::{self, Axis, Block, Cell, Claim, Column, Plot, Scale, Section, Series, Table};
use karakoram_simulator::tcp::congestion::Algorithm;
use karakoram_simulator::timeline::{Sample, Timeline, run};
use serde::Deserialize;

/// A flow, and what was published of it: Gb/s on the wire without loss, with it, and protected.
#[derive(Deserialize)]
pub(super) struct Signal {
    transport: String,
    line: Line,
    back_pressure: bool,
    published: [f64; 3],
    why: Option<String>,
}

/// What all of them share. Picoseconds.
pub(super) struct Timing {
    pub(super) moderation: u64,
    pub(super) phase: u64,
    pub(super) loss: f64,
}

const PHASES: [&str; 3] = ["no loss", "loss", "LG"];
/// Looks in a phase.
const LOOKS: u64 = 100;

pub(super) fn section(signals: &[Signal], timing: &Timing, order: &Run) -> Result<Section, Failure> {
    let mut section = Section::new("One flow while its link goes bad and is protected");
    let names = ["no loss", "loss", "LG", "no loss, published", "loss, published", "LG, published"];
    let mut columns = vec![Column::text("")];
    columns.extend(names.map(|name| Column::number(name, "Gb/s", 2)));
    columns.extend(["sent again with loss", "sent again with LG"].map(|name| Column::number(name, "per 100 ms", 0)));
    columns.extend(["most queued", "most held back"].map(|name| Column::number(name, "KB", 1)));
    let mut table = Table::new("signal", columns).caption("Throughput is that of whole frames on the wire. Each phase is looked at without its first third, in which the transport finds its place. Queues and frames held back are those of the moments at which the link was looked at, as published.");
    let mut figures = Vec::new();
    for (done, signal) in signals.iter().enumerate() {
        let name = name(signal);
        order.step(done, signals.len(), &name)?;
        let samples = run(&timeline(signal, timing, order.seed));
        let found = phases(&samples).map(|phase| mean(phase, wire));
        table = table.row(row(signal, &name, &samples, found));
        section.claims.extend(judge(signal, &name, found));
        figures.extend([throughput(&name, &samples), buffers(&name, &samples)].map(Block::Figure));
    }
    section = section.text("A phase takes a second here and five in the publication.").block(Block::Table(table));
    Ok(figures.into_iter().fold(section, Section::block))
}

fn name(signal: &Signal) -> String {
    let without = if signal.back_pressure { "" } else { ", no back-pressure" };
    format!("{} at {}{without}", signal.transport, signal.line.name())
}

fn timeline(signal: &Signal, timing: &Timing, seed: u64) -> Timeline {
    let algorithm = Algorithm::ALL.into_iter().find(|a| a.name() == signal.transport);
    let step = (timing.phase / LOOKS).max(1);
    Timeline {
        algorithm: algorithm.expect("a transport of the definition"),
        line: signal.line.rate(),
        loss: timing.loss,
        copies: 2,
        has_back_pressure: signal.back_pressure,
        moderation: timing.moderation,
        lossy_at: step * LOOKS,
        protected_at: step * LOOKS * 2,
        end: step * LOOKS * 3,
        step,
        seed,
    }
}

/// The last two thirds of each phase.
fn phases(samples: &[Sample]) -> [&[Sample]; 3] {
    let looks = LOOKS as usize;
    [0, 1, 2].map(|phase| &samples[phase * looks + looks / 3..(phase + 1) * looks])
}

fn mean(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().map(of).sum::<f64>() / samples.len() as f64
}

/// Gb/s of whole frames.
fn wire(sample: &Sample) -> f64 {
    sample.goodput / 1e9 * 1538.0 / 1460.0
}

fn row(signal: &Signal, name: &str, samples: &[Sample], found: [f64; 3]) -> Vec<Cell> {
    let step = samples[1].at - samples[0].at;
    let [_, lossy, protected] = phases(samples);
    let again = |phase: &[Sample]| mean(phase, |s| s.retransmissions as f64) * 1e11 / step as f64;
    let most = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0) as f64 / 1e3;
    let numbers = found.into_iter().chain(signal.published).chain([again(lossy), again(protected)]);
    let numbers = numbers.chain([most(|s| s.queue_bytes), most(|s| s.waiting_bytes)]);
    std::iter::once(Cell::from(name)).chain(numbers.map(Cell::Number)).collect()
}

/// Protected and loss-free flows have the line, within 1.5 %; others depend on the hosts' round trip.
fn judge(signal: &Signal, name: &str, found: [f64; 3]) -> Vec<Claim> {
    let claims = PHASES.into_iter().zip(found).zip(signal.published).map(|((phase, measured), published)| {
        let is_filled = phase == "no loss" || (phase == "LG" && signal.back_pressure);
        let tolerance = if is_filled { 0.015 } else { 0.25 };
        let figure = Figure {
            text: format!("{name}, {phase}: throughput"),
            source: "LinkGuardian, SIGCOMM 2023, Figures 9 and 21",
            published,
            measured,
            band: (published * (1.0 - tolerance), published * (1.0 + tolerance)),
            unit: " Gb/s",
            why: signal.why.as_deref(),
        };
        figure.judge()
    });
    claims.collect()
}

fn lines(name: &str, title: &str, label: &str, unit: &str, series: Vec<Series>) -> report::Figure {
    let file: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    report::Figure {
        name: format!("signal-{file}-{label}").replace(' ', "-").replace("--", "-"),
        title: format!("{name}: {title}"),
        caption: "Loss begins after the first third, protection after the second.".to_string(),
        plot: Plot::Lines { x: Axis::new("time", "ms", Scale::Zero), y: Axis::new(label, unit, Scale::Zero), series },
    }
}

fn series(label: &str, samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Series {
    let points: Vec<(f64, f64)> = samples.iter().map(|s| (s.at as f64 / 1e9, of(s))).collect();
    Series::new(label, &points)
}

fn throughput(name: &str, samples: &[Sample]) -> report::Figure {
    lines(name, "throughput", "throughput", "Gb/s", vec![series("on the wire", samples, wire)])
}

fn buffers(name: &str, samples: &[Sample]) -> report::Figure {
    let queue = series("sender's queue", samples, |s| s.queue_bytes as f64 / 1e3);
    let waiting = series("held back at the receiver", samples, |s| s.waiting_bytes as f64 / 1e3);
    lines(name, "queue and frames held back", "bytes", "KB", vec![queue, waiting])
}
