//! `kara bench`: how much faster one version of a program runs than another.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars};
use crate::judge::{Kernel, TypeOption};
use crate::output;
use crate::scenario::Scenario;
use crate::table;
use crate::timing::{self, Plan, Times, Way};
use karakoram_lab::bootstrap::Estimate;
use karakoram_lab::random::Random;
use karakoram_lab::ratio::ratio;
use karakoram_lab::statistics::median;
use serde_json::{Value, json};

const AFTER_HELP: &str = "\
Examples:
  kara bench prog.o prog.opt.o --input prog.toml         the runs that the scenario calls representative
  kara bench a.o b.o --input 'packet:eth / ipv4 / udp'   one packet
  kara bench a.o b.o --input capture.pcap --prog xdp --rounds 100

Every round loads both versions anew, and A a second time as a control, and runs each many times on
each packet in the kernel's test run, in random order. A ratio is the median over rounds, with a 95 %
bootstrap interval; runs are combined by their geometric mean. Nothing is subtracted: the kernel's
loop around the program is in all times alike, so ratios of short programs are understated. Runs that
change their packet are timed one by one. docs/inputs.md describes scenarios.

Exit status: 0 measured, 2 wrong request or input, 3 not possible on this machine.";

/// The versions that are measured: A, B, and A again.
const VERSIONS: usize = 3;

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
    #[arg(short, long, value_name = "FILE|hex:BYTES|packet:LAYERS", required = true)]
    input: Vec<String>,
    /// The program, by function or section, when there are several
    #[arg(long, value_name = "NAME")]
    prog: Option<String>,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    rounds: u32,
    /// Runs of each version on each packet in a round
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    repeat: u32,
    /// Seed of the order, and of the intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    program_type: TypeOption,
}

/// One line of the result.
struct Line {
    name: String,
    way: Way,
    a_ns: f64,
    b_ns: f64,
    speedup: Estimate,
    control: Estimate,
}

impl Options {
    /// Measures.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let scenario = Scenario::read(&self.input)?;
        let a = Input::read(&self.first, &Sidecars::default())?;
        let b = Input::read_version(&self.second, &a)?;
        let entries = [a.entry(self.prog.as_deref())?, b.entry(self.prog.as_deref())?];
        let kernel = Kernel::open(self.program_type.program_type).map_err(Failure::machine)?;
        let load = |version: usize| match version {
            1 => kernel.load_input(&b, entries[1]),
            _ => kernel.load_input(&a, entries[0]),
        };
        let plan = Plan { rounds: self.rounds as usize, repeat: self.repeat, seed: self.seed };
        let times = timing::measure(VERSIONS, &load, &scenario, plan).map_err(|e| e.of_file(&self.first))?;
        if times.is_empty() {
            return Err(Failure::usage("there is nothing to run").of_file(&self.input[0]));
        }
        let mut random = Random::new(self.seed);
        let lines: Vec<Line> = times.iter().map(|t| line(t, &mut random)).collect();
        let all = |version: usize| times.iter().map(|t| t.ns[version].as_slice()).collect::<Vec<_>>();
        let speedup = ratio(&all(0), &all(1), &mut random);
        let control = ratio(&all(0), &all(2), &mut random);
        let program = &a.program().function(entries[0]).name;
        match common.json {
            true => output::print_json(&self.to_json(program, &times, &lines, speedup, control)),
            false => output::print_text(&self.to_text(&lines, speedup, control)),
        }
        Ok(Answer::Yes)
    }

    fn to_text(&self, lines: &[Line], speedup: Estimate, control: Estimate) -> String {
        let header = ["run", "A ns", "B ns", "speed-up", "A against itself", "timed"];
        let row = |l: &Line| {
            let way = if l.way == Way::Batch { "in batches" } else { "one by one" };
            let ns = |ns: f64| format!("{ns:.2}");
            vec![l.name.clone(), ns(l.a_ns), ns(l.b_ns), interval(l.speedup), interval(l.control), way.to_string()]
        };
        let mut out = table::markdown(&header, &lines.iter().map(row).collect::<Vec<_>>());
        out += &format!(
            "{} ({} runs, {} rounds, seed {}, {})\n",
            self.verdict(speedup),
            lines.len(),
            self.rounds,
            self.seed,
            Kernel::name()
        );
        out += &format!("{} against itself: {}\n", self.first, interval(control));
        out
    }

    fn verdict(&self, speedup: Estimate) -> String {
        let (a, b) = (&self.first, &self.second);
        if speedup.holds(1.0) {
            return format!("no difference between {b} and {a} was measured: {}", interval(speedup));
        }
        if speedup.value > 1.0 {
            return format!("{b} is {} faster than {a}", interval(speedup));
        }
        format!("{b} is {} slower than {a}", interval(speedup.inverse()))
    }

    fn to_json(&self, program: &str, times: &[Times], lines: &[Line], speedup: Estimate, control: Estimate) -> Value {
        let run = |(times, line): (&Times, &Line)| {
            json!({
                "name": line.name, "timed": line.way, "a_ns": line.a_ns, "b_ns": line.b_ns,
                "speedup": to_json(line.speedup), "control": to_json(line.control),
                "a_rounds_ns": times.ns[0], "b_rounds_ns": times.ns[1], "control_rounds_ns": times.ns[2],
            })
        };
        json!({
            "schema": "kara/bench/1", "ok": true, "exit_code": 0, "program": program,
            "a": self.first, "b": self.second, "kernel": Kernel::name(),
            "rounds": self.rounds, "repeat": self.repeat, "seed": self.seed,
            "speedup": to_json(speedup), "control": to_json(control),
            "runs": times.iter().zip(lines).map(run).collect::<Vec<_>>(),
        })
    }
}

fn line(times: &Times, random: &mut Random) -> Line {
    let one = |version: usize| [times.ns[version].as_slice()];
    let middle = |version: usize| median(&times.ns[version]);
    Line {
        name: times.name.clone(),
        way: times.way,
        a_ns: middle(0),
        b_ns: middle(1),
        speedup: ratio(&one(0), &one(1), random),
        control: ratio(&one(0), &one(2), random),
    }
}

fn to_json(ratio: Estimate) -> Value {
    json!({ "ratio": ratio.value, "low": ratio.low, "high": ratio.high })
}

/// `1.07x ± 0.01`
fn interval(ratio: Estimate) -> String {
    format!("{:.3}x ± {:.3}", ratio.value, ratio.plus_minus())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_verdict_says_which_is_faster() {
        let options = Alone::parse_from(["bench", "a.o", "b.o", "--input", "hex:00"]).options;
        let verdict = |ratio, low, high| options.verdict(Estimate { value: ratio, low, high });
        assert_eq!(verdict(1.07, 1.06, 1.08), "b.o is 1.070x ± 0.010 faster than a.o");
        assert_eq!(verdict(0.8, 0.8, 0.8), "b.o is 1.250x ± 0.000 slower than a.o");
        assert!(verdict(1.0, 0.99, 1.02).starts_with("no difference"));
    }
}
