//! `kara lab count`: executed instructions of two versions, the same numbers in every run.

use super::guest::quoted;
use super::machine::CacheOption;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use crate::table;
use karakoram_lab::guest::{Done, Job};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  kara lab count prog.o prog.opt.o --input packet.pcap
  kara lab count a.o b.o --input hex:ffffffffffff000000000000080045... --prog xdp --kernel 6.1

Both are run by the kernel's test run in a guest whose clock advances by one nanosecond for each
instruction, each input once to warm up and once to be counted. What the kernel itself executes around
a run is in both numbers alike; so are helpers.

Exit status: 0 counted, 2 wrong request or input, 3 not possible on this machine.";

/// Options of `kara lab count`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// The program
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Another version of it
    #[arg(value_name = "B")]
    second: Option<PathBuf>,
    /// What they run on, as `kara run` takes it; may be repeated
    #[arg(short, long, value_name = "FILE|hex:BYTES", required = true)]
    input: Vec<String>,
    /// The program, by function or section, when there are several
    #[arg(long, value_name = "NAME")]
    prog: Option<String>,
    /// Version of the guest's kernel
    #[arg(long, value_name = "VERSION", default_value = "6.12")]
    kernel: String,
    /// End the guest after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    time_limit: u64,
    #[command(flatten)]
    cache: CacheOption,
}

/// What is counted.
pub struct Counting<'a> {
    /// Versions of a program.
    pub versions: Vec<&'a Path>,
    /// What they run on, as `kara run` takes it.
    pub inputs: &'a [String],
    /// The program, when there are several.
    pub program: Option<&'a str>,
    /// Version of the guest's kernel.
    pub kernel: &'a str,
    /// When the guest is ended.
    pub limit: Duration,
    /// Where kernels are kept.
    pub cache: &'a CacheOption,
}

/// Instructions of each run of a version, with its name.
pub type Counts = Vec<(String, u64)>;

impl Options {
    /// Counts.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let counting = Counting {
            versions: std::iter::once(&self.first).chain(&self.second).map(PathBuf::as_path).collect(),
            inputs: &self.input,
            program: self.prog.as_deref(),
            kernel: &self.kernel,
            limit: Duration::from_secs(self.time_limit),
            cache: &self.cache,
        };
        let counts = counting.run()?;
        if common.json {
            output::print_json(&json!({
                "schema": "kara/lab/count/1", "ok": true, "exit_code": 0, "kernel": self.kernel,
                "instructions": counts.iter().map(|c| json!(c)).collect::<Vec<_>>(),
            }));
        } else {
            output::print_text(&counting.to_text(&counts));
        }
        Ok(Answer::Yes)
    }
}

impl Counting<'_> {
    /// Counts, for each version.
    pub fn run(&self) -> Result<Vec<Counts>, Failure> {
        let mut job = Job { counts_instructions: true, time_limit: self.limit, ..Job::new(self.script()) };
        job.files
            .extend(self.versions.iter().enumerate().map(|(i, path)| (name(i, "program", path), path.to_path_buf())));
        for (i, input) in self.inputs.iter().enumerate().filter(|(_, input)| Path::new(input).is_file()) {
            job.files.push((name(i, "input", Path::new(input)), PathBuf::from(input)));
        }
        let done = self.cache.run(self.kernel, &mut job)?;
        (0..self.versions.len()).map(|i| counts(&done, i)).collect()
    }

    /// A table.
    pub fn to_text(&self, counts: &[Counts]) -> String {
        to_text(counts, self.kernel)
    }

    /// Runs every version on all inputs, twice.
    fn script(&self) -> String {
        let commands = self.versions.iter().enumerate().map(|(v, path)| {
            let mut words =
                ["kara", "--json", "run", &name(v, "program", path), "--on", "kernel"].map(String::from).to_vec();
            words.extend(self.program.iter().flat_map(|p| ["--prog".to_string(), p.to_string()]));
            for _ in 0..2 {
                for (i, input) in self.inputs.iter().enumerate() {
                    let is_file = Path::new(input).is_file();
                    let given = if is_file { name(i, "input", Path::new(input)) } else { input.clone() };
                    words.extend(["--input".to_string(), given]);
                }
            }
            format!("{} >/out/{v}\n", quoted(&words))
        });
        commands.collect()
    }
}

/// Name of a file in the guest, with its ending.
fn name(number: usize, what: &str, path: &Path) -> String {
    let ending = path.extension().map_or(String::new(), |e| format!(".{}", e.to_string_lossy()));
    format!("{what}{number}{ending}")
}

/// Instructions of each counted run of a version, with the name of the run.
fn counts(done: &Done, version: usize) -> Result<Counts, Failure> {
    let failed = |why: &str| {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_string();
        Failure::machine(format!("kara did not work in the guest: {why} {said}"))
    };
    let file = done.files.iter().find(|(name, _)| *name == Path::new(&version.to_string()));
    let (_, text) = file.ok_or_else(|| failed("it wrote nothing"))?;
    let answer: Value = serde_json::from_slice(text).map_err(|_| failed(&String::from_utf8_lossy(text)))?;
    if let Some(error) = answer["error"]["message"].as_str() {
        return Err(Failure::input(format!("in the guest: {error}")));
    }
    let runs = answer["runs"].as_array().ok_or_else(|| failed("it reports no runs"))?;
    let counted = runs[runs.len() / 2..].iter().enumerate().map(|(i, run)| {
        let title = run["name"].as_str().map_or_else(|| format!("run {}", i + 1), String::from);
        run["duration_ns"].as_u64().map(|n| (title, n))
    });
    counted.collect::<Option<_>>().ok_or_else(|| failed("a run has no duration"))
}

fn to_text(counts: &[Counts], kernel: &str) -> String {
    let row = |i: usize| {
        let (name, a) = &counts[0][i];
        let b = counts.get(1).and_then(|b| b.get(i)).map(|(_, n)| *n);
        vec![name.clone(), if counts.len() > 1 { table::change(Some(*a), b) } else { a.to_string() }]
    };
    table::markdown(&["run", "instructions"], &(0..counts[0].len()).map(row).collect::<Vec<_>>())
        + &format!("counted on Linux {kernel}, the kernel's share included\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(text: &str) -> Done {
        Done { files: vec![(PathBuf::from("0"), text.as_bytes().to_vec())], ..Done::default() }
    }

    #[test]
    fn the_second_half_is_counted() {
        let text = r#"{"runs":[{"duration_ns":9},{"duration_ns":8},{"duration_ns":7},{"duration_ns":6,"name":"x"}]}"#;
        assert_eq!(counts(&done(text), 0), Ok(vec![("run 1".to_string(), 7), ("x".to_string(), 6)]));
        assert!(counts(&done(text), 1).is_err());
        assert!(counts(&done("{}"), 0).is_err());
        assert!(counts(&done(r#"{"error":{"message":"no"}}"#), 0).is_err());
    }
}
