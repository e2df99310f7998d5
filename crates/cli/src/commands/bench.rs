//! `kara bench`: how much faster one version of a program runs than another.

mod counted;
mod testbed;
mod times;

use crate::arguments::Common;
use crate::commands::lab::machine::CacheOption;
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars};
use crate::interrupt;
use crate::judge::{Kernel, TypeOption};
use crate::output;
use crate::progress::Bar;
use crate::scenario::Scenario;
use crate::timing::{Versions, failure};
use karakoram_lab::experiment::Experiment;
use karakoram_lab::presentation;
use karakoram_lab::report;
use karakoram_lab::results::Results;
use karakoram_lab::runner::{self, Order, Progress};
use karakoram_lab::trial::{Kind, Workshop};
use std::path::{Path, PathBuf};
use times::Times;

const AFTER_HELP: &str = "\
Examples:
  kara bench prog.o prog.opt.o --input prog.toml         the runs that the scenario calls representative
  kara bench a.o b.o --input 'packet:eth / ipv4 / udp'   one packet
  kara bench a.o b.o --input capture.pcap --prog xdp --rounds 100 -o build/bench
  kara bench a.o b.o --input prog.toml --count           executed instructions, the same in every run
  kara bench a.o b.o --input prog.toml --testbed         also the highest rates without loss

Every round loads both versions anew, and A a second time as a control, and has all of them at the same time in
the kernel's test run, on one processor that they share: what the machine does to one it does to all, and what
counts is the processor time of each. A ratio is the median over rounds, with a 95 %
bootstrap interval; runs are combined by their geometric mean. The two are called different only when the
interval excludes 1 and the ratio lies outside of what A against itself shows. Nothing is subtracted there: the
kernel's loop around the program is in all times alike. What a run changes in its packet or context is put back by a
small program before it, which is in all times alike too; where that cannot be done, runs are timed one by one by
the kernel's clock. A program that does nothing is measured beside them, and the ratio without what it takes is
given too: what the programs themselves gained, where it can be told from noise. docs/inputs.md describes scenarios. --testbed sends packets
through network namespaces that are made for it and removed, to XDP and tc programs.

Exit status: 0 measured, 2 wrong request or input, 3 not possible on this machine.";

/// What programs run on when nothing is said.
const PLAIN: &str = "packet:eth / ipv4 / udp";

/// Options of `kara bench`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// The program
    #[arg(value_name = "A")]
    first: String,
    /// Another version of it
    #[arg(value_name = "B")]
    second: String,
    /// What they run on: a capture, a scenario, a file, hex:BYTES or packet:LAYERS; may be repeated
    #[arg(short, long, value_name = "FILE|hex:BYTES|packet:LAYERS", default_value = PLAIN)]
    input: Vec<String>,
    /// The program, by function or section, when there are several
    #[arg(long, value_name = "NAME")]
    prog: Option<String>,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    rounds: u32,
    /// Runs of each version on each packet in a round; as many as take a tenth of a second, if nothing is said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    repeat: Option<u32>,
    /// Seed of the order, and of the intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for a page with tables and figures, and for all that was measured
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Count executed instructions in a guest instead, the same number in every run
    #[arg(long)]
    count: bool,
    /// Also search for the highest rate without loss of both, with real packets
    #[arg(long, conflicts_with = "count")]
    testbed: bool,
    /// Searches for the rate of each, for --testbed
    #[arg(long, value_name = "N", default_value_t = 7, requires = "testbed", value_parser = clap::value_parser!(u32).range(5..=1000))]
    searches: u32,
    /// Version of the guest's kernel, for --count
    #[arg(long, value_name = "VERSION", default_value = "6.12", requires = "count")]
    kernel: String,
    #[command(flatten)]
    cache: CacheOption,
    #[command(flatten)]
    program_type: TypeOption,
}

