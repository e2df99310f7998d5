//! `bmc-instructions`: what the programs execute for each kind of packet, in a guest whose clock advances by
//! one nanosecond for each instruction. The same numbers in every run, whatever else the machine does; a
//! module can be measured in no other way here. What the kernel does around a run is taken away as by
//! `bmc-times`, which the guest runs.

use super::PROGRAMS;
use super::times::measure;
use crate::programs::{Compiled, KERNEL, Source};
use karakoram_lab::error::LabError;
use karakoram_lab::guest::{self, Job, Kernel, Kernels};
use karakoram_lab::object;
use karakoram_lab::programs::{self, Build};
use karakoram_lab::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The kind.
pub struct Instructions;

/// When the guest is ended.
const LIMIT: Duration = Duration::from_secs(300);
/// Under this name is what all kinds take together.
const TOGETHER: &str = "together";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    source: Source,
    /// How often each kind of packet comes.
    #[serde(default = "repeat")]
    repeat: u32,
}

fn repeat() -> u32 {
    20
}

struct Prepared {
    plan: Plan,
    compiled: Compiled,
    nothing: PathBuf,
    kernel: Kernel,
}

impl Kind for Instructions {
    fn name(&self) -> &'static str {
        "bmc-instructions"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let compiled = plan.source.compile("bmc", workshop)?;
        let nothing = programs::build(workshop, "bmc/nothing", Build::Original)?;
        let cache = guest::default_cache().ok_or_else(|| {
            LabError::Machine("it is not known where kernels are to be kept".into(), "set HOME".into())
        })?;
        let kernel = Kernels::new(cache).get(KERNEL, &[])?;
        Ok(Box::new(Prepared { plan, compiled, nothing, kernel }))
    }
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let kara = std::env::current_exe().map_err(|e| LabError::tool("kara", &e))?;
        let file = self.compiled.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kind = if self.compiled.is_extension() { "--extension" } else { "" };
        let command = format!("kara lab count-bmc {file} nothing.o --repeat {} {kind}", self.plan.repeat);
        let job = Job {
            files: vec![(file, self.compiled.path.clone()), ("nothing.o".to_string(), self.nothing.clone())],
            programs: vec![("kara".to_string(), kara)],
            counts_instructions: true,
            time_limit: LIMIT,
            ..Job::new(command)
        };
        let done = guest::run(&self.kernel, &job, request.is_interrupted)?;
        let counts: BTreeMap<String, f64> = serde_json::from_slice(&done.stdout).map_err(|_| {
            let said = String::from_utf8_lossy(&done.stderr).trim().to_string();
            LabError::Machine(format!("nothing was counted in the guest: {said}"), String::new())
        })?;
        let samples = counts.into_iter().map(|(name, count)| Samples::one(name, "instructions", count));
        Ok(Outcome { samples: samples.collect(), ..Outcome::default() })
    }
}

/// What runs in the guest: counts, by kind of packet, of the programs in a file.
pub fn count(file: &Path, is_extension: bool, nothing: &Path, repeat: u32) -> Result<BTreeMap<String, f64>, LabError> {
    let loaded = Compiled::of(file, is_extension).load(&PROGRAMS)?;
    let measured = measure(&loaded, &object::load(nothing, &PROGRAMS)?, 0..repeat, &|| false)?;
    if let Some(complaint) = loaded.complaint(&PROGRAMS) {
        return Err(LabError::Request(complaint));
    }
    if let Some(complaint) = measured.complaint() {
        return Err(LabError::Request(complaint));
    }
    let together = measured.together().map(|count| (TOGETHER.to_string(), count));
    Ok(measured.kinds.into_iter().map(|(name, count)| (name.to_string(), count)).chain(together).collect())
}
