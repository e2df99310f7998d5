//! `kara doctor`: what this machine can do, and what each missing thing disables.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use crate::terminal;
use karakoram_kernel::probe::{Report, Status, probe};
use karakoram_proof::external::External;
use serde_json::{Value, json};

const AFTER_HELP: &str = "\
Nothing is changed: files are read, the smallest programs and maps are loaded and dropped again.

Exit status: 0 the kernel can be a judge; 3 it cannot (optimizing and proving work all the same).";

/// Solvers that `kara check --solver` knows how to call.
const SOLVERS: [&str; 4] = ["z3", "cvc5", "bitwuzla", "cadical"];

/// Options of `kara doctor`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {}

impl Options {
    /// Looks around.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let report = probe();
        let loads = report.checks.first().is_some_and(|c| c.status == Status::Yes);
        let solvers: Vec<(&str, bool)> =
            SOLVERS.iter().map(|name| (*name, External::new(name, 1).is_available())).collect();
        if common.json {
            output::print_json(&to_json(&report, &solvers, loads));
        } else {
            output::print_text(&to_text(&report, &solvers));
        }
        if loads {
            return Ok(Answer::Yes);
        }
        if common.json {
            // The object above is the answer; another one would be one too many.
            std::process::exit(3);
        }
        Err(Failure::machine("the kernel cannot be asked about programs here")
            .help("optimizing and proving work all the same; for the kernel run kara as root"))
    }
}

fn to_text(report: &Report, solvers: &[(&str, bool)]) -> String {
    let style = terminal::stdout_style();
    let mark = |status: Status| match status {
        Status::Yes => style.green("yes"),
        Status::No => style.red("no "),
        Status::NotPermitted => style.red("not permitted"),
        Status::Unknown => style.blue("unknown"),
    };
    let mut out = format!("kara {}, Linux {}\n\n", env!("CARGO_PKG_VERSION"), report.release);
    for check in &report.checks {
        out += &format!("{:<20} {}", check.name, mark(check.status));
        if !check.detail.is_empty() {
            out += &format!("  {}", check.detail);
        }
        out.push('\n');
        if check.status != Status::Yes {
            out += &format!("{:<20}   without it: no {}\n", "", check.disables);
        }
    }
    let list = |wanted: bool, all: Vec<(String, Status)>| {
        let names: Vec<String> =
            all.into_iter().filter(|(_, s)| (*s == Status::Yes) == wanted).map(|(name, _)| name).collect();
        if names.is_empty() { "none".to_string() } else { names.join(" ") }
    };
    let programs: Vec<_> = report.program_types.iter().map(|(t, s)| (t.name().to_string(), *s)).collect();
    let maps: Vec<_> = report.map_types.iter().map(|(t, s)| (t.name(), *s)).collect();
    out += &format!("\nprogram types that load:  {}\n", list(true, programs.clone()));
    out += &format!("program types that don't: {}\n", list(false, programs));
    out += &format!("map types:                {}\n", list(true, maps.clone()));
    out += &format!("map types that fail:      {}\n", list(false, maps));
    let found: Vec<&str> = solvers.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    let found = if found.is_empty() { "none (the built-in one is always there)".to_string() } else { found.join(" ") };
    out += &format!("external solvers:         {found}\n");
    out
}

fn to_json(report: &Report, solvers: &[(&str, bool)], loads: bool) -> Value {
    let checks: Vec<Value> = report
        .checks
        .iter()
        .map(|c| json!({ "name": c.name, "status": c.status.to_string(), "detail": c.detail, "disables": c.disables }))
        .collect();
    let types = |all: Vec<(String, Status)>| -> Value {
        all.into_iter()
            .map(|(name, status)| (name, Value::from(status.to_string())))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!({
        "schema": "kara/doctor/1",
        "ok": loads,
        "exit_code": if loads { 0 } else { 3 },
        "version": env!("CARGO_PKG_VERSION"),
        "kernel": report.release,
        "checks": checks,
        "program_types": types(report.program_types.iter().map(|(t, s)| (t.name().to_string(), *s)).collect()),
        "map_types": types(report.map_types.iter().map(|(t, s)| (t.name(), *s)).collect()),
        "solvers": solvers.iter().map(|(n, s)| (n.to_string(), Value::from(*s))).collect::<serde_json::Map<_, _>>(),
    })
}
