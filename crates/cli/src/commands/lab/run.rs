//! `kara lab run`: experiments, from their definition to a report.

use super::experiments::FolderOption;
use super::machine::failure;
use super::report;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::interrupt;
use crate::output;
use crate::progress::Bar;
use karakoram_lab::disturbance;
use karakoram_lab::error::LabError;
use karakoram_lab::experiment::Experiment;
use karakoram_lab::results::Results;
use karakoram_lab::runner::{self, Order, Progress};
use karakoram_lab::trial::{Kind, Workshop};
use karakoram_lab::trials;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const AFTER_HELP: &str = "\
Examples:
  kara lab run echo                      into build/lab/echo; the page is build/lab/report.html
  kara lab run --all --quick             everything in its short form, in under 15 minutes
  kara lab run rates --seed 7 -o /var/tmp/rates --only-quiet

Every round measures all variants once, in random order from the printed seed, and the baseline twice, so
that it is known what the machine does by itself. Traffic stays in network namespaces that are made for
it and removed. results.json holds every trial with full histograms and the environment; the rest is made
from it (`kara lab report`). A busy machine marks the results as contaminated.

Exit status: 0 measured, whatever came out; 2 wrong request or input; 3 not possible on this machine, or
busy with --only-quiet.";

/// What names of folders for programs begin with.
const SCRATCH: &str = "kara-lab-";

/// Options of `kara lab run`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// The experiments; `kara lab list` knows them
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Their short form: it shows that everything works, not what is true
    #[arg(long)]
    quick: bool,
    /// Seed of the order and of everything else that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for a folder of each experiment, and for the page of all
    #[arg(short, long, value_name = "DIR", default_value = "build/lab")]
    output: PathBuf,
    /// Measure nothing when others use the machine
    #[arg(long)]
    only_quiet: bool,
    #[command(flatten)]
    folder: FolderOption,
}

impl Options {
    /// Runs them one after the other.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let experiments = match self.all {
            true => self.folder.all()?,
            false => self.names.iter().map(|name| self.folder.named(name)).collect::<Result<_, _>>()?,
        };
        for experiment in &experiments {
            kind(experiment)?;
        }
        let contamination = self.preflight(common)?;
        let mut runs = Vec::new();
        for (number, experiment) in experiments.iter().enumerate() {
            let bar = Bar::new(common.quiet, &format!("[{}/{}] {}", number + 1, experiments.len(), experiment.name));
            let results = self.measure(experiment, contamination.clone(), &bar)?;
            let place = self.output.join(&experiment.name);
            results.write(&place).map_err(failure)?;
            bar.done(&format!("{} trials in {:.0} s", results.trials.len(), results.seconds));
            runs.push((place, results));
        }
        let report = report::write_all(&self.output, &runs)?;
        match common.json {
            true => output::print_json(&report::to_json("kara/lab/run/1", &self.output, &runs, &report)),
            false => output::print_text(&report::to_text(&self.output, &report)),
        }
        Ok(Answer::Yes)
    }

    /// What speaks against measuring now.
    fn preflight(&self, common: &Common) -> Result<Vec<String>, Failure> {
        let complaints = disturbance::preflight();
        if self.only_quiet && !complaints.is_empty() {
            return Err(Failure::machine(format!("the machine is busy: {}", complaints.join("; ")))
                .help("end what else runs, or leave out --only-quiet: results are then marked as contaminated"));
        }
        if !common.quiet {
            complaints.iter().for_each(|c| eprintln!("warning: {c}; the results will be marked as contaminated"));
            eprintln!("seed {}", self.seed);
        }
        Ok(complaints)
    }

    fn measure(&self, experiment: &Experiment, contamination: Vec<String>, bar: &Bar) -> Result<Results, Failure> {
        let scratch = scratch_folder()?;
        let programs = self.folder.find()?.join("../programs");
        let optimize = |object: &Path| optimize(object, scratch.path());
        let workshop = Workshop { programs: &programs, scratch: scratch.path(), optimize: &optimize };
        let show = |p: &Progress| {
            let (done, all) = p.trials;
            bar.show(done, all, &format!("round {}/{}: {}", p.round.max(0), p.rounds, p.variant));
        };
        let order = Order {
            experiment,
            is_quick: self.quick,
            seed: self.seed,
            workshop: &workshop,
            contamination,
            is_interrupted: &interrupt::is_asked,
            progress: &show,
        };
        runner::run(kind(experiment)?, &order).map_err(|e| match e {
            LabError::Interrupted => Failure::machine(format!("interrupted: {} has no results", experiment.name))
                .help("nothing is left of it; experiments that were finished before it keep theirs"),
            other => failure(other),
        })
    }
}

fn kind(experiment: &Experiment) -> Result<&'static dyn Kind, Failure> {
    let name = &experiment.definition.kind;
    let all = || trials::kinds().iter().chain(karakoram_extension_lab::kinds()).copied();
    all().find(|k| k.name() == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(|k| k.name()).collect();
        Failure::input(format!("experiment {}: there is no kind of trial `{name}`", experiment.name))
            .help(format!("there are: {}", known.join(", ")))
    })
}

/// A folder for programs, named after this process so that others can tell whether it is left over.
fn scratch_folder() -> Result<TempDir, Failure> {
    sweep();
    let prefix = format!("{SCRATCH}{}-", std::process::id());
    let made = tempfile::Builder::new().prefix(&prefix).tempdir();
    made.map_err(|e| Failure::machine(format!("could not make a folder for programs: {e}")))
}

/// Removes the folders of processes that were killed.
fn sweep() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(SCRATCH).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            // Somebody else may be sweeping too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// An optimized copy of an object, by this very program.
fn optimize(object: &Path, folder: &Path) -> Result<PathBuf, LabError> {
    let name = object.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let result = folder.join(format!("{name}.optimized.o"));
    if result.is_file() {
        return Ok(result);
    }
    let tool = |e: std::io::Error| LabError::tool("kara", &e);
    let mut command = Command::new(std::env::current_exe().map_err(tool)?);
    command.arg("--quiet").arg("opt").arg(object).arg("-o").arg(&result).args(["--proof", "none"]);
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output().map_err(tool)?;
    match done.status.success() {
        true => Ok(result),
        false => {
            let said = String::from_utf8_lossy(&done.stderr).trim().to_string();
            Err(LabError::Request(format!("{} could not be optimized: {said}", object.display())))
        }
    }
}
