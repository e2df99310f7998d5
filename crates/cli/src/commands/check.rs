//! `kara check`: are two versions equal, or does a certificate hold? Trusts neither the optimizer nor
//! the solver that found the proof.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars};
use crate::output;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Prover;
use karakoram_proof::certificate::{Certificate, CertificateError};
use karakoram_proof::check::Witness;
use karakoram_proof::compare::{Comparison, compare, suspects};
use karakoram_proof::smtlib::External;
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
    /// Solver: `built-in`, z3, cvc5, or a program that reads SMT-LIB2 on stdin
    #[arg(long, value_name = "NAME", default_value = "built-in")]
    solver: String,
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
}

impl Options {
    /// Checks.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
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
        let input = Input::read(original, &self.sidecars)?;
        let output = Input::read_version(optimized, &input)?;
        let mut prover = Prover::new(input.program(), ProverOptions::default());
        prover.backend = self.backend()?;
        let finding = match self.certificate(optimized)? {
            Some((path, certificate)) => replay(&path, &certificate, &input, &output, &prover)?,
            None => search(&input, &output, &prover),
        };
        finding.print(common, started.elapsed().as_secs_f64());
        Ok(if finding.equal { Answer::Yes } else { Answer::No })
    }

    fn backend(&self) -> Result<Backend, Failure> {
        let backend = match self.solver.as_str() {
            // More patient than the search: the question is known to have had an answer.
            "built-in" | "cadical" => Backend::Cadical { conflicts: 1_000_000 },
            program => {
                if !External::new(program, 1).is_available() {
                    return Err(Failure::machine(format!("the solver {program} cannot be run"))
                        .help("install it, give its path, or leave --solver out"));
                }
                Backend::External { program: program.to_string(), seconds: self.timeout }
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
) -> Result<Finding, Failure> {
    let no = |message: String| Finding {
        equal: false,
        by: "certificate",
        rewrites: certificate.len(),
        queries: None,
        message,
        details: Vec::new(),
    };
    match certificate.replay(input.program(), output.program(), prover) {
        Ok(replayed) => Ok(Finding {
            equal: true,
            queries: Some(replayed.queries),
            ..no(format!("{} does what {} does: the certificate holds", output.path, input.path))
        }),
        Err(e @ CertificateError::Syntax { .. }) => Err(Failure::input(e.to_string()).of_file(path)),
        Err(e) => Ok(no(format!("the certificate {path} does not hold: {e}"))),
    }
}

fn search(input: &Input, output: &Input, prover: &Prover) -> Finding {
    let (a, b) = (input.program(), output.program());
    let finding = |equal, message: String| Finding {
        equal,
        by: "comparison",
        rewrites: 0,
        queries: None,
        message,
        details: Vec::new(),
    };
    match compare(a, b, prover) {
        Comparison::Equal(proven) => Finding {
            rewrites: proven.applied().len(),
            ..finding(true, format!("{} does what {} does", output.path, input.path))
        },
        Comparison::OtherShape(why) => finding(false, format!("they cannot be compared: {why}")),
        Comparison::NotShown { function, refusal } => {
            let place = if function.is_empty() { String::new() } else { format!("function {function}: ") };
            Finding {
                details: suspects(a, b, prover)
                    .into_iter()
                    .map(|(f, witness)| describe(&a.function(f).name, &witness))
                    .collect(),
                ..finding(false, format!("it could not be shown that they do the same: {place}{refusal}"))
            }
        }
    }
}

/// An input on which the two may differ.
fn describe(function: &str, witness: &Witness) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
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