impl Options {
    /// Measures.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        if self.count {
            return self.run_counted(common);
        }
        let scenario = Scenario::read(&self.input)?;
        let a = Input::read(&self.first, &Sidecars::default())?;
        let b = Input::read_version(&self.second, &a)?;
        let (entry, other) = (a.entry(self.prog.as_deref())?, b.entry(self.prog.as_deref())?);
        let attached = testbed::Program::of(&a, entry);
        let program = attached.name.clone();
        let kernel = Kernel::open(self.program_type.program_type).map_err(Failure::machine)?;
        let settings = scenario.clone();
        let versions = Versions::new(kernel, vec![(a, entry), (b, other)], scenario, self.repeat)
            .map_err(|e| e.of_file(&self.first))?;
        if !versions.plan().cases.iter().any(|one| one.case.is_measured) {
            return Err(Failure::usage("there is nothing to run").of_file(&self.input[0]));
        }
        let results = self.measure(&versions, &program, common)?;
        let times = Times::of(&results, versions.plan());
        let returns = versions.plan().returns;
        let rates = self.testbed.then(|| self.rates(&attached, &settings, returns, common)).transpose()?;
        if common.json {
            let mut answer = self.to_json(&program, &times, &results);
            answer["rates"] = rates.as_ref().map_or(serde_json::Value::Null, |r| r.to_json());
            output::print_json(&answer);
        } else {
            output::print_text(&self.to_text(&times, &results));
            output::print_text(rates.as_ref().map_or("", |r| r.to_text()));
        }
        if let Some(folder) = &self.output {
            let runs: Vec<Results> = std::iter::once(results).chain(rates.map(|r| r.results)).collect();
            write(folder, &runs, &format!("{program}: {} and {}", self.first, self.second))?;
        }
        Ok(Answer::Yes)
    }

    /// Runs an experiment. `named`: what progress calls it, and one round of it.
    fn run_rounds(
        &self,
        kind: &dyn Kind,
        experiment: &Experiment,
        workshop: &Workshop,
        named: (&str, &str),
        common: &Common,
    ) -> Result<Results, Failure> {
        let bar = Bar::silent(common.quiet, named.0);
        let show = |p: &Progress| {
            bar.show(p.trials.0, p.trials.1, &format!("{} {}/{}", named.1, p.round.max(0), p.rounds));
        };
        let order = Order {
            experiment,
            is_quick: false,
            seed: self.seed,
            workshop,
            contamination: Vec::new(),
            is_interrupted: &interrupt::is_asked,
            progress: &show,
        };
        runner::run(kind, &order).map_err(failure)
    }

    fn measure(&self, versions: &Versions, program: &str, common: &Common) -> Result<Results, Failure> {
        let experiment = Experiment::parse("bench", &self.definition(versions, program)).map_err(failure)?;
        let optimize = |object: &Path| Ok(object.to_path_buf());
        let workshop = Workshop { programs: Path::new("."), scratch: Path::new("."), optimize: &optimize };
        let results = self.run_rounds(versions, &experiment, &workshop, ("bench", "round"), common)?;
        match results.unavailable.iter().next() {
            Some((version, why)) => Err(Failure::machine(format!("{version} could not be measured: {why}"))),
            None => Ok(results),
        }
    }

    /// What is measured, as an experiment: A is the baseline, each run a metric.
    fn definition(&self, versions: &Versions, program: &str) -> String {
        // A JSON string is a TOML string too.
        let text = |s: &str| serde_json::Value::from(s).to_string();
        let mut out = format!(
            "title = {}\nabout = {}\nkind = \"test-run\"\nrounds = {}\n\
             [[variant]]\nname = \"A\"\nparameters = {{ version = 0 }}\n\
             [[variant]]\nname = \"B\"\nparameters = {{ version = 1 }}\n\
             [[variant]]\nname = \"nothing\"\nparameters = {{ version = 2 }}\n",
            text(&format!("Run time of {program}")),
            text(&format!("A is {}, B is {}; both in the kernel's test run.", self.first, self.second)),
            self.rounds,
        );
        for (number, one) in versions.plan().cases.iter().enumerate().filter(|(_, one)| one.case.is_measured) {
            let name = text(&one.case.name);
            out += &format!(
                "[[metric]]\nname = \"run-{number}\"\ntitle = {name}\nsamples = {name}\nbetter = \"lower\"\n\
                 [[figure]]\nform = \"values\"\nof = \"run-{number}\"\n\
                 [[figure]]\nform = \"ratios\"\nof = \"run-{number}\"\n"
            );
        }
        out
    }
}

fn write(folder: &Path, runs: &[Results], title: &str) -> Result<(), Failure> {
    runs.iter().try_for_each(|run| run.write(&folder.join(&run.experiment)).map_err(failure))?;
    let page = presentation::report(title, runs).map_err(failure)?;
    report::write(&page, folder).map_err(failure)
}
