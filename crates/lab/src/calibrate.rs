//! What instructions and helpers take on this machine: programs with 100 to 4000 copies of one
//! instruction are run by the kernel's test run, and the slope of time over the number of copies is
//! its price. Whatever a run costs besides, call, return, loop around it, is in the intercept.
//!
//! Every instruction is measured twice: as a chain, each copy waiting for the one before, and as a
//! stream, over several registers. All programs are measured once in each round, so that a disturbed
//! stretch of time touches few samples of each; a price is the median over rounds.

mod sequences;

pub use sequences::{Kind, Sequence, sequences};

use crate::error::LabError;
use crate::statistics::{half_quartile_range, median, slope};
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::program::Program;
use karakoram_kernel::load::{self, LoadRequest, LoadedProgram};
use karakoram_kernel::map::{MapSet, MapSetOptions};
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
use std::collections::BTreeMap;

/// Copies of cheap instructions, and of calls.
const LENGTHS: [usize; 5] = [100, 500, 1000, 2000, 4000];
const LENGTHS_OF_CALLS: [usize; 4] = [25, 50, 100, 200];
/// Instructions (or calls, at [`CALL_WORTH`] each) that one sample runs.
const WORK: usize = 20_000_000;
const CALL_WORTH: usize = 40;
/// A packet that every program is run on.
const PACKET: [u8; 64] = [0; 64];

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds.
    pub rounds: usize,
    /// Instructions in a sample are divided by this.
    pub hurry: usize,
}

impl Plan {
    /// Some seconds.
    pub const QUICK: Plan = Plan { rounds: 5, hurry: 4 };
    /// About a minute.
    pub const FULL: Plan = Plan { rounds: 15, hurry: 2 };
}

/// A price, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Price {
    /// As a chain.
    pub chain_ns: f64,
    /// As a stream.
    pub stream_ns: f64,
    /// Half the interquartile range of the larger one over the rounds.
    pub spread_ns: f64,
}

/// A sequence in the kernel, in all its lengths.
struct Prepared {
    sequence: Sequence,
    programs: Vec<(usize, LoadedProgram)>,
    _maps: MapSet,
    /// A slope for each round.
    slopes: Vec<f64>,
}

/// Measures all sequences that this kernel takes; the others are named in the second part.
/// `is_interrupted` is asked between samples.
pub fn calibrate(
    plan: Plan,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(BTreeMap<String, Price>, Vec<String>), LabError> {
    let _pinned = pin_to_current_cpu();
    let (mut prepared, mut refused) = (Vec::new(), Vec::new());
    for sequence in sequences() {
        match prepare(&sequence) {
            Ok(one) => prepared.push(one),
            Err(why) => refused.push(format!("{}: {why}", sequence.name)),
        }
    }
    for _ in 0..plan.rounds {
        for one in &mut prepared {
            if is_interrupted() {
                return Err(LabError::Interrupted);
            }
            let slope = one.slope(plan.hurry)?;
            one.slopes.push(slope);
        }
    }
    Ok((prices(&prepared), refused))
}

fn prepare(sequence: &Sequence) -> Result<Prepared, String> {
    let lengths: &[usize] = if sequence.is_call { &LENGTHS_OF_CALLS } else { &LENGTHS };
    let program = (sequence.build)(1);
    let maps = MapSet::create(&program.maps, &MapSetOptions::default()).map_err(|e| e.to_string())?;
    for (map, contents) in maps.maps().iter().zip(&sequence.elements) {
        for (key, value) in contents {
            map.update(key, value).map_err(|e| e.to_string())?;
        }
    }
    let programs =
        lengths.iter().map(|n| Ok((*n, load(&(sequence.build)(*n), &maps)?))).collect::<Result<_, String>>()?;
    Ok(Prepared { sequence: sequence.clone(), programs, _maps: maps, slopes: Vec::new() })
}

fn load(program: &Program, maps: &MapSet) -> Result<LoadedProgram, String> {
    let slots = program.to_slots().map_err(|e| e.to_string())?;
    let request = LoadRequest::new("calibrate", ProgramType::XDP, &slots);
    load::load(&request.with_maps(maps)).map_err(|e| e.to_string())
}

impl Prepared {
    fn slope(&self, hurry: usize) -> Result<f64, LabError> {
        let mut points = Vec::new();
        for (length, program) in &self.programs {
            let worth = if self.sequence.is_call { CALL_WORTH } else { 1 };
            let repeat = (WORK / hurry / (length * worth)).max(10) as u32;
            points.push((*length as f64, time(program, repeat)?));
        }
        Ok(slope(&points))
    }
}

/// Nanoseconds of one run.
fn time(program: &LoadedProgram, repeat: u32) -> Result<f64, LabError> {
    let input = RunInput { repeat, ..RunInput::packet(program, PACKET.to_vec()) };
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    let ns = runner
        .run_timed(program, &input, &mut output)
        .map_err(|e| LabError::Machine(e.to_string(), "kara doctor says what this machine can do".into()))?;
    Ok(ns as f64 / f64::from(repeat))
}

/// Prices of what sequences are about: their slopes without the instructions that go with them.
fn prices(prepared: &[Prepared]) -> BTreeMap<String, Price> {
    let mut prices: BTreeMap<String, Price> = BTreeMap::new();
    for one in prepared {
        let with = one.sequence.with.iter().map(|(name, n)| *n as f64 * prices.get(*name).map_or(0.0, |p| p.stream_ns));
        let ns = (median(&one.slopes) - with.sum::<f64>()).max(0.0);
        let spread = half_quartile_range(&one.slopes);
        let price = prices.entry(one.sequence.name.to_string()).or_default();
        match one.sequence.kind {
            Kind::Chain => price.chain_ns = ns,
            Kind::Stream => price.stream_ns = ns,
            Kind::Both => (price.chain_ns, price.stream_ns) = (ns, ns),
        }
        price.spread_ns = price.spread_ns.max(spread);
    }
    prices
}
