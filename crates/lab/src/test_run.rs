//! How long runs of a program take, in the kernel's test run.
//!
//! A trial loads its version anew, so that where the kernel happens to place its code is part of what
//! varies. All versions are in the kernel at the same time and run on one processor, each in a thread of its own
//! whose time is counted; the scheduler changes between them every few milliseconds, so that what the machine
//! does to one it does to the others. Everything is counted: what the loop around the program takes is what a
//! version that does nothing takes ([`Nothing`]).

mod nothing;
mod restore;

use crate::error::LabError;
use crate::repeats::lasting;
use crate::statistics::middle_mean;
use crate::trial::{Outcome, Request, SliceValues, Sliced, Slices};
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
pub use nothing::Nothing;
use restore::{Restore, Restoring};
use serde::Serialize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Runs of one call in a batch for each call of a single run, so that both take about as long.
const BATCH_FOR_SINGLE: u32 = 20;
/// Fewest calls of single runs.
const FEWEST_SINGLE: u32 = 100;
/// Slices of a trial, and what one takes where nothing else is asked for. The kernel takes a third of a millisecond
/// of processor time for a call, and tens of milliseconds until it has waited for others.
const SLICES: u32 = 8;
const SLICE_NS: u64 = 30_000_000;
/// Fewest runs in a slice, where their number is asked for.
const FEWEST_IN_SLICE: u32 = 10_000;

/// A version of a program that can be loaded again and again.
pub trait Version {
    /// Loads it, with what its maps hold before the first run.
    fn load(&self) -> Result<Box<dyn InKernel>, LabError>;
}

/// A version in the kernel.
pub trait InKernel: Send {
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
    /// The same for a run that changes its packet or context: a program before it puts back what it changes, and
    /// that is part of the time.
    Restored,
    /// One run in each call, because what it changes cannot be put back: the kernel's own clock, whose reading is
    /// part of the time; the mean of the middle half.
    Single,
}

/// What all versions run on, and how each input is timed.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The inputs.
    pub cases: Vec<PlannedCase>,
    /// Slices of a trial.
    slices: u32,
    /// What the versions return on the first input that is measured.
    pub returns: u64,
}

/// An input with how it is timed.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedCase {
    /// The input.
    pub case: Case,
    /// The way.
    pub way: Way,
    /// Runs in a slice.
    pub repeat: u32,
    /// What is put back before each run, for [`Way::Restored`].
    restore: Option<Restore>,
    returns: u64,
}

impl Plan {
    /// Runs every version once on everything: they must agree. How to time each input is found out too.
    /// `repeat` is how many runs of each input a trial has; as many as take about a tenth of a second, if
    /// nothing is said.
    pub fn find(versions: &[&dyn Version], cases: Vec<Case>, repeat: Option<u32>) -> Result<Plan, LabError> {
        let once = versions.iter().map(|v| v.load()).collect::<Result<Vec<_>, _>>()?;
        let often = versions.first().ok_or_else(|| LabError::Request("there is no version".into()))?.load()?;
        let slices = repeat.map_or(SLICES, |runs| (runs / FEWEST_IN_SLICE).clamp(1, SLICES));
        let planned = cases.into_iter().enumerate();
        let planned = planned.map(|(place, case)| {
            let mut one = planned_case(place, case, &once, often.as_ref())?;
            one.repeat = match repeat {
                Some(runs) if one.way == Way::Single => (runs / slices / BATCH_FOR_SINGLE).max(FEWEST_SINGLE),
                Some(runs) => runs / slices,
                None if one.case.is_measured => one.repeat_for(place, often.as_ref())?,
                None => 1,
            };
            Ok(one)
        });
        let cases = planned.collect::<Result<Vec<_>, LabError>>()?;
        let returns = cases.iter().find(|one| one.case.is_measured).map_or(0, |one| one.returns);
        Ok(Plan { cases, slices, returns })
    }
}

/// How to time a case.
fn planned_case(
    place: usize,
    case: Case,
    once: &[Box<dyn InKernel>],
    often: &dyn InKernel,
) -> Result<PlannedCase, LabError> {
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
    let is_alike = |o: &RunOutput| is_same(o) && o.ctx == first.ctx;
    let is_steady = once[0].packet_after(first) == case.packet && is_alike(&run(often, place, 3)?);
    let restores = || -> Option<Restore> {
        let input = often.input(place);
        let after = once[0].packet_after(first);
        let ways = Restore::candidates(often.program().prog_type, &input, after, &first.ctx);
        ways.into_iter().find(|restore| {
            let Ok(before) = restore.before(often.program()) else { return false };
            let of = |repeat| run_program(before.program(), RunInput { repeat, ..input.clone() });
            // An even and an odd number: what is done twice may undo itself.
            [2, 3].into_iter().all(|repeat| of(repeat).is_ok_and(|o| is_alike(&o)))
        })
    };
    let restore = if is_steady || !case.is_measured { None } else { restores() };
    let way = match restore {
        _ if is_steady => Way::Batch,
        Some(_) => Way::Restored,
        None => Way::Single,
    };
    Ok(PlannedCase { case, way, repeat: 1, restore, returns: u64::from(first.retval) })
}

