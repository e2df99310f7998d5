//! `kara check`: are two versions equal, or does a certificate hold? Trusts neither the optimizer nor
//! the solver that found the proof.

use crate::arguments::Common;
use crate::counterexample::{self, Counterexample};
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars};
use crate::interrupt;
use crate::output;
use crate::progress::Bar;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Prover;
use karakoram_proof::certificate::{Certificate, CertificateError};
use karakoram_proof::check::Witness;
use karakoram_proof::compare::{Comparison, compare, suspects};
use karakoram_proof::external::External;
use karakoram_proof::solver::Backend;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

const AFTER_HELP: &str = "\
Examples:
  kara check out.o --original in.o                with out.o.proof, if it is there
  kara check in.o out.o --proof none              without a certificate: find a proof that they are equal
  kara check out.o --original in.o --solver z3    every question to another solver
  kara check out.o --original in.o --smt2 dir     also write the questions as SMT-LIB2

Exit status: 0 they do the same, 1 that could not be shown or is not so, 2 wrong request or input,
3 the solver is not on this machine.";

/// Options of `kara check`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// The optimized program (with a second file: the original)
    #[arg(value_name = "OUT")]
    first: String,
    /// The optimized program, when the first file is the original
    #[arg(value_name = "B", conflicts_with = "original")]
    second: Option<String>,
    /// What OUT was made of
    #[arg(long, value_name = "IN")]
    original: Option<String>,
    /// The certificate; `none` to look for a proof anew (default: OUT.proof, if it is there)
    #[arg(long, value_name = "FILE|none")]
    proof: Option<String>,
    /// Solver: `built-in`, z3, cvc5, or a program that reads SMT-LIB2 on stdin (default: z3 or cvc5
    /// when there is one, as a second opinion)
    #[arg(long, value_name = "NAME")]
    solver: Option<String>,
    /// Seconds that an external solver gets for one question
    #[arg(long, value_name = "S", default_value_t = 60)]
    timeout: u32,
    /// Write every question to this folder as SMT-LIB2
    #[arg(long, value_name = "DIR")]
    smt2: Option<PathBuf>,
    #[command(flatten)]
    sidecars: Sidecars,
}

/// What was found.
struct Finding {
    equal: bool,
    /// `certificate` or `comparison`.
    by: &'static str,
    rewrites: usize,
    queries: Option<u64>,
    message: String,
    details: Vec<String>,
    counterexample: Option<Counterexample>,
}

impl Options {
    /// Checks.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        interrupt::ends_at_once();
        let started = Instant::now();
        let (original, optimized) = match (&self.original, &self.second) {
            (Some(original), _) => (original, &self.first),
            (None, Some(second)) => (&self.first, second),
            (None, None) => {
                return Err(Failure::usage("it is not said what the program is to be compared with")
                    .of_file(&self.first)
                    .help("add --original IN, or name both versions: kara check IN OUT"));
            }
        };
        let mut input = Input::read(original, &self.sidecars)?;
        let mut output = Input::read_version(optimized, &input)?;
        let certificate = self.certificate(optimized)?;
        if self.sidecars.constant_data || certificate.as_ref().is_some_and(|(_, c)| c.assumes_constant_data()) {
            [&mut input, &mut output].into_iter().for_each(Input::assume_constant_data);
        }
        let mut prover = Prover::new(input.program(), ProverOptions::default());
        prover.backend = self.backend()?;
        let bar = Bar::silent(common.quiet || common.json, "checking");
        let finding = match certificate {
            Some((path, certificate)) => replay(&path, &certificate, &input, &output, &prover, &bar)?,
            None => search(&input, &output, &prover, &bar)?,
        };
        drop(bar);
        finding.print(common, started.elapsed().as_secs_f64());
        Ok(if finding.equal { Answer::Yes } else { Answer::No })
    }

    fn backend(&self) -> Result<Backend, Failure> {
        let second = || ["z3", "cvc5"].into_iter().find(|p| External::new(p, 1).is_available());
        let backend = match self.solver.as_deref().or_else(second) {
            // More patient than the search: the question is known to have had an answer.
            None | Some("built-in" | "cadical") => Backend::Cadical { conflicts: 1_000_000 },
            Some(program) => {
                if !External::new(program, 1).is_available() {
                    return Err(Failure::machine(format!("the solver {program} cannot be run"))
                        .help("install it, give its path, or leave --solver out"));
                }
                Backend::External(External::new(program, self.timeout))
            }
        };
        Ok(match &self.smt2 {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|e| Failure::file(&folder.to_string_lossy(), "make", &e))?;
                Backend::Exporting(Box::new(backend), folder.clone())
            }
            None => backend,
        })
    }

    fn certificate(&self, optimized: &str) -> Result<Option<(String, Certificate)>, Failure> {
        let beside = format!("{optimized}.proof");
        let path = match self.proof.as_deref() {
            Some("none") => return Ok(None),
            Some(path) => path.to_string(),
            None if Path::new(&beside).is_file() => beside,
            None => return Ok(None),
        };
        let text = std::fs::read_to_string(&path).map_err(|e| Failure::file(&path, "read", &e))?;
        let certificate = Certificate::parse(&text).map_err(|e| Failure::input(e.to_string()).of_file(&path))?;
        Ok(Some((path, certificate)))
    }
}

