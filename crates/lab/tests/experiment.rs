//! Experiments from definition to report, with trials that measure nothing: their numbers are made from
//! the seed, so all of it is the same in every run.

use karakoram_lab::analysis::Analysis;
use karakoram_lab::error::LabError;
use karakoram_lab::experiment::Experiment;
use karakoram_lab::presentation;
use karakoram_lab::random::Random;
use karakoram_lab::report::{Verdict, html};
use karakoram_lab::results::Results;
use karakoram_lab::runner::{Order, run};
use karakoram_lab::trial::{Curve, Kind, Outcome, Parameters, Request, Samples, Trial, Workshop, histogram};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Makes numbers around `ns`, with one percent of noise.
struct Synthetic;

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Made {
    ns: f64,
    #[serde(default)]
    late_one_in: u64,
    #[serde(default)]
    is_missing: bool,
    #[serde(default)]
    breaks: bool,
    #[serde(default)]
    is_generator_bound: bool,
}

impl Kind for Synthetic {
    fn name(&self) -> &'static str {
        "synthetic"
    }

    fn prepare(&self, parameters: &Parameters, _: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let made: Made = parameters.read()?;
        match made.is_missing {
            true => Err(LabError::Machine("there is no such hook".into(), "another kernel".into())),
            false => Ok(Box::new(made)),
        }
    }
}

impl Trial for Made {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let mut random = Random::new(request.seed);
        if self.breaks {
            return Err(LabError::Machine("the device went away".into(), String::new()));
        }
        if self.late_one_in > 0 && random.one_in(self.late_one_in) {
            return Ok(Outcome::voided("the generator was late"));
        }
        let mut times = histogram();
        let shift = 1.0 + random.below(1000) as f64 / 1e5;
        (0..500).for_each(|_| times.record((self.ns * shift) as u64 + random.below(40)).unwrap());
        let rate = 1e9 / self.ns / shift;
        let curve = Curve {
            name: "received over offered".into(),
            x: "offered (packets/s)".into(),
            y: "received (packets/s)".into(),
            points: (1..=5).map(|n| (f64::from(n) * 1e5, (f64::from(n) * 1e5).min(rate))).collect(),
        };
        let samples = vec![Samples::many("rtt", "ns", times), Samples::one("rate", "packets/s", rate)];
        let mut outcome = Outcome { samples, curves: vec![curve], ..Outcome::default() };
        if self.is_generator_bound {
            outcome.note_generator_limit();
        }
        Ok(outcome)
    }
}

const TEXT: &str = r#"
title = "A synthetic experiment"
about = "Numbers from a seed."
kind = "synthetic"
rounds = 12
quick = { rounds = 5, parameters = { late-one-in = 0 } }

[[variant]]
name = "socket"
parameters = { ns = 40_000 }
[[variant]]
name = "tc"
parameters = { ns = 20_000, late-one-in = 4 }
[[variant]]
name = "tc too"
parameters = { ns = 20_000 }
[[variant]]
name = "xdp"
parameters = { ns = 19_000 }
[[variant]]
name = "offload"
parameters = { ns = 1, is-missing = true }
[[variant]]
name = "late"
parameters = { ns = 1, late-one-in = 1 }

[[metric]]
name = "median"
title = "round trip, median"
samples = "rtt"
better = "lower"
published = { socket = 44_300, xdp = 37_800 }
[[metric]]
name = "rate"
title = "rate"
samples = "rate"
better = "higher"

[[figure]]
form = "boxes"
of = "rtt"
[[figure]]
form = "distribution"
of = "rtt"
[[figure]]
form = "ratios"
of = "median"
[[figure]]
form = "values"
of = "rate"
[[figure]]
form = "over"
of = "rate"
over = "ns"
[[figure]]
form = "curve"
of = "received over offered"

