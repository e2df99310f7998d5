//! How many frames in a row are lost (Figure 20): whether losses are independent.

use super::super::Order as Run;
use super::super::judge::short;
use crate::failure::Failure;
use karakoram_lab::report::{Axis, Block, Claim, Column, Figure, Plot, Scale, Section, Series, Table, Verdict};
use karakoram_simulator::loss::{Bursty, LossModel, burst_lengths};
use karakoram_simulator::random::Random;
use serde::Deserialize;

/// A rate, and the mean length of bursts where they are not independent.
#[derive(Deserialize)]
pub(super) struct Bursts {
    loss: f64,
    mean: Option<f64>,
    frames: u64,
    /// Published: a share of bursts that is not longer than so many frames.
    published: Option<(f64, usize)>,
}

/// Bursts that are told apart.
const LONGEST: usize = 12;

pub(super) fn section(all: &[Bursts], order: &Run) -> Result<Section, Failure> {
    let mut section = Section::new("How many frames in a row are lost");
    let mut columns = vec![Column::text("losses"), Column::text("bursts")];
    columns.extend((1..=6).map(|k| Column::text(format!("at least {k}"))));
    columns.push(Column::text("longest"));
    let mut table = Table::new("bursts", columns).caption("Shares of bursts.");
    let mut series = Vec::new();
    for (number, bursts) in all.iter().enumerate() {
        order.step(number, all.len(), "bursts")?;
        let model = match bursts.mean {
            None => LossModel::Independent(bursts.loss),
            Some(mean) => LossModel::Bursty(Bursty::of(bursts.loss, mean)),
        };
        let random = Random::named(order.seed, "bursts");
        let lengths: [u64; LONGEST] = burst_lengths(model, order.share(bursts.frames), random);
        let shares = shares(&lengths);
        let mut row = vec![name(bursts).into(), lengths.iter().sum::<u64>().to_string().into()];
        row.extend((0..6).map(|at| short(shares[at]).into()));
        row.push(longest(&lengths).to_string().into());
        table = table.row(row);
        section.claims.extend(bursts.published.map(|published| judge(bursts, published, &shares)));
        let points: Vec<(f64, f64)> =
            (1..).zip(shares).filter(|(_, s)| *s > 0.0).map(|(k, s)| (f64::from(k), s)).collect();
        series.push(Series::new(name(bursts), &points));
    }
    let figure = Figure {
        name: "bursts".to_string(),
        title: "Bursts of at least so many frames".to_string(),
        caption: "Independent losses go on with their own probability: a straight line.".to_string(),
        plot: Plot::Lines {
            x: Axis::new("frames in a row", "", Scale::Linear),
            y: Axis::new("share of bursts", "", Scale::Log),
            series,
        },
    };
    Ok(section.block(Block::Table(table)).block(Block::Figure(figure)))
}

fn name(bursts: &Bursts) -> String {
    match bursts.mean {
        None => format!("{}, independent", short(bursts.loss)),
        Some(mean) => format!("{}, mean length {mean}", short(bursts.loss)),
    }
}

/// Shares of bursts of at least 1, 2, ... frames.
fn shares(lengths: &[u64; LONGEST]) -> [f64; LONGEST] {
    let all: u64 = lengths.iter().sum();
    std::array::from_fn(|at| lengths[at..].iter().sum::<u64>() as f64 / all.max(1) as f64)
}

fn longest(lengths: &[u64; LONGEST]) -> usize {
    lengths.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1)
}

fn judge(bursts: &Bursts, (published, most): (f64, usize), shares: &[f64; LONGEST]) -> Claim {
    let found = 1.0 - shares[most];
    // What is published is rounded to its last digit.
    let is_near = (found - published).abs() <= 1e-6;
    Claim {
        text: format!("{}: bursts of at most {most} frames", name(bursts)),
        source: "LinkGuardian, SIGCOMM 2023, Figure 20".to_string(),
        published: format!("{:.4} %", published * 100.0),
        measured: format!("{:.5} %", found * 100.0),
        verdict: if is_near { Verdict::Holds } else { Verdict::DoesNotHold },
        reason: "tolerated: the last published digit".to_string(),
    }
}