fn replay(
    path: &str,
    certificate: &Certificate,
    input: &Input,
    output: &Input,
    prover: &Prover,
    bar: &Bar,
) -> Result<Finding, Failure> {
    let no = |message: String| Finding {
        equal: false,
        by: "certificate",
        rewrites: certificate.len(),
        queries: None,
        message,
        details: Vec::new(),
        counterexample: None,
    };
    let mut watch = |done: usize, rule: &str| bar.show(done, certificate.len(), rule);
    match certificate.replay_watched(input.program(), output.program(), prover, &mut watch) {
        Ok(replayed) => Ok(Finding {
            equal: true,
            queries: Some(replayed.queries),
            ..no(format!(
                "{} does what {} does{}: the certificate holds",
                output.path,
                input.path,
                if certificate.assumes_constant_data() { ", unless read-only data is set before loading" } else { "" }
            ))
        }),
        Err(e @ CertificateError::Syntax { .. }) => Err(Failure::input(e.to_string()).of_file(path)),
        Err(e) => Ok(no(format!("the certificate {path} does not hold: {e}"))),
    }
}

/// Looks for a proof with the solver in this process, and has it confirmed by the one asked for.
fn search(input: &Input, output: &Input, prover: &Prover, bar: &Bar) -> Result<Finding, Failure> {
    let (a, b) = (input.program(), output.program());
    let finding = |equal, message: String| Finding {
        equal,
        by: "comparison",
        rewrites: 0,
        queries: None,
        message,
        details: Vec::new(),
        counterexample: None,
    };
    let finder = Prover::new(a, ProverOptions::default());
    Ok(match compare(a, b, &finder) {
        Comparison::Equal(proven) => {
            let found = replay("found here", &Certificate::of(a, &proven), input, output, prover, bar)?;
            let message = match found.equal {
                true => format!("{} does what {} does", output.path, input.path),
                false => found.message,
            };
            Finding { rewrites: proven.applied().len(), queries: found.queries, ..finding(found.equal, message) }
        }
        Comparison::OtherShape(why) => finding(false, format!("they cannot be compared: {why}")),
        Comparison::NotShown { function, refusal } => {
            let place = if function.is_empty() { String::new() } else { format!("function {function}: ") };
            let suspects = suspects(a, b, &finder);
            match counterexample::find(a, b, &suspects) {
                Some(found) => Finding {
                    details: vec![
                        format!("{} of function {}", found.difference, a.function(found.function).name),
                        format!("kara run {} {}", input.path, found.options(a)),
                        format!("kara run {} {}", output.path, found.options(a)),
                    ],
                    counterexample: Some(found),
                    ..finding(false, format!("{} does not do what {} does", output.path, input.path))
                },
                None => Finding {
                    details: suspects.into_iter().map(|(f, w)| describe(&a.function(f).name, &w)).collect(),
                    ..finding(false, format!("it could not be shown that they do the same: {place}{refusal}"))
                },
            }
        }
    })
}

/// An input on which the two may differ.
fn describe(function: &str, witness: &Witness) -> String {
    let mut out = format!("in {function} {} may differ", witness.what);
    if !witness.packet.is_empty() {
        out += &format!(", on the packet {}", hex(&witness.packet));
    }
    for (offset, bytes, value) in &witness.context {
        out += &format!(", with {value:#x} in the {bytes} bytes of context at {offset}");
    }
    for (map, key, value) in &witness.maps {
        out += &format!(", with {} at key {} of map {map}", hex(value), hex(key));
    }
    out
}

impl Finding {
    fn print(&self, common: &Common, seconds: f64) {
        if common.json {
            output::print_json(&json!({
                "schema": "kara/check/1",
                "ok": self.equal,
                "exit_code": !self.equal as u8,
                "seconds": seconds,
                "equal": self.equal,
                "by": self.by,
                "rewrites": self.rewrites,
                "queries": self.queries,
                "message": self.message,
                "details": self.details,
                "counterexample": self.counterexample.as_ref().map(|c| json!({
                    "packet": hex(&c.packet),
                    "maps": c.maps.iter().map(|(m, k, v)| json!({"map": m, "key": hex(k), "value": hex(v)})).collect::<Vec<_>>(),
                    "difference": c.difference,
                })),
            }));
            return;
        }
        if common.quiet {
            return;
        }
        let queries = self.queries.map_or(String::new(), |n| format!(", {n} questions to the solver"));
        eprintln!("{} ({} rewrites{queries}, {seconds:.2} s)", self.message, self.rewrites);
        self.details.iter().for_each(|d| eprintln!("  {d}"));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
