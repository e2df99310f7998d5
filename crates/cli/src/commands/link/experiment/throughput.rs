//! What transports achieve over a link that loses frames.

mod signal;

use super::Order as Run;
use super::judge::{Figure, definition, short};
use crate::failure::Failure;
use karakoram_lab::report::{Block, Cell, Claim, Column, Report, Section, Table, Verdict};
use karakoram_link::config::LineRate;
use karakoram_link::fec::Code;
use karakoram_simulator::bulk::{Bulk, Throughput, run_bulk, run_coded};
use karakoram_simulator::fct::Variant;
use karakoram_simulator::link::Buffers;
use karakoram_simulator::loss::LossModel;
use karakoram_simulator::tcp::congestion::Algorithm;
use serde::Deserialize;
use signal::{Signal, Timing};

#[derive(Deserialize)]
struct Definition {
    title: String,
    source: String,
    warm_up: f64,
    time: f64,
    moderation_us: f64,
    calibration: f64,
    rates: Vec<f64>,
    copies: Vec<u8>,
    published: Vec<Published>,
    wharf: Wharf,
    signal: Vec<Signal>,
    signal_loss: f64,
    signal_phase: f64,
}

#[derive(Deserialize)]
struct Published {
    transport: String,
    variant: String,
    goodput: Vec<f64>,
}

#[derive(Deserialize)]
struct Wharf {
    codes: Vec<[u32; 2]>,
    goodput: Vec<f64>,
}

/// Said of the workshop's figure, which the law of the copies' share contradicts.
const EXACT: &str = "The share that is left is 1460/1541 of the line over 1 + Np, that is 9.198 Gb/s with 3 copies, which the paper's own figure of 9.20 confirms; the workshop's, with another number of copies, does not say how many.";
const SECOND: f64 = 1e12;
const VARIANTS: [Variant; 3] = [Variant::Unprotected, Variant::NonBlocking, Variant::Ordered];

/// Runs it.
pub fn run(order: &Run) -> Result<Report, Failure> {
    let definition: Definition =
        definition(include_str!("../../../../../../experiments/link-throughput/simulation.toml"));
    let mut report = Report::new(&definition.title).summary("One flow without end. Goodput is payload that was acknowledged. Protected links have rings here; sorted buffers make no difference at 10G that could be seen. Without protection, goodput is inversely proportional to the round trip under load, which is not published: how long the hosts' adapters collect frames before they interrupt was fitted to one figure, CUBIC at 1e-3, and all others are predictions.");
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Bbr, Algorithm::Reno] {
        report = report.section(section(&definition, algorithm, order)?);
    }
    let timing = Timing {
        moderation: (definition.moderation_us * 1e6) as u64,
        phase: (definition.signal_phase * order.fraction() * SECOND) as u64,
        loss: definition.signal_loss,
    };
    Ok(report.section(wharf(&definition, order)?).section(signal::section(&definition.signal, &timing, order)?))
}

fn bulk(definition: &Definition, algorithm: Algorithm, variant: Variant, at: usize, order: &Run) -> Bulk {
    let share = order.fraction();
    Bulk {
        algorithm,
        variant,
        line: LineRate::G10,
        loss: LossModel::Independent(definition.rates[at]),
        copies: definition.copies[at],
        buffers: Buffers::Rings,
        has_back_pressure: true,
        moderation: (definition.moderation_us * 1e6) as u64,
        warm_up: (definition.warm_up * SECOND) as u64,
        time: (definition.time * share * SECOND) as u64,
        seed: order.seed,
    }
}

fn columns(definition: &Definition) -> Vec<Column> {
    let rates = definition.rates.iter().map(|rate| Column::number(short(*rate), "Gb/s", 3));
    std::iter::once(Column::text("loss")).chain(rates).collect()
}

fn row(name: &str, values: impl Iterator<Item = f64>) -> Vec<Cell> {
    std::iter::once(Cell::from(name)).chain(values.map(Cell::Number)).collect()
}

fn section(definition: &Definition, algorithm: Algorithm, order: &Run) -> Result<Section, Failure> {
    let title = format!("{} at 10G", algorithm.name());
    let mut section = Section::new(&title);
    let mut table = Table::new(format!("throughput-{}", algorithm.name()), columns(definition));
    for variant in VARIANTS {
        let mut found = Vec::new();
        for at in 0..definition.rates.len() {
            order.step(at, definition.rates.len(), &format!("{title}, {}", variant.name()))?;
            found.push(run_bulk(&bulk(definition, algorithm, variant, at, order)));
        }
        table = table.row(row(variant.name(), found.iter().map(|t| t.goodput / 1e9)));
        let is_this = |p: &&Published| p.transport == algorithm.name() && p.variant == variant.name();
        if let Some(published) = definition.published.iter().find(is_this) {
            table = table.row(row(&format!("{}, published", variant.name()), published.goodput.iter().copied()));
            section.claims.extend(judge(definition, published, variant, algorithm, &found));
        }
    }
    Ok(section.block(Block::Table(table)))
}

