//! `primitives`: what one thing takes (entering a program, a lookup, a lock), in an extension and in C, by the
//! kernel's test run repeated, less what a program that does nothing takes in the same language.

use crate::programs::{Compiled, InKernel, Source};
use karakoram_kernel::run::{RunInput, RunOutput, Runner, pin_to_current_cpu};
use karakoram_lab::error::LabError;
use karakoram_lab::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;

/// The kind.
pub struct Primitives;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    source: Source,
    /// Programs of `programs/primitives`; the time of each is a sample of its name.
    programs: Vec<String>,
    /// Runs of each in a trial.
    #[serde(default = "repeat")]
    repeat: u32,
}

fn repeat() -> u32 {
    1_000_000
}

/// What is measured as it is, and taken away from all others.
const NOTHING: &str = "nothing";
/// What fills the tables, an entry in each run.
const FILL: &str = "fill";
const ENTRIES: u32 = 5000;
/// What all return that found what they looked for.
const PASS: u32 = 2;

impl Kind for Primitives {
    fn name(&self) -> &'static str {
        "primitives"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let compiled = plan.source.compile("primitives", workshop)?;
        Ok(Box::new(Prepared { plan, compiled }))
    }
}

struct Prepared {
    plan: Plan,
    compiled: Compiled,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let mut names: Vec<&str> = vec![NOTHING, FILL];
        names.extend(self.plan.programs.iter().map(String::as_str).filter(|name| *name != NOTHING));
        let loaded = self.compiled.load(&names)?;
        let _pinned = pin_to_current_cpu();
        time(&loaded, FILL, ENTRIES)?;
        let nothing = time(&loaded, NOTHING, self.plan.repeat)?;
        let mut outcome = Outcome::default();
        for program in &self.plan.programs {
            request.check()?;
            let ns = match program.as_str() {
                NOTHING => nothing,
                other => time(&loaded, other, self.plan.repeat)? - nothing,
            };
            if ns <= 0.0 {
                outcome.void = Some(format!("{program}: it took no longer than a program that does nothing"));
            }
            outcome.samples.push(Samples::one(program, "ns", ns));
        }
        outcome.void = loaded.complaint(&names).or(outcome.void);
        outcome.notes.insert("a program that does nothing".into(), format!("{nothing:.2} ns"));
        Ok(outcome)
    }
}

/// Nanoseconds of a run.
fn time(loaded: &InKernel, program: &str, repeat: u32) -> Result<f64, LabError> {
    let input = RunInput { data: vec![0; 64], repeat, ..RunInput::default() };
    let mut output = RunOutput::default();
    let run = Runner::default().run_timed(loaded.program(program), &input, &mut output);
    let total = run.map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
    match output.retval {
        PASS => Ok(total as f64 / f64::from(repeat)),
        other => Err(LabError::Request(format!("{program} returned {other}: it did not find what it looked for"))),
    }
}
