//! `probe`: what one operation of a program costs (Tables 3, 5 and 6 of "Demystifying Performance of eBPF
//! Network Applications"): lookups, helpers, calls, loops, copies.
//!
//! The kernel's test run gives whole nanoseconds and costs some itself. So the programs
//! (`programs/lab/probes.c`) do the operation a given number of times, and the price is the slope of the
//! processor time of a run over that number. That all of them were done is checked.

use crate::error::LabError;
use crate::object::{self, Loaded};
use crate::programs::{self, Build};
use crate::random::Random;
use crate::statistics::slope;
use crate::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use karakoram_bpf::map::MapType;
use karakoram_kernel::error::KernelError;
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
use serde::Deserialize;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// The kind.
pub struct Probe;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    /// Name of the program.
    operation: String,
    #[serde(default)]
    build: Build,
    /// How often it is done in one run.
    #[serde(default = "counts")]
    counts: Vec<u32>,
    /// Time for each of the counts.
    #[serde(default = "sample_ms")]
    sample_ms: u64,
    /// Samples of each of the counts.
    #[serde(default = "samples")]
    samples: usize,
}

fn counts() -> Vec<u32> {
    vec![0, 250, 500, 1000]
}
fn sample_ms() -> u64 {
    10
}
fn samples() -> usize {
    3
}

/// Runs in one system call.
const FEWEST_RUNS: u32 = 100;
const MOST_RUNS: u32 = 20_000_000;
/// XDP_PASS.
const DONE: u32 = 2;
/// Places of the numbers in `struct work`.
const TIMES: usize = 0;
const DONE_AT: usize = 4;
const WORK_BYTES: usize = 24;

impl Kind for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        if plan.counts.len() < 2 || plan.samples == 0 {
            return Err(LabError::Request("`probe` needs two counts or more, and a sample".into()));
        }
        let object = programs::build(workshop, "lab/probes", plan.build)?;
        programs::entry(&object, Some(&plan.operation))?;
        Ok(Box::new(Prepared { plan, object }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let loaded = object::load(&self.object, &[&self.plan.operation])?;
        let program = loaded.program(&self.plan.operation);
        fill(&loaded, program)?;
        let _pinned = pin_to_current_cpu();
        let mut order: Vec<u32> = self.plan.counts.repeat(self.plan.samples);
        Random::new(request.seed).shuffle(&mut order);
        let mut points = Vec::new();
        for count in order {
            if (request.is_interrupted)() {
                return Err(LabError::Interrupted);
            }
            points.push((f64::from(count), self.time(&loaded, program, count)?));
        }
        let cost = slope(&points);
        let fixed = points.iter().map(|(count, ns)| ns - cost * count).sum::<f64>() / points.len() as f64;
        let mut outcome = Outcome::default();
        outcome.samples.push(Samples::one("cost", "ns", cost));
        outcome.samples.push(Samples::one("fixed", "ns", fixed));
        if let Ok(info) = program.info(false) {
            outcome.notes.insert("program".into(), format!("{} bytes of machine code", info.jited_len));
        }
        Ok(outcome)
    }
}

impl Prepared {
    /// Time of one run that does the operation `count` times, in ns.
    fn time(&self, loaded: &Loaded, program: &LoadedProgram, count: u32) -> Result<f64, LabError> {
        let mut work = [0; WORK_BYTES];
        work[TIMES..TIMES + 4].copy_from_slice(&count.to_ne_bytes());
        let memory = loaded.mapping("work")?;
        memory.write(0, &work).map_err(|e| failed(&e))?;
        let (mut runner, mut output) = (Runner::default(), RunOutput::default());
        let mut input = RunInput::packet(program, vec![0; 64]);
        // Long enough that entering the system call, once for all runs, does not matter.
        let wanted_ns = self.plan.sample_ms * 1_000_000;
        input.repeat = FEWEST_RUNS;
        let mut spent = runner.run_timed(program, &input, &mut output).map_err(machine)?;
        while spent < wanted_ns / 2 && input.repeat < MOST_RUNS {
            let factor = (wanted_ns / spent.max(1)).clamp(2, 50) as u32;
            input.repeat = input.repeat.saturating_mul(factor).min(MOST_RUNS);
            spent = runner.run_timed(program, &input, &mut output).map_err(machine)?;
        }
        memory.read(0, &mut work).map_err(|e| failed(&e))?;
        let done = u32::from_ne_bytes(work[DONE_AT..DONE_AT + 4].try_into().expect("four bytes"));
        if output.retval != DONE || done != count {
            return Err(failed(&format!("it was to be done {count} times, and was {done} times")));
        }
        Ok(spent as f64 / f64::from(input.repeat))
    }
}

/// Every key that is looked up exists, and a chain of calls leads to the program itself.
fn fill(loaded: &Loaded, program: &LoadedProgram) -> Result<(), LabError> {
    const TABLES: [MapType; 4] = [MapType::HASH, MapType::PERCPU_HASH, MapType::LRU_HASH, MapType::LRU_PERCPU_HASH];
    for map in loaded.maps() {
        for key in 0..map.def().max_entries {
            let key = key.to_ne_bytes();
            match map.def().kind {
                MapType::PROG_ARRAY => map.update_fd(&key, program.as_fd()).map_err(machine)?,
                kind if TABLES.contains(&kind) => map.update(&key, &1u64.to_ne_bytes()).map_err(machine)?,
                _ => break,
            }
        }
    }
    Ok(())
}

fn machine(error: KernelError) -> LabError {
    LabError::Machine(error.to_string(), "`kara doctor` says what this machine permits".into())
}

fn failed(why: &dyn std::fmt::Display) -> LabError {
    LabError::Machine(format!("could not measure the operation: {why}"), String::new())
}