[[claim]]
text = "XDP answers before tc, tc before the socket"
source = "s"
published = "p"
metric = "median"
rule = { order = ["xdp", "tc", "socket"] }
[[claim]]
text = "the socket is fastest"
source = "s"
published = "p"
metric = "median"
rule = { order = ["socket", "xdp"] }
mechanism = "the wire is missing"
[[claim]]
text = "one tc is slower than the other"
source = "s"
published = "p"
metric = "median"
rule = { order = ["tc", "tc too"] }
[[claim]]
text = "twice as long"
source = "s"
published = "p"
metric = "median"
rule = { ratio = { of = ["socket", "tc"], at-least = 1.9, at-most = 2.1 } }
[[claim]]
text = "ten times the rate"
source = "s"
published = "p"
metric = "rate"
rule = { ratio = { of = ["tc", "socket"], at-least = 10 } }
[[claim]]
text = "twenty microseconds"
source = "s"
published = "p"
metric = "median"
rule = { value = { of = "tc", at-most = 21_000 } }
[[claim]]
text = "offload is faster"
source = "s"
published = "p"
metric = "median"
rule = { order = ["offload", "xdp"] }
[[claim]]
text = "late is faster"
source = "s"
published = "p"
metric = "median"
rule = { order = ["late", "xdp"] }
[[claim]]
text = "zero copy"
source = "s"
published = "p"
rule = { not-testable = "veth has none" }
"#;

fn measured(text: &str, is_quick: bool) -> Result<Results, LabError> {
    let experiment = Experiment::parse("synthetic", text)?;
    let optimize = |path: &Path| Ok(PathBuf::from(path));
    let workshop = Workshop { programs: Path::new("."), scratch: Path::new("."), optimize: &optimize };
    run(
        &Synthetic,
        &Order {
            experiment: &experiment,
            is_quick,
            seed: 5,
            workshop: &workshop,
            contamination: Vec::new(),
            is_interrupted: &|| false,
            progress: &|_| {},
        },
    )
}

#[test]
fn claims_come_out_as_they_should() {
    let analysis = Analysis::of(&measured(TEXT, false).unwrap()).unwrap();
    let expected = [
        (Verdict::Holds, ""),
        (Verdict::DoesNotHold, "the wire is missing"),
        (Verdict::Inconclusive, "cannot be told apart: tc and tc too"),
        (Verdict::Holds, ""),
        (Verdict::DoesNotHold, "is not at least 10"),
        (Verdict::Holds, ""),
        (Verdict::NotTestable, "no such hook"),
        (Verdict::Inconclusive, "trials of late were void: the generator was late"),
        (Verdict::NotTestable, "veth has none"),
    ];
    for (claim, (verdict, reason)) in analysis.claims.iter().zip(expected) {
        assert_eq!(claim.verdict, verdict, "{claim:?}");
        assert!(claim.reason.contains(reason), "{claim:?}");
    }
    assert_eq!(analysis.claims.len(), expected.len());
}

#[test]
fn what_the_generator_limits_says_nothing_about_rates() {
    let run = |variant: &str, claim: &str| {
        let text = TEXT.replace(variant, &format!("{variant}, is-generator-bound = true"));
        let results = measured(&text.replace("at-least = 10 ", claim), false).unwrap();
        let analysis = Analysis::of(&results).unwrap();
        assert_eq!(analysis.claims[3].verdict, Verdict::Holds, "times are as true as ever");
        (analysis.claims[4].verdict, analysis.claims[4].reason.clone(), results)
    };
    // The rate of tc is twice that of the socket; either could be higher than it was seen to be.
    let (verdict, reason, results) = run("ns = 40_000", "at-least = 1.5 ");
    assert_eq!(verdict, Verdict::Inconclusive);
    assert_eq!(reason, "the generator set the limit in 12 of 12 trials of socket");
    assert_eq!(run("ns = 40_000", "at-least = 10 ").0, Verdict::DoesNotHold);
    assert_eq!(run("ns = 20_000", "at-least = 10 ").0, Verdict::Inconclusive);
    assert_eq!(run("ns = 20_000", "at-least = 1.5 ").0, Verdict::Holds);
    assert_eq!(run("ns = 20_000", "at-least = 1.5, at-most = 2.5 ").0, Verdict::Inconclusive);
    let page = html(&presentation::report("Bound", &[results]).unwrap()).unwrap();
    assert_eq!(page.matches("the generator set the limit: their rates are lower bounds").count(), 1);
}

#[test]
fn nothing_takes_the_place_of_a_baseline_without_values() {
    let (head, variants) = TEXT.split_once("parameters = { ns = 40_000 }").unwrap();
    let results = measured(&format!("{head}parameters = {{ ns = 40_000, late-one-in = 1 }}{variants}"), false).unwrap();
    let page = html(&presentation::report("Late", &[results]).unwrap()).unwrap();
    assert!(page.contains("<td>the baseline has none</td>") && !page.contains("<td>baseline</td>"));
}

