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
use crate::repeats::lasting;
use crate::statistics::slope;
use crate::trial::{Kind, Outcome, Parameters, Request, SliceValues, Sliced, Slices, Trial, Workshop};
use karakoram_bpf::map::MapType;
use karakoram_kernel::error::KernelError;
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
use serde::Deserialize;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

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
    /// Time for a slice, in which each of the counts is measured. The kernel takes a third of a millisecond of
    /// processor time for a call, which should be next to nothing of it.
    #[serde(default = "slice_us")]
    slice_us: u64,
    /// Slices of a trial.
    #[serde(default = "slices")]
    slices: usize,
}

fn counts() -> Vec<u32> {
    vec![0, 500, 1000]
}
fn slice_us() -> u64 {
    60_000
}
fn slices() -> usize {
    6
}

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
        if plan.counts.len() < 2 || plan.slices == 0 {
            return Err(LabError::Request("`probe` needs two counts or more, and a slice".into()));
        }
        let object = programs::build(workshop, "lab/probes", plan.build)?;
        programs::entry(&object, Some(&plan.operation))?;
        let repeats = Arc::new(Mutex::new(vec![0; plan.counts.len()]));
        Ok(Box::new(Prepared { plan, object, repeats }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
    /// Runs in one system call, for each of the counts; 0 is not known yet. Each call waits for the kernel for
    /// tens of milliseconds, so all trials use what the first one found.
    repeats: Arc<Mutex<Vec<u32>>>,
}

impl Sliced for Prepared {
    fn begin(&self, request: &Request) -> Result<Box<dyn Slices>, LabError> {
        let loaded = object::load(&self.object, &[&self.plan.operation])?;
        fill(&loaded, loaded.program(&self.plan.operation))?;
        let (cost, fixed) = (SliceValues::new("cost", "ns"), SliceValues::new("fixed", "ns"));
        let random = Random::new(request.seed);
        let (plan, repeats) = (self.plan.clone(), self.repeats.clone());
        Ok(Box::new(Probing { plan, loaded, random, repeats, cost, fixed }))
    }
}

/// A probe under way; each slice gives a slope.
struct Probing {
    plan: Plan,
    loaded: Loaded,
    random: Random,
    repeats: Arc<Mutex<Vec<u32>>>,
    cost: SliceValues,
    fixed: SliceValues,
}

impl Slices for Probing {
    fn next(&mut self, request: &Request) -> Result<bool, LabError> {
        let _pinned = pin_to_current_cpu();
        let mut order: Vec<usize> = (0..self.plan.counts.len()).collect();
        self.random.shuffle(&mut order);
        let mut points = Vec::new();
        for place in order {
            request.check()?;
            points.push((f64::from(self.plan.counts[place]), self.time(place)?));
        }
        let cost = slope(&points);
        self.cost.values.push(cost);
        self.fixed.values.push(points.iter().map(|(count, ns)| ns - cost * count).sum::<f64>() / points.len() as f64);
        Ok(self.cost.values.len() < self.plan.slices)
    }

    fn alongside(&mut self) -> Option<&mut (dyn Slices + Send)> {
        Some(self)
    }

    fn finish(self: Box<Self>, _: &Request) -> Result<Outcome, LabError> {
        let mut outcome = Outcome { slices: vec![self.cost, self.fixed], ..Outcome::default() };
        if let Ok(info) = self.loaded.program(&self.plan.operation).info(false) {
            outcome.notes.insert("program".into(), format!("{} bytes of machine code", info.jited_len));
        }
        Ok(outcome)
    }
}

impl Probing {
    /// Time of one run that does the operation `count` times, in ns.
    fn time(&self, place: usize) -> Result<f64, LabError> {
        let count = self.plan.counts[place];
        let mut work = [0; WORK_BYTES];
        work[TIMES..TIMES + 4].copy_from_slice(&count.to_ne_bytes());
        self.loaded.mapping("work")?.write(0, &work).map_err(|e| failed(&e))?;
        let repeat = match self.repeat(place, None) {
            0 => {
                let wanted_ns = self.plan.slice_us * 1000 / self.plan.counts.len() as u64;
                lasting(wanted_ns, |repeat| self.spend(repeat).map(|(spent, _)| spent))?
            }
            known => known,
        };
        self.repeat(place, Some(repeat));
        let (spent, output) = self.spend(repeat)?;
        self.loaded.mapping("work")?.read(0, &mut work).map_err(|e| failed(&e))?;
        let done = u32::from_ne_bytes(work[DONE_AT..DONE_AT + 4].try_into().expect("four bytes"));
        if output.retval != DONE || done != count {
            return Err(failed(&format!("it was to be done {count} times, and was {done} times")));
        }
        Ok(spent as f64 / f64::from(repeat))
    }

    /// Runs in a call, which may be set.
    fn repeat(&self, place: usize, found: Option<u32>) -> u32 {
        let mut repeats = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
        repeats[place] = found.unwrap_or(repeats[place]);
        repeats[place]
    }

    fn spend(&self, repeat: u32) -> Result<(u64, RunOutput), LabError> {
        let program = self.loaded.program(&self.plan.operation);
        let mut output = RunOutput::default();
        let input = RunInput { repeat, ..RunInput::packet(program, vec![0; 64]) };
        let spent = Runner::default().run_timed(program, &input, &mut output).map_err(machine)?;
        Ok((spent, output))
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
