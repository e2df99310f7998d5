//! `kara lab calibrate`: the prices of `--goal latency` on this machine.

use super::guest::quoted;
use super::machine::{CacheOption, failure};
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::interrupt;
use crate::latencies;
use crate::output::{self, Artefact};
use crate::table;
use karakoram_kernel::running;
use karakoram_lab::calibrate::{Plan, Price, calibrate};
use karakoram_lab::environment;
use karakoram_lab::guest::Job;
use karakoram_optimize::cost::{Latencies, Parameter, Provenance};
use std::collections::BTreeMap;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  kara lab calibrate                      about a minute; `kara opt --goal latency` uses it from then on
  kara lab calibrate --quick -o -         some seconds, to stdout
  kara lab calibrate --guest 6.12 -o counts.toml     prices are executed instructions, the same each time

Programs with 100 to 4000 copies of an instruction are run by the kernel's test run; the slope of time
over copies is the price. Nothing is attached, no traffic is needed. Works best on an idle machine;
the spread says how well it went.

Exit status: 0 done, 2 wrong request, 3 not possible on this machine.";

/// Options of `kara lab calibrate`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Where the model goes; - is stdout (default: karakoram/latencies.toml in the user's configuration folder)
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// Fewer and shorter rounds
    #[arg(long)]
    quick: bool,
    /// Count instructions in a guest with that kernel, instead of measuring time
    #[arg(long, value_name = "VERSION")]
    guest: Option<String>,
    /// Say that times are instruction counts, as they are in such a guest
    #[arg(long, hide = true)]
    is_counting: bool,
    #[command(flatten)]
    cache: CacheOption,
}

impl Options {
    /// Measures.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let target = self.target()?;
        let model = match &self.guest {
            Some(version) => self.in_guest(version)?,
            None => self.here(common)?,
        };
        let text = model.to_text().map_err(|e| Failure::machine(e.to_string()))?;
        output::write(&target, &Artefact::Text(text))?;
        if !common.quiet && !self.is_counting {
            eprint!("{}", to_text(&model));
            eprintln!("written to {}", if target == "-" { "stdout" } else { &target });
        }
        Ok(Answer::Yes)
    }

    fn target(&self) -> Result<String, Failure> {
        if let Some(path) = &self.output {
            output::check(path, false)?;
            return Ok(path.clone());
        }
        let path = latencies::path().ok_or_else(|| {
            Failure::usage("it is not known where the model goes: HOME is not set").help("say it with -o FILE")
        })?;
        let text = path.display().to_string();
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).map_err(|e| Failure::file(&text, "make the folder of", &e))?;
        Ok(text)
    }

    fn here(&self, common: &Common) -> Result<Latencies, Failure> {
        let plan = if self.quick { Plan::QUICK } else { Plan::FULL };
        let (prices, refused) = calibrate(plan, &interrupt::is_asked).map_err(failure)?;
        if !common.quiet {
            refused.iter().for_each(|why| eprintln!("not measured: {why}"));
        }
        let method = if self.is_counting { "instructions, QEMU -icount shift=0" } else { "slopes of test runs" };
        let provenance = Provenance {
            cpu: environment::processor().unwrap_or_else(|| "unknown".to_string()),
            kernel: running::release(),
            date: environment::today(),
            method: format!("{method}, {} rounds", plan.rounds),
        };
        Latencies { provenance, cost: with_defaults(&prices) }.checked().map_err(|e| {
            Failure::machine(format!("too little could be measured here: {e}")).help("kara doctor says what is missing")
        })
    }

    fn in_guest(&self, version: &str) -> Result<Latencies, Failure> {
        let words = ["kara", "lab", "calibrate", "--quick", "--is-counting", "-o", "-"].map(String::from);
        let mut job =
            Job { counts_instructions: true, time_limit: Duration::from_secs(1800), ..Job::new(quoted(&words)) };
        let done = self.cache.run(version, &mut job)?;
        Latencies::parse(&String::from_utf8_lossy(&done.stdout)).map_err(|e| {
            let said = String::from_utf8_lossy(&done.stderr).trim().to_string();
            Failure::machine(format!("kara did not work in the guest: {said} ({e})"))
        })
    }
}

/// The parameters of what was measured, and what follows from it: the way out of a program costs
/// nothing (it is the same for all), and other helpers what a typical one does.
fn with_defaults(prices: &BTreeMap<String, Price>) -> BTreeMap<String, Parameter> {
    // Picoseconds are far below the spread.
    let round = |ns: f64| (ns * 1000.0).round() / 1000.0;
    let parameter = |p: &Price| Parameter {
        chain_ns: round(p.chain_ns),
        stream_ns: round(p.stream_ns),
        spread_ns: round(p.spread_ns),
    };
    let mut all: BTreeMap<String, Parameter> = prices.iter().map(|(name, p)| (name.clone(), parameter(p))).collect();
    let mut helpers: Vec<f64> =
        all.iter().filter(|(name, _)| name.starts_with("helper.")).map(|(_, p)| p.stream_ns).collect();
    helpers.sort_by(f64::total_cmp);
    if let Some(typical) = helpers.get(helpers.len() / 2) {
        all.insert("helper.other".into(), Parameter { chain_ns: *typical, stream_ns: *typical, spread_ns: 0.0 });
    }
    all.insert("exit".into(), Parameter { chain_ns: 0.0, stream_ns: 0.0, spread_ns: 0.0 });
    all
}

fn to_text(model: &Latencies) -> String {
    let number = |n: f64| format!("{n:.2}");
    let row = |(name, p): (&String, &Parameter)| {
        vec![name.clone(), number(p.chain_ns), number(p.stream_ns), number(p.spread_ns)]
    };
    let header = ["price", "chain ns", "stream ns", "spread ns"];
    let p = &model.provenance;
    table::markdown(&header, &model.cost.iter().map(row).collect::<Vec<_>>())
        + &format!("{}, Linux {}, {}: {}\n", p.cpu, p.kernel, p.date, p.method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_optimize::cost::Class;

    #[test]
    fn every_class_is_measured_or_follows() {
        let sequences = karakoram_lab::calibrate::sequences();
        let prices = sequences.iter().map(|s| (s.name.clone(), Price::default())).collect();
        let model = with_defaults(&prices);
        let missing: Vec<&str> = Class::ALL.iter().map(|c| c.name()).filter(|n| !model.contains_key(*n)).collect();
        assert_eq!(missing, Vec::<&str>::new());
    }
}
