//! What transports achieve over a link that loses frames.

use super::Order as Run;
use super::judge::{Figure, definition, short};
use crate::failure::Failure;
use karakoram_lab::report::{Block, Cell, Claim, Column, Report, Section, Table, Verdict};
use karakoram_link::config::LineRate;
use karakoram_link::fec::Code;
use karakoram_simulator::fct::{Bulk, Throughput, Variant, run_bulk, run_coded};
use karakoram_simulator::link::Buffers;
use karakoram_simulator::loss::LossModel;
use karakoram_simulator::tcp::congestion::Algorithm;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Definition {
    title: String,
    source: String,
    warm_up: f64,
    time: f64,
    rates: Vec<f64>,
    copies: Vec<u8>,
    published: Vec<Published>,
    wharf: Wharf,
    signal: Signal,
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

#[derive(Deserialize)]
struct Signal {
    published: BTreeMap<String, f64>,
}

const SECOND: f64 = 1e12;
const VARIANTS: [Variant; 3] = [Variant::Unprotected, Variant::NonBlocking, Variant::Ordered];

/// Runs it.
pub fn run(order: &Run) -> Result<Report, Failure> {
    let definition: Definition =
        definition(include_str!("../../../../../../experiments/link-throughput/simulation.toml"));
    let mut report = Report::new(&definition.title).summary("One flow without end. Goodput is payload that was acknowledged. Protected links have rings here; sorted buffers make no difference at 10G that could be seen.");
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Bbr, Algorithm::Reno] {
        report = report.section(section(&definition, algorithm, order)?);
    }
    Ok(report.section(wharf(&definition, order)?).section(signal(&definition, order)?))
}

fn bulk(definition: &Definition, algorithm: Algorithm, variant: Variant, at: usize, order: &Run) -> Bulk {
    let share = if order.is_quick { 0.05 } else { 1.0 };
    Bulk {
        algorithm,
        variant,
        line: LineRate::G10,
        loss: LossModel::Independent(definition.rates[at]),
        copies: definition.copies[at],
        buffers: Buffers::Rings,
        has_back_pressure: true,
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
        let text = format!("{} {} at {}: goodput", algorithm.name(), variant.name(), short(*rate));
        match variant == Variant::Unprotected && *rate > 1e-5 {
            true => judge_law(text, &definition.source, *goodput, *rate, found),
            false => {
                let tolerance = if variant == Variant::Unprotected { 0.02 } else { 0.01 };
                let figure = Figure {
                    text,
                    source: &definition.source,
                    published: *goodput,
                    measured: found.goodput / 1e9,
                    band: (goodput * (1.0 - tolerance), goodput * (1.0 + tolerance)),
                    unit: " Gb/s",
                    why: None,
                };
                figure.judge()
            }
        }
    });
    claims.collect()
}

/// Unprotected, what is achieved depends on the round trip under load: what is compared is the round
/// trip that the root law gives the published figure, with the one the simulated hosts have.
fn judge_law(text: String, source: &str, published: f64, rate: f64, found: &Throughput) -> Claim {
    let window_bits = (1.5 / rate).sqrt() * 1460.0 * 8.0;
    let implied = |goodput: f64| window_bits / goodput * 1e6;
    let is_near = (found.goodput / 1e9 / published - 1.0).abs() <= 0.15;
    Claim {
        text,
        source: source.to_string(),
        published: format!("{published} Gb/s"),
        measured: format!("{} Gb/s", short(found.goodput / 1e9)),
        verdict: if is_near { Verdict::Holds } else { Verdict::Inconclusive },
        reason: format!(
            "a window of the root of 1.5/p per round trip: the published figure means {:.0} us, ours {:.0} us (smoothed at the end: {:.0} us); the published hosts' round trip under load is not known",
            implied(published * 1e9),
            implied(found.goodput),
            found.rtt as f64 / 1e6
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

fn signal(definition: &Definition, order: &Run) -> Result<Section, Failure> {
    let columns = ["Gb/s on the wire", "published", "sent again", "queue drops", "most held back (bytes)"];
    let mut all = vec![Column::text("")];
    all.extend(columns.map(|name| Column::number(name, "", 2)));
    let mut table = Table::new("throughput-25g", all);
    let mut section = Section::new("DCTCP at 25G, 1e-3 lost, with and without back-pressure");
    let at = definition.rates.iter().position(|rate| *rate == 1e-3).expect("1e-3 is one of the rates");
    let cases = [
        ("no loss", Variant::Lossless, true),
        ("loss", Variant::Unprotected, true),
        ("LG", Variant::Ordered, true),
        ("no back-pressure", Variant::Ordered, false),
    ];
    for (done, (name, variant, has_back_pressure)) in cases.into_iter().enumerate() {
        order.step(done, cases.len(), name)?;
        let bulk = bulk(definition, Algorithm::Dctcp, variant, at, order);
        let found = run_bulk(&Bulk { line: LineRate::G25, has_back_pressure, ..bulk });
        let (wire, published) = (found.goodput / 1e9 * 1538.0 / 1460.0, definition.signal.published[name]);
        let counts = [found.retransmissions as f64, found.dropped as f64, found.waiting_peak as f64];
        table = table.row(row(name, [wire, published].into_iter().chain(counts)));
        let tolerance = if variant == Variant::Lossless || name == "LG" { 0.015 } else { 0.25 };
        let figure = Figure {
            text: format!("DCTCP at 25G, {name}: throughput"),
            source: "LinkGuardian, SIGCOMM 2023, Figure 9",
            published,
            measured: wire,
            band: (published * (1.0 - tolerance), published * (1.0 + tolerance)),
            unit: " Gb/s",
            why: match name {
                "loss" => Some(
                    "Inversely proportional to the round trip under load, which is 57 us here and about twice that on the published hosts.",
                ),
                "no back-pressure" => Some(
                    "The ring's port is not shared with fresh frames here, so the ring drains by itself and does not overflow; the published one does, which is what back-pressure is for.",
                ),
                _ => None,
            },
        };
        section = section.claim(figure.judge());
    }
    Ok(section.block(Block::Table(table)))
}
