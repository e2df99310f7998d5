//! `bmc-times`: how long the programs run for each kind of packet, in the kernel's test run. Requests that
//! are answered change their packet, and writes what is known, so each run is a call of its own; a trial
//! goes through all kinds again and again, as they follow one another in life. Of each kind's median that
//! of a program that does nothing is taken away: the kernel's clock and the call are in both. A packet for
//! others changes nothing and takes less than that clock can tell, so it comes a thousand times in a call,
//! in turns with the program that does nothing.

use super::{ANSWER, LEARN, PROGRAMS, packets};
use crate::programs::{Compiled, InKernel, Source};
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
use karakoram_lab::error::LabError;
use karakoram_lab::object::{self, Loaded};
use karakoram_lab::programs::{self, Build};
use karakoram_lab::statistics::{mean, median, middle_mean};
use karakoram_lab::trial::{Kind, Outcome, Parameters, Request, Samples, SliceValues, Sliced, Slices, Trial, Workshop};
use serde::Deserialize;
use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

/// The kind.
pub struct Times;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    source: Source,
    /// How often each kind of packet comes.
    #[serde(default = "repeat")]
    repeat: u32,
}

fn repeat() -> u32 {
    2000
}

const PASS: u32 = 2;
const TX: u32 = 3;
const KEY: &str = "k00000000000001";
const FOUR: &str = "k0000000000000a k0000000000000b k0000000000000c k0000000000000d";

/// Of what comes over TCP the extension does more: it keeps track of connections.
const DIFFERENT: [&str; 2] = ["set", "stored"];

/// Packets that change nothing in a call: so many that what the call takes by itself, a third of a millisecond, is no
/// matter.
const BATCH: u32 = 100_000;
/// Repetitions of all others for such a call: several in a slice, of which one may be disturbed.
const REPETITIONS_OF_A_BATCH: u32 = 20;
/// Repetitions in a slice.
const REPETITIONS_OF_A_SLICE: u32 = 100;

/// A step of what is repeated: at which program, which packet, what it must return, and under which name
/// its time is kept.
struct Step {
    program: &'static str,
    packet: Vec<u8>,
    returns: u32,
    name: Option<&'static str>,
}

impl Kind for Times {
    fn name(&self) -> &'static str {
        "bmc-times"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let compiled = plan.source.compile("bmc", workshop)?;
        let nothing = object::load(&programs::build(workshop, "bmc/nothing", Build::Original)?, &PROGRAMS)?;
        Ok(Box::new(Prepared { plan, compiled, nothing: Rc::new(nothing) }))
    }
}

struct Prepared {
    plan: Plan,
    compiled: Compiled,
    nothing: Rc<Loaded>,
}

impl Sliced for Prepared {
    fn begin(&self, _: &Request) -> Result<Box<dyn Slices>, LabError> {
        let started = Instant::now();
        let loaded = self.compiled.load(&PROGRAMS)?;
        let load_ms = started.elapsed().as_secs_f64() * 1e3;
        let (nothing, repeat) = (self.nothing.clone(), self.plan.repeat);
        Ok(Box::new(Measuring { loaded, load_ms, nothing, repeat, done: 0, times: Vec::new(), void: None }))
    }
}

/// A trial under way.
struct Measuring {
    loaded: InKernel,
    load_ms: f64,
    nothing: Rc<Loaded>,
    repeat: u32,
    /// Repetitions so far.
    done: u32,
    times: Vec<SliceValues>,
    void: Option<String>,
}

impl Measuring {
    fn keep(&mut self, name: &str, ns: f64) {
        match self.times.iter_mut().find(|t| t.name == name) {
            Some(known) => known.values.push(ns),
            None => self.times.push(SliceValues { values: vec![ns], ..SliceValues::new(name, "ns") }),
        }
    }
}

impl Slices for Measuring {
    fn next(&mut self, request: &Request) -> Result<bool, LabError> {
        // Not before: loading uses all processors that it finds.
        let _pinned = pin_to_current_cpu();
        let until = (self.done + REPETITIONS_OF_A_SLICE).min(self.repeat);
        let measured = measure(&self.loaded, &self.nothing, self.done..until, request.is_interrupted)?;
        self.done = until;
        self.void = self.void.take().or_else(|| measured.complaint());
        if let Some(together) = measured.together() {
            self.keep("together", together);
        }
        measured.kinds.into_iter().for_each(|(name, ns)| self.keep(name, ns));
        Ok(self.done < self.repeat)
    }

    fn finish(self: Box<Self>, _: &Request) -> Result<Outcome, LabError> {
        let void = self.loaded.complaint(&PROGRAMS).or(self.void);
        let verified = verified(&self.loaded)?;
        let samples =
            vec![Samples::one("load", "ms", self.load_ms), Samples::one("verified", "instructions", verified)];
        Ok(Outcome { samples, slices: self.times, void, ..Outcome::default() })
    }
}

/// Times by the kernel's clock, in nanoseconds.
pub struct Measured {
    /// Of each kind of packet, less what nothing takes.
    pub kinds: Vec<(&'static str, f64)>,
}

impl Measured {
    /// The geometric mean of the kinds that all programs do the same for; `None` when one of them has none.
    pub fn together(&self) -> Option<f64> {
        let same = self.kinds.iter().filter(|(name, _)| !DIFFERENT.contains(name));
        let logarithms: Option<Vec<f64>> = same.map(|(_, ns)| (*ns > 0.0).then(|| ns.ln())).collect();
        Some(mean(&logarithms?).exp())
    }

