//! What `kara bench` says of times.

use super::Options;
use crate::judge::Kernel;
use crate::table;
use karakoram_lab::bootstrap::Estimate;
use karakoram_lab::comparison::{Finding, band, judge};
use karakoram_lab::random::Random;
use karakoram_lab::ratio::ratio;
use karakoram_lab::results::Results;
use karakoram_lab::statistics::median;
use karakoram_lab::test_run::{Plan, Way};
use karakoram_lab::trial::Statistic;
use serde_json::{Value, json};

/// Within which share two are called equivalent.
const TOLERANCE: f64 = 0.01;
/// What a program takes by itself at least, so that it can be told from what takes nothing.
const LEAST_NS: f64 = 2.0;

/// All that was timed.
pub struct Times {
    runs: Vec<Run>,
    speedup: Estimate,
    control: Estimate,
    /// Without what nothing takes, where all runs take longer.
    net: Option<Estimate>,
    finding: Finding,
}

/// One input.
struct Run {
    name: String,
    way: Way,
    /// Runs in a slice.
    repeat: u32,
    /// A, B, A again, and nothing, a time for each round.
    ns: [Vec<f64>; 4],
    speedup: Estimate,
    control: Estimate,
}

/// Times in the rounds in which both versions take longer than nothing.
fn net(runs: &[Run]) -> Option<[Vec<Vec<f64>>; 2]> {
    let without = |run: &Run, version: usize| -> Vec<f64> {
        run.ns[version].iter().zip(&run.ns[3]).map(|(time, nothing)| time - nothing).collect()
    };
    let [a, b] = [0, 1].map(|version| runs.iter().map(|run| without(run, version)).collect::<Vec<_>>());
    let is_told =
        |times: &Vec<Vec<f64>>| times.iter().all(|run| !run.is_empty() && run.iter().all(|ns| *ns >= LEAST_NS));
    (is_told(&a) && is_told(&b)).then_some([a, b])
}

impl Times {
    /// From the results; every trial has all inputs.
    pub fn of(results: &Results, plan: &Plan) -> Times {
        let mut random = Random::new(results.seed);
        let measured = plan.cases.iter().filter(|one| one.case.is_measured);
        let runs: Vec<Run> =
            measured.map(|one| run(results, &one.case.name, (one.way, one.repeat), &mut random)).collect();
        let all = |version: usize| runs.iter().map(|r| r.ns[version].as_slice()).collect::<Vec<_>>();
        let speedup = ratio(&all(0), &all(1), &mut random);
        let control = ratio(&all(0), &all(2), &mut random);
        let finding = judge(&speedup, band(&control), all(0)[0].len(), TOLERANCE);
        let net = net(&runs).map(|times| {
            let [a, b] = times.each_ref().map(|all| all.iter().map(Vec::as_slice).collect::<Vec<_>>());
            ratio(&a, &b, &mut random)
        });
        Times { net, runs, speedup, control, finding }
    }
}

fn run(results: &Results, name: &str, (way, repeat): (Way, u32), random: &mut Random) -> Run {
    let list = |variant: &str, is_control: bool| {
        let mine = results.trials.iter().filter(|t| t.counts() && t.variant == variant && t.is_control == is_control);
        let samples = mine.filter_map(|t| t.samples.iter().find(|s| s.name == name));
        samples.filter_map(|s| s.reduce(Statistic::Mean)).collect::<Vec<f64>>()
    };
    let ns = [list("A", false), list("B", false), list("A", true), list("nothing", false)];
    let speedup = ratio(&[&ns[0]], &[&ns[1]], random);
    let control = ratio(&[&ns[0]], &[&ns[2]], random);
    Run { name: name.to_string(), way, repeat, ns, speedup, control }
}

impl Options {
    pub(super) fn to_text(&self, times: &Times, results: &Results) -> String {
        let header = ["run", "A ns", "B ns", "nothing ns", "speed-up", "A against itself", "timed"];
        let row = |r: &Run| {
            let way = match r.way {
                Way::Batch => "in batches",
                Way::Restored => "in batches, restored",
                Way::Single => "one by one",
            };
            let ns = |version: usize| format!("{:.2}", median(&r.ns[version]));
            vec![r.name.clone(), ns(0), ns(1), ns(3), interval(r.speedup), interval(r.control), way.to_string()]
        };
        let mut out = table::markdown(&header, &times.runs.iter().map(row).collect::<Vec<_>>());
        let (runs, rounds) = (times.runs.len(), self.rounds);
        let counts = format!("{runs} runs, {rounds} rounds, seed {}, {}", self.seed, Kernel::name());
        out += &format!("{} ({counts})\n", self.verdict(times.speedup, times.finding));
        if let Some(net) = times.net {
            out += &format!("without what a program takes that does nothing: {}\n", interval(net));
        }
        out += &format!("{} against itself: {}\n", self.first, interval(times.control));
        results.contamination.iter().for_each(|c| out += &format!("warning: {c}\n"));
        out
    }

    /// `b.o is 1.070x ± 0.010 faster than a.o`, if that can be said.
    fn verdict(&self, speedup: Estimate, finding: Finding) -> String {
        let (a, b) = (&self.first, &self.second);
        match finding {
            Finding::Equivalent => format!("{b} takes the time of {a}: {}", interval(speedup)),
            Finding::Open => format!("no difference between {b} and {a} was measured: {}", interval(speedup)),
            Finding::Different if speedup.value > 1.0 => format!("{b} is {} faster than {a}", interval(speedup)),
            Finding::Different => format!("{b} is {} slower than {a}", interval(speedup.inverse())),
        }
    }

    pub(super) fn to_json(&self, program: &str, times: &Times, results: &Results) -> Value {
        let run = |r: &Run| {
            json!({
                "name": r.name, "timed": r.way, "repeat": r.repeat, "a_ns": median(&r.ns[0]), "b_ns": median(&r.ns[1]),
                "nothing_ns": median(&r.ns[3]),
                "speedup": to_json(r.speedup), "control": to_json(r.control),
                "a_rounds_ns": r.ns[0], "b_rounds_ns": r.ns[1], "control_rounds_ns": r.ns[2],
            })
        };
        json!({
            "schema": "kara/bench/1", "ok": true, "exit_code": 0, "program": program,
            "a": self.first, "b": self.second, "kernel": Kernel::name(),
            "rounds": self.rounds, "seed": self.seed,
            "net_speedup": times.net.map(to_json), "speedup": to_json(times.speedup), "control": to_json(times.control), "finding": times.finding,
            "contamination": results.contamination, "runs": times.runs.iter().map(run).collect::<Vec<_>>(),
        })
    }
}

fn to_json(ratio: Estimate) -> Value {
    json!({ "ratio": ratio.value, "low": ratio.low, "high": ratio.high })
}

/// `1.070x ± 0.010`
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
        let options = Alone::parse_from(["bench", "a.o", "b.o"]).options;
        let verdict = |value, low, high, finding| options.verdict(Estimate { value, low, high }, finding);
        assert_eq!(verdict(1.07, 1.06, 1.08, Finding::Different), "b.o is 1.070x ± 0.010 faster than a.o");
        assert_eq!(verdict(0.8, 0.8, 0.8, Finding::Different), "b.o is 1.250x ± 0.000 slower than a.o");
        assert!(verdict(1.0, 0.99, 1.02, Finding::Open).starts_with("no difference"));
        assert!(verdict(1.0, 0.999, 1.001, Finding::Equivalent).contains("takes the time of"));
    }
}