#[test]
fn few_rounds_conclude_nothing() {
    let analysis = Analysis::of(&measured(&TEXT.replace("rounds = 12", "rounds = 4"), false).unwrap()).unwrap();
    assert_eq!(analysis.claims[0].verdict, Verdict::Inconclusive);
    assert!(analysis.claims[0].reason.contains("too few"), "{}", analysis.claims[0].reason);
}

#[test]
fn the_baseline_is_measured_twice_and_order_is_random_but_repeatable() {
    let (results, again) = (measured(TEXT, false).unwrap(), measured(TEXT, false).unwrap());
    let order = |r: &Results| r.trials.iter().map(|t| (t.variant.clone(), t.is_control, t.round)).collect::<Vec<_>>();
    assert_eq!(order(&results), order(&again));
    let first = |round: i64| results.trials.iter().find(|t| t.round == round).map(|t| t.variant.clone());
    assert!((0..12).any(|r| first(r) != first(0)), "the order never changes");
    let controls = results.trials.iter().filter(|t| t.is_control && t.counts()).count();
    assert_eq!(controls, 12);
    assert!(results.trials.iter().any(|t| t.round < 0 && !t.counts()), "the first round warms up");
    let late = results.trials.iter().filter(|t| t.variant == "late" && t.round == 0).count();
    assert_eq!(late, 2, "a void trial is made again, once");
    assert_eq!(measured(TEXT, true).unwrap().trials.iter().map(|t| t.round).max(), Some(4));
}

#[test]
fn rounds_end_when_intervals_are_narrow() {
    let open =
        |target: f64| TEXT.replace("rounds = 12", &format!("rounds = {{ least = 6, most = 9, target = {target} }}"));
    let last = |target| measured(&open(target), false).unwrap().trials.iter().map(|t| t.round).max();
    assert_eq!((last(0.2), last(0.000001)), (Some(5), Some(8)));
}

#[test]
fn a_variant_that_breaks_ends_alone_and_a_wrong_one_ends_all() {
    let broken = TEXT.replace("ns = 19_000", "ns = 19_000, breaks = true");
    let results = measured(&broken, false).unwrap();
    assert_eq!(results.unavailable["xdp"], "the device went away");
    assert!(results.trials.iter().any(|t| t.variant == "tc too" && t.round == 11));
    let wrong = measured(&TEXT.replace("ns = 19_000", "nz = 19_000"), false).unwrap_err();
    assert!(wrong.to_string().contains("variant xdp") && wrong.to_string().contains("nz"), "{wrong}");
}

#[test]
fn an_interrupted_run_has_no_results() {
    let experiment = Experiment::parse("synthetic", TEXT).unwrap();
    let optimize = |path: &Path| Ok(PathBuf::from(path));
    let asked = AtomicUsize::new(0);
    let order = Order {
        experiment: &experiment,
        is_quick: true,
        seed: 1,
        workshop: &Workshop { programs: Path::new("."), scratch: Path::new("."), optimize: &optimize },
        contamination: Vec::new(),
        is_interrupted: &|| asked.fetch_add(1, Ordering::Relaxed) > 10,
        progress: &|_| {},
    };
    assert_eq!(run(&Synthetic, &order).unwrap_err(), LabError::Interrupted);
}

#[test]
fn results_survive_their_file_and_reports_are_made_from_it_alone() {
    let results = measured(TEXT, false).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("synthetic");
    results.write(&folder).unwrap();
    let read = Results::read(&folder).unwrap();
    assert!(read == results, "something is lost on the way through JSON");
    let page = |r: &Results| html(&presentation::report("Synthetic", std::slice::from_ref(r)).unwrap()).unwrap();
    assert!(page(&read) == page(&results));
    let report = presentation::report("Synthetic", &[read]).unwrap();
    karakoram_lab::report::write(&report, &folder).unwrap();
    let csv = std::fs::read_to_string(folder.join("synthetic-median.csv")).unwrap();
    let header = "variant,\"round trip, median (µs)\",\"round trip, median low\",\"round trip, median high\",";
    assert!(csv.starts_with(header), "{csv}");
    assert_eq!(presentation::tally(&report)["holds here"], 3);
    for name in
        ["rtt-boxes", "rtt-distribution", "median-ratios", "rate-values", "rate-over", "received-over-offered-curve"]
    {
        let svg = std::fs::read_to_string(folder.join(format!("synthetic-{name}.svg"))).unwrap();
        roxmltree::Document::parse(&svg).unwrap();
    }
}