    /// Why nothing may be concluded from them.
    pub fn complaint(&self) -> Option<String> {
        let (name, _) = self.kinds.iter().find(|(_, ns)| *ns <= 0.0)?;
        Some(format!("{name}: it took no longer than a program that does nothing, so of its time nothing can be said"))
    }
}

/// Goes through all kinds of packets, with those numbers; the first has the number 0.
pub fn measure(
    loaded: &InKernel,
    nothing: &Loaded,
    numbers: Range<u32>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Measured, LabError> {
    let mut times: Vec<(&'static str, Vec<f64>)> = Vec::new();
    let mut run = Run::default();
    let repeat = numbers.len() as u32;
    for n in numbers {
        if is_interrupted() {
            return Err(LabError::Interrupted);
        }
        for step in steps(n) {
            let ns = run.one(loaded.program(step.program), &step)?;
            let Some(name) = step.name else { continue };
            match times.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(ns),
                None => times.push((name, vec![ns])),
            }
        }
    }
    let step = Step { program: ANSWER, packet: packets::other(), returns: PASS, name: None };
    let (program, empty) = (loaded.program(step.program), nothing.program(step.program));
    let more = (0..repeat.div_ceil(REPETITIONS_OF_A_BATCH)).map(|_| run.batch_over(program, empty, &step));
    let other = median(&more.collect::<Result<Vec<_>, _>>()?);
    let idle = (0..repeat).map(|_| run.one(empty, &step));
    let nothing = middle_mean(&idle.collect::<Result<Vec<_>, _>>()?);
    let kinds = times.iter().map(|(name, all)| (*name, middle_mean(all) - nothing));
    Ok(Measured { kinds: kinds.chain([("other", other)]).collect() })
}

/// Instructions that the verifier looked at, of all programs.
fn verified(loaded: &InKernel) -> Result<f64, LabError> {
    let one = |name: &&str| {
        let info = loaded.program(name).info(false);
        info.map(|i| f64::from(i.verified_insns)).map_err(|e| LabError::Machine(e.to_string(), String::new()))
    };
    PROGRAMS.iter().map(one).sum()
}

/// What happens in the n-th repetition. Every value is written, asked for in vain, learnt and answered.
fn steps(n: u32) -> Vec<Step> {
    let answer = |name, packet, returns| Step { program: ANSWER, packet, returns, name };
    let learn = |name, packet| Step { program: LEARN, packet, returns: 0, name };
    let mut steps = vec![
        answer(Some("set"), packets::set(n, KEY, 32), PASS),
        learn(Some("stored"), packets::stored()),
        answer(Some("miss"), packets::get(KEY), PASS),
        learn(Some("learn 32"), packets::reply(KEY, 32)),
        answer(Some("hit 32"), packets::get(KEY), TX),
        answer(None, packets::other(), PASS),
    ];
    for (key, bytes, name) in [("k00000000000256", 256, "hit 256"), ("k00000000001000", 1000, "hit 1000")] {
        if n == 0 {
            steps.push(answer(None, packets::get(key), PASS));
            steps.push(learn(None, packets::reply(key, bytes)));
        }
        steps.push(answer(Some(name), packets::get(key), TX));
    }
    for key in FOUR.split(' ').filter(|_| n == 0) {
        steps.push(answer(None, packets::get(key), PASS));
        steps.push(learn(None, packets::reply(key, 32)));
    }
    steps.push(answer(Some("hit four"), packets::get(FOUR), TX));
    steps
}

/// Runs steps.
#[derive(Default)]
struct Run {
    runner: Runner,
    output: RunOutput,
}

impl Run {
    /// Its time by the kernel's clock.
    fn one(&mut self, program: &LoadedProgram, step: &Step) -> Result<f64, LabError> {
        self.times(program, step, 1)?;
        Ok(f64::from(self.output.duration_ns))
    }

    /// How much longer a program takes for one of many than one that does nothing, in nanoseconds.
    fn batch_over(&mut self, program: &LoadedProgram, empty: &LoadedProgram, step: &Step) -> Result<f64, LabError> {
        let (ours, nothing) = (self.times(program, step, BATCH)?, self.times(empty, step, BATCH)?);
        Ok((ours as f64 - nothing as f64) / f64::from(BATCH))
    }

    /// Nanoseconds of so many runs.
    fn times(&mut self, program: &LoadedProgram, step: &Step, repeat: u32) -> Result<u64, LabError> {
        let input = RunInput { data: step.packet.clone(), repeat, ..RunInput::default() };
        let failed = |e: karakoram_kernel::error::KernelError| LabError::Machine(e.to_string(), String::new());
        let ns = self.runner.run_timed(program, &input, &mut self.output).map_err(failed)?;
        match self.output.retval == step.returns {
            true => Ok(ns),
            false => Err(LabError::Request(format!(
                "{} returned {} for {}, not {}",
                step.program,
                self.output.retval,
                step.name.unwrap_or("a first packet"),
                step.returns
            ))),
        }
    }
}
