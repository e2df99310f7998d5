//! `recursion`: how the time of a run grows with the depth of calls: functions that call themselves in an
//! extension, chains of tail calls in C. Every program is told by the packet how deep to go and what must
//! come out, so that nothing is known to its compiler.

use crate::programs::{Compiled, InKernel, Source};
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
use karakoram_lab::error::LabError;
use karakoram_lab::statistics::slope;
use karakoram_lab::trial::{Curve, Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;
use std::os::fd::AsFd;

/// The kind.
pub struct Recursion;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    source: Source,
    /// The program of `programs/recursion`.
    program: String,
    /// How deep.
    depths: Vec<u32>,
    /// Runs at each depth in a trial.
    #[serde(default = "repeat")]
    repeat: u32,
}

fn repeat() -> u32 {
    200_000
}

/// Programs that others call as their tails, each at its place in this map of the object.
const TAILS: [&str; 2] = ["step", "step_anywhere"];
const TAIL_MAP: &str = "STEPS";
/// What a program returns when it came to what it should.
const PASS: u32 = 2;

struct Prepared {
    plan: Plan,
    compiled: Compiled,
}

impl Kind for Recursion {
    fn name(&self) -> &'static str {
        "recursion"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let compiled = plan.source.compile("recursion", workshop)?;
        Ok(Box::new(Prepared { plan, compiled }))
    }
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let program = self.plan.program.as_str();
        let loaded = self.load(program)?;
        let _pinned = pin_to_current_cpu();
        let mut points = Vec::new();
        let mut outcome = Outcome::default();
        for depth in &self.plan.depths {
            request.check()?;
            let ns = self.time(&loaded, program, *depth)?;
            points.push((f64::from(*depth), ns));
            outcome.samples.push(Samples::one(format!("depth {depth}"), "ns", ns));
        }
        let each = slope(&points);
        outcome.samples.push(Samples::one("each", "ns", each));
        let (x, y) = ("depth".to_string(), "time of a run (ns)".to_string());
        outcome.curves.push(Curve { name: "time over depth".to_string(), x, y, points });
        let not_longer = (each <= 0.0).then(|| "deeper runs took no longer".to_string());
        outcome.void = loaded.complaint(&[program]).or(not_longer);
        Ok(outcome)
    }
}

impl Prepared {
    /// The program, and what it calls as its tail.
    fn load(&self, program: &str) -> Result<InKernel, LabError> {
        if self.compiled.is_extension() {
            return self.compiled.load(&[program]);
        }
        let names: Vec<&str> = TAILS.into_iter().chain([program]).collect();
        let loaded = self.compiled.load(&names)?;
        let steps = loaded.maps().iter().find(|m| m.def().name == TAIL_MAP);
        let steps = steps.ok_or_else(|| LabError::Request(format!("there is no map {TAIL_MAP}")))?;
        for (place, tail) in TAILS.iter().enumerate() {
            let put = steps.update_fd(&(place as u32).to_ne_bytes(), loaded.program(tail).as_fd());
            put.map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
        }
        Ok(loaded)
    }

    /// Nanoseconds of a run.
    fn time(&self, loaded: &InKernel, program: &str, depth: u32) -> Result<f64, LabError> {
        let mut data = vec![0; 64];
        data[..4].copy_from_slice(&depth.to_be_bytes());
        data[4..8].copy_from_slice(&result(depth).to_be_bytes());
        let input = RunInput { data, repeat: self.plan.repeat, ..RunInput::default() };
        let mut output = RunOutput::default();
        let run = Runner::default().run_timed(loaded.program(program), &input, &mut output);
        let total = run.map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
        match output.retval {
            PASS => Ok(total as f64 / f64::from(self.plan.repeat)),
            other => Err(LabError::Request(format!("{program} returned {other} at depth {depth}: a wrong result"))),
        }
    }
}

/// What all programs compute.
fn result(depth: u32) -> u32 {
    (1..=depth).fold(1, |value: u32, n| value.rotate_left(1) ^ n)
}
