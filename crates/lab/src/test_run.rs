//! How long runs of a program take, in the kernel's test run.
//!
//! A trial loads its version anew, so that where the kernel happens to place its code is part of what
//! varies. All versions are in the kernel at the same time and take turns every millisecond or so: what the
//! machine does to one it does to the others. Everything is counted: nothing is subtracted for the loop around the program.

use crate::error::LabError;
use crate::statistics::middle_mean;
use crate::trial::{Outcome, Request, SliceValues, Sliced, Slices};
use karakoram_kernel::error::KernelError;
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
use serde::Serialize;
use std::rc::Rc;

/// Runs of one call in a batch for each call of a single run, so that both take about as long.
const BATCH_FOR_SINGLE: u32 = 20;
/// Fewest calls of single runs.
const FEWEST_SINGLE: u32 = 100;
/// Fewest runs in a slice, and most slices: the kernel takes some milliseconds to prepare and to end a call.
const FEWEST_IN_SLICE: u32 = 10_000;
const MOST_SLICES: u32 = 16;

/// A version of a program that can be loaded again and again.
pub trait Version {
    /// Loads it, with what its maps hold before the first run.
    fn load(&self) -> Result<Box<dyn InKernel>, LabError>;
}

/// A version in the kernel.
pub trait InKernel {
    /// The program.
    fn program(&self) -> &LoadedProgram;
    /// Puts into its maps what a case asks for.
    fn set(&self, case: usize) -> Result<(), LabError>;
    /// What a case runs on.
    fn input(&self, case: usize) -> RunInput;
    /// The packet as the program left it.
    fn packet_after<'a>(&self, output: &'a RunOutput) -> &'a [u8];
}

/// One input.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its packet.
    pub packet: Vec<u8>,
    /// What the program must return for it.
    pub returns: Option<u64>,
    /// Whether it is timed; others are run once in their place.
    pub is_measured: bool,
}

/// How runs on an input are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Many runs in one call: processor time of the thread over their number.
    Batch,
    /// One run in each call, because it changes its packet and the next would find another: the
    /// kernel's own clock, whose reading is part of the time; the mean of the middle half.
    Single,
}

/// What all versions run on, and how each input is timed.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The inputs with the way to time each.
    pub cases: Vec<(Case, Way)>,
    /// Runs on each input in a trial.
    pub repeat: u32,
    /// What the versions return on the first input that is measured.
    pub returns: u64,
}

impl Plan {
    /// Runs every version once on everything: they must agree. How to time each input is found out too.
    pub fn find(versions: &[&dyn Version], cases: Vec<Case>, repeat: u32) -> Result<Plan, LabError> {
        let once = versions.iter().map(|v| v.load()).collect::<Result<Vec<_>, _>>()?;
        let often = versions.first().ok_or_else(|| LabError::Request("there is no version".into()))?.load()?;
        let mut plan = Plan { cases: Vec::new(), repeat, returns: 0 };
        let mut is_first = true;
        for (place, case) in cases.into_iter().enumerate() {
            let (way, returns) = way(place, &case, &once, often.as_ref())?;
            if case.is_measured && std::mem::take(&mut is_first) {
                plan.returns = returns;
            }
            plan.cases.push((case, way));
        }
        Ok(plan)
    }
}

/// How to time a case, and what it returns.
fn way(place: usize, case: &Case, once: &[Box<dyn InKernel>], often: &dyn InKernel) -> Result<(Way, u64), LabError> {
    once.iter().map(AsRef::as_ref).chain([often]).try_for_each(|l| l.set(place))?;
    let outputs = once.iter().map(|l| run(l.as_ref(), place, 1)).collect::<Result<Vec<_>, _>>()?;
    let first = &outputs[0];
    let is_same = |o: &RunOutput| (o.retval, &o.data) == (first.retval, &first.data);
    if let Some(expected) = case.returns.filter(|r| *r != u64::from(first.retval)) {
        let got = first.retval;
        return Err(LabError::Request(format!("{}: it returned {got}, not {expected}", case.name)));
    }
    if !outputs.iter().all(is_same) {
        return Err(LabError::Request(format!("{}: the two versions do not do the same", case.name)));
    }
    let again = run(often, place, 3)?;
    let is_steady = once[0].packet_after(first) == case.packet && is_same(&again) && again.ctx == first.ctx;
    Ok((if is_steady { Way::Batch } else { Way::Single }, u64::from(first.retval)))
}

