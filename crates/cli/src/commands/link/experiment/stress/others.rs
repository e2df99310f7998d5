//! The same link with other protocols in its ports: selective repeat with random-access buffers, go-back-N
//! (Ultra Ethernet's link-level retry), and a block code (Wharf). Nothing of this is published together.

use super::super::Order as Run;
use super::super::judge::short;
use crate::failure::Failure;
use karakoram_lab::report::{Axis, Block, Cell, Column, Figure, Plot, Scale, Section, Series, Table};
use karakoram_link::fec::Code;
use karakoram_link::go_back_n::GoBackConfig;
use karakoram_link::rate::Probability;
use karakoram_simulator::exchange::{Exchange, Outcome, run};
use karakoram_simulator::link::Rate;
use karakoram_simulator::loss::{LossModel, LossStream};
use karakoram_simulator::random::Random;
use karakoram_simulator::stress::FULL_FRAME;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Others {
    rates: Vec<f64>,
    frames: u64,
}

/// Gb/s without a protocol.
const LINE: f64 = 100.0;

pub(super) fn section(others: &Others, order: &Run) -> Result<Section, Failure> {
    let mut columns = vec![Column::text("loss"), Column::text("protocol")];
    columns.push(Column::number("speed", "%", 3));
    columns.extend(["median", "99.99 %"].map(|name| Column::number(name, "ns", 0)));
    columns.extend(["most copies", "most held back"].map(|name| Column::number(name, "KB", 1)));
    columns.push(Column::text("still lost"));
    let mut table = Table::new("others", columns)
        .caption("Latency is that of a frame from the start of its first copy on the wire to its delivery.");
    let mut curves: [Vec<(f64, f64)>; 3] = Default::default();
    for (number, loss) in others.rates.iter().enumerate() {
        order.step(number, others.rates.len(), "other protocols")?;
        let [selective, back] = both(*loss, order.share(others.frames), order.seed);
        let code = Code::against(probability(*loss));
        let speeds = [speed(&selective), speed(&back), 100.0 * code.share_per_million() as f64 / 1e6];
        for (name, outcome, speed) in [("selective repeat", &selective, speeds[0]), ("go-back-N", &back, speeds[1])] {
            table = table.row(row(*loss, name, outcome, speed));
        }
        table = table.row(code_row(*loss, code, speeds[2]));
        curves.iter_mut().zip(speeds).for_each(|(curve, speed)| curve.push((*loss, speed)));
    }
    let names = ["selective repeat", "go-back-N", "block code"];
    let series = names.into_iter().zip(&curves).map(|(name, points)| Series::new(name, points)).collect();
    let figure = Figure {
        name: "others".to_string(),
        title: "What is left of 100 Gb/s".to_string(),
        caption: "Full frames; selective repeat with the copies that the loss calls for.".to_string(),
        plot: Plot::Lines { x: Axis::new("loss", "", Scale::Log), y: Axis::new("speed", "%", Scale::Linear), series },
    };
    Ok(Section::new("Other protocols on the same link (our own comparison)")
        .text("At 100 Gb/s, all in the ports themselves, where a round trip is 1.4 us (the sample replay buffers of Ultra Ethernet's link-level retry), not in the published switches. A loss costs selective repeat its copies and a buffer for the frames behind it; go-back-N a round trip of the line, and no buffer at the receiver; a block code its share always, and two losses in a block for good.")
        .block(Block::Table(table))
        .block(Block::Figure(figure)))
}

fn probability(loss: f64) -> Probability {
    Probability::of((loss * 1e9).round() as u64, 1_000_000_000)
}

fn both(loss: f64, frames: u64, seed: u64) -> [Outcome; 2] {
    let losses = || LossStream::new(LossModel::Independent(loss), Random::named(seed, "link losses"));
    let [with_header, without] = [3, 0].map(|header| Exchange::in_ports(Rate::gigabits(100), header, frames));
    let copies = probability(loss).copies_for(Probability::HEALTHY);
    let selective = run(&with_header, &with_header.selective(copies), losses());
    [selective, run(&without, &GoBackConfig::sample_200g(), losses())]
}

fn speed(outcome: &Outcome) -> f64 {
    100.0 * outcome.carried(FULL_FRAME) / 1e9 / LINE
}

fn row(loss: f64, name: &str, outcome: &Outcome, speed: f64) -> Vec<Cell> {
    let latencies = [0.5, 0.9999].map(|share| Cell::Number(outcome.latency_quantile_ns(share) as f64));
    let peaks = [outcome.copy_peak, outcome.waiting_peak].map(|bytes| Cell::Number(bytes as f64 / 1e3));
    let mut row = vec![short(loss).into(), name.into(), speed.into()];
    row.extend(latencies.into_iter().chain(peaks));
    row.push((outcome.sent - outcome.delivered).to_string().into());
    row
}

/// What follows from the code alone: a frame stays lost when another one of its block is lost too.
fn code_row(loss: f64, code: Code, speed: f64) -> Vec<Cell> {
    let others = i32::try_from(code.data + code.parity - 1).unwrap_or(i32::MAX);
    let residual = loss * (1.0 - (1.0 - loss).powi(others));
    let mut row = vec![short(loss).into(), format!("block code {}+{}", code.data, code.parity).into(), speed.into()];
    row.extend([Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty]);
    row.push(format!("{} of all", short(residual)).into());
    row
}