fn judge(
    definition: &Definition,
    published: &Published,
    variant: Variant,
    algorithm: Algorithm,
    found: &[Throughput],
) -> Vec<Claim> {
    let all = definition.rates.iter().zip(&published.goodput).zip(found);
    let claims = all.map(|((rate, goodput), found)| {
        let is_fitted =
            algorithm == Algorithm::Cubic && variant == Variant::Unprotected && *rate == definition.calibration;
        let note = if is_fitted { " (calibration)" } else { "" };
        let text = format!("{} {} at {}: goodput{note}", algorithm.name(), variant.name(), short(*rate));
        match variant == Variant::Unprotected && *rate > 1e-5 {
            true => judge_law(text, &definition.source, *goodput, *rate, found, definition.calibration),
            false => {
                let tolerance = if variant == Variant::Unprotected { 0.02 } else { 0.01 };
                let figure = Figure {
                    text,
                    source: &definition.source,
                    published: *goodput,
                    measured: found.goodput / 1e9,
                    band: (goodput * (1.0 - tolerance), goodput * (1.0 + tolerance)),
                    unit: " Gb/s",
                    why: (variant == Variant::Ordered && *goodput > 9.25 && *rate > 1e-3).then_some(EXACT),
                };
                figure.judge()
            }
        }
    });
    claims.collect()
}

/// Without protection, with the round trips that the root law makes of both figures.
fn judge_law(text: String, source: &str, published: f64, rate: f64, found: &Throughput, fitted_at: f64) -> Claim {
    let window_bits = (1.5 / rate).sqrt() * 1460.0 * 8.0;
    let implied = |goodput: f64| window_bits / goodput * 1e6;
    let is_near = (found.goodput / 1e9 / published - 1.0).abs() <= 0.15;
    let why = match rate > fitted_at {
        _ if is_near => "",
        true => {
            ". The published round trip shrinks as fewer frames come: those adapters interrupt sooner when there is less to collect, the simulated ones wait as long as at 1e-3"
        }
        false => ". Near the line's rate, where the queue decides and not the loss",
    };
    Claim {
        text,
        source: source.to_string(),
        published: format!("{published} Gb/s"),
        measured: format!("{} Gb/s", short(found.goodput / 1e9)),
        verdict: if is_near { Verdict::Holds } else { Verdict::DoesNotHold },
        reason: format!(
            "tolerated: 15 %. With a window of the root of 1.5/p in each round trip the published figure means {:.0} us, ours {:.0} us{why}",
            implied(published * 1e9),
            implied(found.goodput),
        ),
    }
}

fn wharf(definition: &Definition, order: &Run) -> Result<Section, Failure> {
    let mut found = Vec::new();
    for (at, rate) in definition.rates.iter().enumerate() {
        order.step(at, definition.rates.len(), "link FEC")?;
        let [data, parity] = definition.wharf.codes[at];
        let bulk = bulk(definition, Algorithm::Cubic, Variant::Unprotected, at, order);
        found.push(run_coded(&bulk, *rate, Code { data, parity }));
    }
    let mut section = Section::new("Link FEC, after Wharf, with CUBIC at 10G");
    for ((rate, published), found) in definition.rates.iter().zip(&definition.wharf.goodput).zip(&found) {
        let figure = Figure {
            text: format!("link FEC at {}: goodput", short(*rate)),
            source: "LinkGuardian, SIGCOMM 2023, Table 3",
            published: *published,
            measured: found.goodput / 1e9,
            band: (published * 0.99, published * 1.01),
            unit: " Gb/s",
            why: Some(
                "What the code cannot mend is lost for the transport: two frames of a block. The published figures are those of the rate alone, on a path whose transport fills the line again.",
            ),
        };
        section = section.claim(figure.judge());
    }
    let table = Table::new("throughput-fec", columns(definition))
        .row(row("link FEC", found.iter().map(|t| t.goodput / 1e9)))
        .row(row("published", definition.wharf.goodput.iter().copied()));
    Ok(section.text("The line at the rate that the parity leaves, 25/26 and 5/6, with the losses that one parity frame in a block cannot mend.").block(Block::Table(table)))
}