/// Trials of one version: `ns` of each input, named as the input.
pub struct TestRun {
    version: Rc<dyn Version>,
    plan: Rc<Plan>,
}

impl TestRun {
    /// Trials of a version on the inputs of a plan.
    pub fn new(version: Rc<dyn Version>, plan: Rc<Plan>) -> TestRun {
        TestRun { version, plan }
    }
}

impl Sliced for TestRun {
    fn begin(&self, _: &Request) -> Result<Box<dyn Slices>, LabError> {
        let loaded = self.version.load()?;
        let measured = self.plan.cases.iter().filter(|(case, _)| case.is_measured);
        let times = measured.map(|(case, _)| SliceValues::new(&case.name, "ns")).collect();
        Ok(Box::new(Loaded { plan: self.plan.clone(), loaded, times, left: self.plan.slices() }))
    }
}

impl Plan {
    /// Slices of a trial: as many as leave each enough runs that the system call around them is no matter.
    fn slices(&self) -> u32 {
        (self.repeat / FEWEST_IN_SLICE).clamp(1, MOST_SLICES)
    }
}

/// A version under way.
struct Loaded {
    plan: Rc<Plan>,
    loaded: Box<dyn InKernel>,
    times: Vec<SliceValues>,
    left: u32,
}

impl Slices for Loaded {
    fn next(&mut self, request: &Request) -> Result<bool, LabError> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let _pinned = pin_to_current_cpu();
        let repeat = self.plan.repeat / self.plan.slices();
        let mut times = self.times.iter_mut();
        for (place, (case, way)) in self.plan.cases.iter().enumerate() {
            request.check()?;
            self.loaded.set(place)?;
            if !case.is_measured {
                run(self.loaded.as_ref(), place, 1)?;
                continue;
            }
            let ns = time(self.loaded.as_ref(), place, *way, repeat)?;
            times.next().expect("one for each measured case").values.push(ns);
        }
        Ok(self.left > 0)
    }

    fn finish(self: Box<Self>, _: &Request) -> Result<Outcome, LabError> {
        Ok(Outcome { slices: self.times, ..Outcome::default() })
    }
}

fn run(loaded: &dyn InKernel, case: usize, repeat: u32) -> Result<RunOutput, LabError> {
    let mut output = RunOutput::default();
    let input = RunInput { repeat, ..loaded.input(case) };
    Runner::default().run(loaded.program(), &input, &mut output).map_err(|e| failed(&e))?;
    Ok(output)
}

/// One time in nanoseconds.
fn time(loaded: &dyn InKernel, case: usize, way: Way, repeat: u32) -> Result<f64, LabError> {
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    let mut input = loaded.input(case);
    if way == Way::Batch {
        input.repeat = repeat;
        let spent = runner.run_timed(loaded.program(), &input, &mut output).map_err(|e| failed(&e))?;
        return Ok(spent as f64 / f64::from(repeat.max(1)));
    }
    // The first call finds cold buffers.
    runner.run(loaded.program(), &input, &mut output).map_err(|e| failed(&e))?;
    let calls = (repeat / BATCH_FOR_SINGLE).max(FEWEST_SINGLE);
    let mut ns = Vec::with_capacity(calls as usize);
    for _ in 0..calls {
        runner.run(loaded.program(), &input, &mut output).map_err(|e| failed(&e))?;
        ns.push(f64::from(output.duration_ns));
    }
    Ok(middle_mean(&ns))
}

fn failed(error: &KernelError) -> LabError {
    LabError::Machine(error.to_string(), "kara doctor says what this machine can do".into())
}