impl PlannedCase {
    /// Runs that a slice has room for.
    fn repeat_for(&self, place: usize, often: &dyn InKernel) -> Result<u32, LabError> {
        often.set(place)?;
        if self.way == Way::Single {
            const TRIED: u32 = 200;
            let start = Instant::now();
            self.time(place, often, None, TRIED)?;
            let each = start.elapsed().as_nanos() as u64 / u64::from(TRIED);
            return Ok((SLICE_NS / each.max(1)).clamp(FEWEST_SINGLE.into(), u32::MAX.into()) as u32);
        }
        let before = self.before(often)?;
        lasting(SLICE_NS, |repeat| {
            let each = self.time(place, often, before.as_ref(), repeat)?;
            Ok((each * f64::from(repeat)) as u64)
        })
    }

    /// The program that puts back what this one changes.
    fn before(&self, loaded: &dyn InKernel) -> Result<Option<Restoring>, LabError> {
        let before = |restore: &Restore| restore.before(loaded.program());
        self.restore.as_ref().map(before).transpose().map_err(|e| failed(&e))
    }

    /// One time in nanoseconds.
    fn time(
        &self,
        place: usize,
        loaded: &dyn InKernel,
        before: Option<&Restoring>,
        repeat: u32,
    ) -> Result<f64, LabError> {
        let (mut runner, mut output) = (Runner::default(), RunOutput::default());
        let mut input = loaded.input(place);
        if self.way != Way::Single {
            input.repeat = repeat;
            let program = before.map_or(loaded.program(), Restoring::program);
            let spent = runner.run_timed(program, &input, &mut output).map_err(|e| failed(&e))?;
            return Ok(spent as f64 / f64::from(repeat.max(1)));
        }
        // The first call finds cold buffers.
        runner.run(loaded.program(), &input, &mut output).map_err(|e| failed(&e))?;
        let mut ns = Vec::with_capacity(repeat as usize);
        for _ in 0..repeat {
            runner.run(loaded.program(), &input, &mut output).map_err(|e| failed(&e))?;
            ns.push(f64::from(output.duration_ns));
        }
        Ok(middle_mean(&ns))
    }
}

/// Trials of one version: `ns` of each input, named as the input.
pub struct TestRun {
    version: Rc<dyn Version>,
    plan: Arc<Plan>,
}

impl TestRun {
    /// Trials of a version on the inputs of a plan.
    pub fn new(version: Rc<dyn Version>, plan: Arc<Plan>) -> TestRun {
        TestRun { version, plan }
    }
}

impl Sliced for TestRun {
    fn begin(&self, _: &Request) -> Result<Box<dyn Slices>, LabError> {
        let loaded = self.version.load()?;
        let before = self.plan.cases.iter().map(|one| one.before(loaded.as_ref())).collect::<Result<_, _>>()?;
        let measured = self.plan.cases.iter().filter(|one| one.case.is_measured);
        let times = measured.map(|one| SliceValues::new(&one.case.name, "ns")).collect();
        Ok(Box::new(Loaded { plan: self.plan.clone(), loaded, before, times, left: self.plan.slices }))
    }
}

/// A version under way.
struct Loaded {
    plan: Arc<Plan>,
    loaded: Box<dyn InKernel>,
    /// For each input, what puts back what it changes.
    before: Vec<Option<Restoring>>,
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
        let mut times = self.times.iter_mut();
        for (place, one) in self.plan.cases.iter().enumerate() {
            request.check()?;
            self.loaded.set(place)?;
            if !one.case.is_measured {
                run(self.loaded.as_ref(), place, 1)?;
                continue;
            }
            let ns = one.time(place, self.loaded.as_ref(), self.before[place].as_ref(), one.repeat)?;
            times.next().expect("one for each measured case").values.push(ns);
        }
        Ok(self.left > 0)
    }

    fn alongside(&mut self) -> Option<&mut (dyn Slices + Send)> {
        Some(self)
    }

    fn finish(self: Box<Self>, _: &Request) -> Result<Outcome, LabError> {
        Ok(Outcome { slices: self.times, ..Outcome::default() })
    }
}

fn run(loaded: &dyn InKernel, case: usize, repeat: u32) -> Result<RunOutput, LabError> {
    run_program(loaded.program(), RunInput { repeat, ..loaded.input(case) })
}

fn run_program(program: &LoadedProgram, input: RunInput) -> Result<RunOutput, LabError> {
    let mut output = RunOutput::default();
    Runner::default().run(program, &input, &mut output).map_err(|e| failed(&e))?;
    Ok(output)
}

fn failed(error: &dyn std::fmt::Display) -> LabError {
    LabError::Machine(error.to_string(), "kara doctor says what this machine can do".into())
}
