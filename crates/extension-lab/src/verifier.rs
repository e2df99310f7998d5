//! `verifier`: what the kernel's verifier has to do for programs, those that it refuses among them, and how long
//! loading takes. An extension's memory is not filled: its programs only are loaded.

use crate::programs::{Source, build_options, failed};
use karakoram_installer::build::separate;
use karakoram_kernel::load::{LoadError, LoadedProgram};
use karakoram_kernel::log::Statistics;
use karakoram_lab::error::LabError;
use karakoram_lab::object;
use karakoram_lab::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Instant;

/// The kind.
pub struct Verifier;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    /// Programs of one object.
    source: Option<Source>,
    /// Where it is below `programs/`.
    folder: String,
    /// A file of that folder, without its ending, in place of the one named as the folder.
    file: Option<String>,
}

struct Prepared {
    /// Objects with their programs.
    objects: Vec<(PathBuf, Vec<String>)>,
}

impl Kind for Verifier {
    fn name(&self) -> &'static str {
        "verifier"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let paths = match (&plan.source, &plan.file) {
            (Some(source), Some(file)) => vec![source.compile_file(&plan.folder, file, workshop)?.path],
            (Some(source), None) => vec![source.compile(&plan.folder, workshop)?.path],
            (None, _) => each_alone(&plan.folder, workshop)?,
        };
        let with_programs = |path: PathBuf| Ok((path.clone(), object::programs(&path)?));
        Ok(Box::new(Prepared { objects: paths.into_iter().map(with_programs).collect::<Result<_, LabError>>()? }))
    }
}

/// Every program of a crate as an object of its own.
fn each_alone(folder: &str, workshop: &Workshop) -> Result<Vec<PathBuf>, LabError> {
    let options = build_options(workshop, folder);
    let crate_ = separate(&options).map_err(|e| failed(&options.folder, &e))?;
    let one = |name: &str| {
        let built = crate_.build(name).map_err(|e| failed(&options.folder, &e))?;
        let path = workshop.scratch.join(format!("{}.{name}.o", folder.replace('/', "-")));
        std::fs::write(&path, built.object).map_err(|e| LabError::file("write", &path, &e))?;
        Ok(path)
    };
    crate_.names().map(one).collect()
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let mut efforts = Vec::new();
        let mut outcome = Outcome::default();
        for (path, programs) in &self.objects {
            request.check()?;
            let names: Vec<&str> = programs.iter().map(String::as_str).collect();
            let linked = object::link(path, &names)?;
            let mut each = linked.load_each();
            loop {
                let started = Instant::now();
                let Some((name, loaded)) = each.next() else { break };
                let ms = started.elapsed().as_secs_f64() * 1e3;
                let effort = Effort::of(&loaded, ms)?;
                let what = if effort.is_refused { ", refused" } else { "" };
                outcome.notes.insert(name.to_string(), format!("{} instructions{what}, {ms:.1} ms", effort.verified));
                efforts.push(effort);
            }
        }
        outcome.samples = samples(&efforts);
        Ok(outcome)
    }
}

/// What a program takes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Effort {
    verified: u64,
    ms: f64,
    is_refused: bool,
}

impl Effort {
    fn of(loaded: &Result<LoadedProgram, LoadError>, ms: f64) -> Result<Effort, LabError> {
        let (statistics, is_refused) = match loaded {
            Ok(program) => (program.statistics.clone(), false),
            Err(LoadError::Rejected(rejection)) => (Statistics::parse(&rejection.log), true),
            Err(other) => return Err(LabError::Machine(other.to_string(), String::new())),
        };
        let unknown = || LabError::Machine("this kernel does not say how much it verified".into(), String::new());
        Ok(Effort { verified: statistics.processed_insns.ok_or_else(unknown)?, ms, is_refused })
    }
}

fn samples(efforts: &[Effort]) -> Vec<Samples> {
    let verified: Vec<f64> = efforts.iter().map(|e| e.verified as f64).collect();
    let refused = efforts.iter().filter(|e| e.is_refused).count();
    vec![
        Samples::one("verified", "instructions", verified.iter().sum()),
        Samples::list("of each", "instructions", verified),
        Samples::one("load", "ms", efforts.iter().map(|e| e.ms).sum()),
        Samples::one("refused", "programs", refused as f64),
        Samples::one("programs", "programs", efforts.len() as f64),
    ]
}
