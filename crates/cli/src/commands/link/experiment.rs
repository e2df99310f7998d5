//! `kara link experiment`: what was published about link protection, and what comes of it here.

mod buffers;
mod completion;
mod fabric;
mod judge;
mod real;
mod stress;
mod throughput;

use crate::arguments::Common;
use crate::commands::lab::failure;
use crate::failure::{Answer, Failure};
use crate::interrupt;
use crate::output;
use crate::progress::Bar;
use clap::ValueEnum;
use karakoram_lab::environment;
use karakoram_lab::report::{self, Report, Section, Verdict};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

const AFTER_HELP: &str = "\
Examples:
  kara link experiment stress                      into build/link-stress
  kara link experiment --all -o build              all of them, a folder for each
  kara link experiment fct --quick --seed 7        a twentieth of the work: shows that it works
  kara link experiment real --part cubic           kernel TCP over a real link, on this machine

All but `real` is simulated: the same options, seed and version give the same files. What is run and what
was published is in experiments/link-*/*.toml. A verdict says whether a published figure holds here,
within the tolerance stated there, and why not when not. `real` needs root; it works in network
namespaces of its own, which are gone when it ends, however it ends.

Exit status: 0 done, whatever came out; 2 wrong request; 3 not possible on this machine.";

/// Options of `kara link experiment`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// The experiments
    #[arg(value_enum, value_name = "NAME", required_unless_present = "all")]
    names: Vec<Name>,
    /// All that are simulated
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// This part of `real` only
    #[arg(long, value_name = "PART")]
    part: Option<String>,
    /// A twentieth of the work
    #[arg(long)]
    quick: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for a folder of each experiment
    #[arg(short, long, value_name = "DIR", default_value = "build")]
    output: PathBuf,
}

/// The experiments there are.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Name {
    /// What is still lost and still carried under full load, and how long recovery takes
    Stress,
    /// What buffers hold, and how often frames go round in rings
    Buffers,
    /// How long flows take
    Fct,
    /// What transports achieve
    Throughput,
    /// A data centre over a year
    Fabric,
    /// Kernel TCP and memcached over a real link; in parts (cubic, bbr, requests, dctcp)
    Real,
}

impl Name {
    fn folder(self) -> &'static str {
        match self {
            Name::Stress => "link-stress",
            Name::Buffers => "link-buffers",
            Name::Fct => "link-fct",
            Name::Throughput => "link-throughput",
            Name::Fabric => "link-fabric",
            Name::Real => "link-real",
        }
    }
}

/// How an experiment is to be run.
struct Order<'a> {
    is_quick: bool,
    seed: u64,
    bar: &'a Bar,
}

impl Order<'_> {
    /// So much of a full amount.
    fn share(&self, amount: u64) -> u64 {
        if self.is_quick { (amount / 20).max(1) } else { amount }
    }

    /// The same as a factor.
    fn fraction(&self) -> f64 {
        if self.is_quick { 0.05 } else { 1.0 }
    }

    /// Says how far it is, and stops when that was asked for.
    fn step(&self, done: usize, all: usize, next: &str) -> Result<(), Failure> {
        self.bar.show(done, all, next);
        match interrupt::flag().load(Ordering::Relaxed) {
            true => Err(Failure::machine("interrupted: this experiment has no results")
                .help("nothing is left of it; experiments that were finished before it keep theirs")),
            false => Ok(()),
        }
    }
}

impl Options {
    /// Runs them one after the other.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let simulated = || Name::value_variants().iter().copied().filter(|n| !matches!(n, Name::Real)).collect();
        let names: Vec<Name> = if self.all { simulated() } else { self.names.clone() };
        let mut done = Vec::new();
        for name in names {
            let bar = Bar::new(common.quiet, name.folder());
            let order = Order { is_quick: self.quick, seed: self.seed, bar: &bar };
            let folder = self.output.join(name.folder());
            match name {
                Name::Real => self.measure(&folder, &order, &mut done)?,
                _ => self.keep(self.simulate(name, &order)?, folder, &order, &mut done)?,
            }
        }
        match common.json {
            true => output::print_json(&to_json(&done)),
            false => output::print_text(&to_text(&done)),
        }
        Ok(Answer::Yes)
    }

    /// Each part gets a folder.
    fn measure(&self, folder: &Path, order: &Order, done: &mut Vec<(PathBuf, Report)>) -> Result<(), Failure> {
        for part in real::parts(self.part.as_deref())? {
            let report = real::run(&part, order)?.environment(environment::record());
            self.keep(report, folder.join(&part.name), order, done)?;
        }
        Ok(())
    }

    fn keep(
        &self,
        report: Report,
        folder: PathBuf,
        order: &Order,
        done: &mut Vec<(PathBuf, Report)>,
    ) -> Result<(), Failure> {
        let report = if self.quick { report.warning("A quick run: a twentieth of the work.") } else { report };
        report::write(&report, &folder).map_err(failure)?;
        order.bar.done(&folder.display().to_string());
        done.push((folder, report));
        Ok(())
    }

    fn simulate(&self, name: Name, order: &Order) -> Result<Report, Failure> {
        let report = match name {
            Name::Stress => stress::run(order)?,
            Name::Buffers => buffers::run(order)?,
            Name::Fct => completion::run(order)?,
            Name::Throughput => throughput::run(order)?,
            Name::Fabric => fabric::run(order)?,
            Name::Real => return Err(Failure::usage("`real` is measured, not simulated")),
        };
        Ok(report.environment(vec![
            ("version".to_string(), env!("CARGO_PKG_VERSION").to_string()),
            ("seed".to_string(), self.seed.to_string()),
            ("measured on".to_string(), "a simulation: the machine has no part in the figures".to_string()),
        ]))
    }
}

fn verdicts(report: &Report) -> impl Iterator<Item = (&Section, &report::Claim)> {
    report.sections.iter().flat_map(|section| section.claims.iter().map(move |claim| (section, claim)))
}

fn to_text(done: &[(PathBuf, Report)]) -> String {
    let mut out = String::new();
    for (folder, report) in done {
        let holding = verdicts(report).filter(|(_, c)| c.verdict == Verdict::Holds).count();
        out += &format!("{}: {holding} of {} hold\n", folder.display(), verdicts(report).count());
        for (_, claim) in verdicts(report) {
            let sign = claim.verdict.sign();
            out += &format!("  {sign} {}: {} published, {} here\n", claim.text, claim.published, claim.measured);
        }
    }
    out
}

fn to_json(done: &[(PathBuf, Report)]) -> serde_json::Value {
    let experiments: Vec<_> = done
        .iter()
        .map(|(folder, report)| {
            let claims: Vec<_> = verdicts(report).map(|(_, claim)| claim).collect();
            json!({ "folder": folder, "title": report.title, "claims": claims })
        })
        .collect();
    json!({ "schema": "kara/link/experiment/1", "ok": true, "exit_code": 0, "experiments": experiments })
}
