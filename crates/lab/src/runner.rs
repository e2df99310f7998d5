//! Runs an experiment: rounds in which every variant is measured once, in random order, and the
//! baseline twice, so that each round also says what the machine does by itself.

mod turns;

use crate::analysis;
use crate::disturbance::{Disturbance, Watch, complaints};
use crate::environment;
use crate::error::LabError;
use crate::experiment::{Experiment, Variant};
use crate::random::Random;
use crate::results::{Results, SCHEMA, TrialRecord};
use crate::trial::{Kind, Outcome, Request, Trial, Workshop};
use std::collections::BTreeMap;
use std::time::Instant;

/// How often a trial that came to nothing is made again in its round.
const AGAIN: usize = 1;

/// How an experiment is run.
pub struct Order<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// In its quick form.
    pub is_quick: bool,
    /// Seed of all that is random.
    pub seed: u64,
    /// Where programs are.
    pub workshop: &'a Workshop<'a>,
    /// What spoke against measuring from the start.
    pub contamination: Vec<String>,
    /// Asked between and during trials.
    pub is_interrupted: &'a (dyn Fn() -> bool + Sync),
    /// Told before each trial.
    pub progress: &'a dyn Fn(&Progress),
}

/// Where a run is.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// The variant that comes next.
    pub variant: String,
    /// Its round, from 1; 0 and below warm up.
    pub round: i64,
    /// Rounds there are at most.
    pub rounds: usize,
    /// Trials done, and trials at most.
    pub trials: (usize, usize),
}

/// A variant, ready to be measured.
struct Ready {
    name: String,
    is_control: bool,
    trial: Box<dyn Trial>,
}

/// Runs it. What this machine cannot do is part of the results, not an error.
pub fn run(kind: &dyn Kind, order: &Order) -> Result<Results, LabError> {
    let started = Instant::now();
    let variants = order.experiment.plan(order.is_quick);
    let mut results = Results {
        schema: SCHEMA.to_string(),
        experiment: order.experiment.name.clone(),
        definition: order.experiment.text.clone(),
        is_quick: order.is_quick,
        seed: order.seed,
        seconds: 0.0,
        contamination: order.contamination.clone(),
        unavailable: BTreeMap::new(),
        environment: environment::record(),
        trials: Vec::new(),
    };
    let mut ready = prepare(kind, order, &variants, &mut results)?;
    rounds(order, &mut ready, &mut results)?;
    let counted: Vec<&TrialRecord> = results.trials.iter().filter(|t| t.counts()).collect();
    results.contamination.extend(contamination(&counted));
    results.seconds = started.elapsed().as_secs_f64();
    Ok(results)
}

fn prepare(
    kind: &dyn Kind,
    order: &Order,
    variants: &[Variant],
    results: &mut Results,
) -> Result<Vec<Ready>, LabError> {
    let mut ready = Vec::new();
    let machine = kind.check_machine();
    for (place, variant) in variants.iter().enumerate() {
        for is_control in if place == 0 { &[false, true][..] } else { &[false] } {
            if (order.is_interrupted)() {
                return Err(LabError::Interrupted);
            }
            let made = machine.clone().and_then(|()| kind.prepare(&variant.parameters, order.workshop));
            match made {
                Ok(trial) => ready.push(Ready { name: variant.name.clone(), is_control: *is_control, trial }),
                Err(LabError::Machine(what, _)) => drop(results.unavailable.insert(variant.name.clone(), what)),
                Err(LabError::Request(what)) => {
                    let name = &order.experiment.name;
                    return Err(LabError::Request(format!("experiment {name}, variant {}: {what}", variant.name)));
                }
                Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            }
        }
    }
    Ok(ready)
}

fn rounds(order: &Order, ready: &mut Vec<Ready>, results: &mut Results) -> Result<(), LabError> {
    let rounds = order.experiment.rounds(order.is_quick);
    let warm_up = order.experiment.definition.warm_up;
    let mut random = Random::new(order.seed);
    let mut done = 0;
    for round in -(warm_up as i64)..rounds.most as i64 {
        if round >= rounds.least as i64 && rounds.target > 0.0 && analysis::is_precise(results, rounds.target)? {
            break;
        }
        let mut places: Vec<usize> = (0..ready.len()).collect();
        random.shuffle(&mut places);
        let all = (rounds.most + warm_up) * ready.len();
        let tell = |variant: &str, done: usize| {
            let variant = variant.to_string();
            (order.progress)(&Progress { variant, round: round + 1, rounds: rounds.most, trials: (done, all) });
        };
        let mut broken = BTreeMap::new();
        if ready.iter().all(|r| r.trial.sliced().is_some()) {
            tell("all in turn", done);
            done += ready.len();
            broken = turns::together(order, ready, &places, round, &mut random, results)?;
        } else {
            for place in places {
                tell(&ready[place].name, done);
                done += 1;
                if let Some(why) = one(order, &mut ready[place], round, &mut random, results)? {
                    broken.insert(ready[place].name.clone(), why);
                }
            }
        }
        ready.retain(|r| !broken.contains_key(&r.name));
        results.unavailable.extend(broken);
    }
    Ok(())
}

/// One variant in one round; says why, when this machine turns out not to be able to.
fn one(
    order: &Order,
    ready: &mut Ready,
    round: i64,
    random: &mut Random,
    results: &mut Results,
) -> Result<Option<String>, LabError> {
    for _ in 0..=AGAIN {
        if (order.is_interrupted)() {
            return Err(LabError::Interrupted);
        }
        let seed = random.number();
        let (watch, started) = (Watch::start(), Instant::now());
        let outcome = match ready.trial.run(&Request { seed, is_interrupted: order.is_interrupted }) {
            Ok(outcome) => outcome,
            Err(LabError::Machine(what, _)) => return Ok(Some(what)),
            Err(other) => return Err(other),
        };
        let is_void = outcome.void.is_some();
        let seconds = started.elapsed().as_secs_f64();
        results.trials.push(record(ready, (round, seed), seconds, &watch.finish(), outcome));
        if !is_void {
            break;
        }
    }
    Ok(None)
}

fn record(ready: &Ready, of: (i64, u64), seconds: f64, found: &Disturbance, outcome: Outcome) -> TrialRecord {
    TrialRecord {
        variant: ready.name.clone(),
        is_control: ready.is_control,
        round: of.0,
        seed: of.1,
        seconds,
        void: outcome.void,
        others: found.others,
        stolen: found.stolen,
        samples: outcome.samples,
        slices: outcome.slices,
        curves: outcome.curves,
        notes: outcome.notes,
    }
}

/// What others did during the trials that count.
fn contamination(trials: &[&TrialRecord]) -> Vec<String> {
    let seconds: f64 = trials.iter().map(|t| t.seconds).sum();
    let share = |of: fn(&TrialRecord) -> f64| trials.iter().map(|t| of(t) * t.seconds).sum::<f64>() / seconds.max(1e-9);
    let found = Disturbance { others: share(|t| t.others), stolen: share(|t| t.stolen) };
    complaints(&found).into_iter().map(|c| format!("during the trials {c}")).collect()
}
