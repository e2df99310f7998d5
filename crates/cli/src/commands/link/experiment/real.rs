//! Kernel TCP and memcached over a real link that loses frames, with and without protection.

mod counters;
mod report;
mod requests;
mod rig;
mod stream;

use super::Order as Run;
use super::judge::definition;
use crate::failure::Failure;
use karakoram_lab::error::LabError;
use karakoram_lab::random::Random;
use karakoram_lab::report::Report;
use karakoram_link::Mode;
use rig::{Rig, Weather};
use serde::Deserialize;
use stream::Transfer;

/// What `link-real` measures.
#[derive(Deserialize)]
pub(super) struct Definition {
    title: String,
    part: Vec<Part>,
}

/// Measurements that belong together, short enough for a quiet machine.
#[derive(Deserialize, Clone)]
pub(super) struct Part {
    pub(super) name: String,
    /// The congestion control of a bulk transfer; none: memcached is asked, one thing after the other.
    congestion: Option<String>,
    rounds: u64,
    /// Of a bulk transfer, and of one over the bare lossy link, which would take minutes.
    #[serde(default)]
    bytes: u64,
    #[serde(default)]
    unprotected_bytes: u64,
    /// Of memcached, in each round.
    #[serde(default)]
    requests: u64,
    weather: Weather,
    /// Least goodput, in percent of the loss-free link and in multiples of the unprotected one.
    #[serde(default)]
    least_percent: f64,
    #[serde(default)]
    least_times: f64,
}

/// What a link is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    LossFree,
    Unprotected,
    Ordered,
    NonBlocking,
}

impl Variant {
    const ALL: [Variant; 4] = [Variant::LossFree, Variant::Unprotected, Variant::Ordered, Variant::NonBlocking];

    fn name(self) -> &'static str {
        match self {
            Variant::LossFree => "loss-free",
            Variant::Unprotected => "unprotected",
            Variant::Ordered => "ordered",
            Variant::NonBlocking => "non-blocking",
        }
    }

    fn mode(self) -> Option<Mode> {
        match self {
            Variant::LossFree | Variant::Unprotected => None,
            Variant::Ordered => Some(Mode::Ordered),
            Variant::NonBlocking => Some(Mode::NonBlocking),
        }
    }

    fn is_lossy(self) -> bool {
        self != Variant::LossFree
    }
}

/// One variant in one round.
#[derive(Clone, Debug)]
struct Record {
    variant: Variant,
    round: u64,
    transfer: Option<Transfer>,
    /// Of requests, milliseconds, ascending.
    times_ms: Vec<f64>,
    link: rig::Figures,
    tcp: counters::Tcp,
}

/// The parts there are, or the one of that name.
pub(super) fn parts(name: Option<&str>) -> Result<Vec<Part>, Failure> {
    let definition: Definition = definition(include_str!("../../../../../../experiments/link-real/link.toml"));
    let known: Vec<String> = definition.part.iter().map(|p| p.name.clone()).collect();
    let chosen: Vec<Part> = definition.part.into_iter().filter(|p| name.is_none_or(|n| n == p.name)).collect();
    match chosen.is_empty() {
        true => Err(Failure::usage(format!("there is no such part; there are {}", known.join(", ")))),
        false => Ok(chosen),
    }
}

/// Measures a part.
pub(super) fn run(part: &Part, order: &Run) -> Result<Report, Failure> {
    let definition: Definition = definition(include_str!("../../../../../../experiments/link-real/link.toml"));
    let mut random = Random::new(order.seed);
    let (mut records, rounds) = (Vec::new(), order.share(part.rounds).max(1));
    let all = (rounds as usize) * Variant::ALL.len();
    for round in 0..rounds {
        let mut variants = Variant::ALL;
        random.shuffle(&mut variants);
        for variant in variants {
            order.step(records.len(), all, &format!("{}, round {}, {}", part.name, round + 1, variant.name()))?;
            let record = measure(part, variant, round, order).map_err(crate::commands::lab::failure)?;
            records.push(record);
        }
    }
    Ok(report::report(&definition.title, part, &records, order.seed))
}

/// Namespaces, a link and connections of its own.
fn measure(part: &Part, variant: Variant, round: u64, order: &Run) -> Result<Record, LabError> {
    let rig = Rig::build(&part.weather)?;
    let (mut transfer, mut times_ms) = (None, Vec::new());
    let link = rig.around(variant, order.seed * 1000 + round, || {
        match &part.congestion {
            Some(congestion) => {
                let bytes = if variant == Variant::Unprotected { part.unprotected_bytes } else { part.bytes };
                transfer = Some(stream::transfer(&rig, order.share(bytes), congestion)?);
            }
            None => times_ms = requests::ask(&rig, order.share(part.requests))?,
        }
        Ok(())
    })?;
    let tcp = rig.tcp_counters()?;
    Ok(Record { variant, round, transfer, times_ms, link, tcp })
}
