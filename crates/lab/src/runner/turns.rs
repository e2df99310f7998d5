//! A round in which all variants take turns, slice by slice.

use super::{Order, Ready, record};
use crate::disturbance::Watch;
use crate::error::LabError;
use crate::random::Random;
use crate::results::Results;
use crate::trial::{Outcome, Request, Slices, settle};
use karakoram_kernel::run::pin_to_current_cpu;
use std::collections::BTreeMap;
use std::time::Instant;

/// One variant's trial in this round.
struct Turn {
    /// Place of its variant.
    place: usize,
    seed: u64,
    slices: Box<dyn Slices>,
}

/// Why variants cannot be measured, by name.
type Broken = BTreeMap<String, String>;

/// All variants in one round, those at `order` of places first; says which cannot be measured, and why.
pub(super) fn together(
    order: &Order,
    ready: &[Ready],
    places: &[usize],
    round: i64,
    random: &mut Random,
    results: &mut Results,
) -> Result<Broken, LabError> {
    let (watch, started) = (Watch::start(), Instant::now());
    let mut broken = Broken::new();
    let mut turns = Vec::new();
    for place in places {
        let seed = random.number();
        let request = Request { seed, is_interrupted: order.is_interrupted };
        let trial = ready[*place].trial.sliced().ok_or_else(|| LabError::Request("a trial without slices".into()))?;
        request.check()?;
        if let Some(slices) = kept(trial.begin(&request), &ready[*place].name, &mut broken)? {
            turns.push(Turn { place: *place, seed, slices });
        }
    }
    take_turns(order, ready, &mut turns, &mut broken)?;
    let mut outcomes: Vec<(usize, u64, Outcome)> = Vec::new();
    for turn in turns {
        let request = Request { seed: turn.seed, is_interrupted: order.is_interrupted };
        if let Some(outcome) = kept(turn.slices.finish(&request), &ready[turn.place].name, &mut broken)? {
            outcomes.push((turn.place, turn.seed, outcome));
        }
    }
    settle(&mut outcomes.iter_mut().map(|(_, _, outcome)| outcome).collect::<Vec<_>>());
    let seconds = started.elapsed().as_secs_f64() / outcomes.len().max(1) as f64;
    let found = watch.finish();
    for (place, seed, outcome) in outcomes {
        results.trials.push(record(&ready[place], (round, seed), seconds, &found, outcome));
    }
    Ok(broken)
}

/// Slice by slice, each time another one first.
fn take_turns(order: &Order, ready: &[Ready], turns: &mut Vec<Turn>, broken: &mut Broken) -> Result<(), LabError> {
    let mut is_going_on = true;
    while is_going_on && !turns.is_empty() {
        is_going_on = false;
        turns.rotate_left(1);
        let mut failed = Vec::new();
        for (number, measured) in next_of_each(order, turns).into_iter().enumerate() {
            match kept(measured, &ready[turns[number].place].name, broken)? {
                Some(more) => is_going_on |= more,
                None => failed.push(number),
            }
        }
        failed.into_iter().rev().for_each(|number| drop(turns.remove(number)));
    }
    Ok(())
}

/// The next slice of each, at the same time where all allow that; whether there are more.
fn next_of_each(order: &Order, turns: &mut [Turn]) -> Vec<Result<bool, LabError>> {
    let next = |seed: u64, slices: &mut dyn Slices| {
        let request = Request { seed, is_interrupted: order.is_interrupted };
        request.check()?;
        slices.next(&request)
    };
    let alongside: Option<Vec<_>> = turns.iter_mut().map(|t| Some((t.seed, t.slices.alongside()?))).collect();
    let Some(alongside) = alongside else {
        return turns.iter_mut().map(|t| next(t.seed, t.slices.as_mut())).collect();
    };
    // Threads inherit where they may run.
    let _pinned = pin_to_current_cpu();
    std::thread::scope(|scope| {
        let started: Vec<_> =
            alongside.into_iter().map(|(seed, slices)| scope.spawn(move || next(seed, slices))).collect();
        started.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// The result, unless this machine turns out not to be able to.
fn kept<T>(result: Result<T, LabError>, variant: &str, broken: &mut Broken) -> Result<Option<T>, LabError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(LabError::Machine(what, _)) => {
            broken.insert(variant.to_string(), what);
            Ok(None)
        }
        Err(other) => Err(other),
    }
}
