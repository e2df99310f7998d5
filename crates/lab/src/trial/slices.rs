//! Trials in slices: all variants of a round are in place at the same time and take turns, a few
//! milliseconds each.
//!
//! A processor that is shared with others has moods that last for seconds and change what everything costs by
//! a quarter. Whole trials one after the other meet different ones; slices of a few milliseconds in turn meet
//! the same. What all variants show in one slice is the mood, and is taken out of each ([`settle`]).

use super::{Outcome, Request, Samples, Trial, Values};
use crate::error::LabError;
use crate::statistics::median;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A trial that can be measured slice by slice; by itself it is all of its slices.
pub trait Sliced {
    /// Attaches and warms up.
    fn begin(&self, request: &Request) -> Result<Box<dyn Slices>, LabError>;
}

/// A trial under way.
pub trait Slices {
    /// Measures the next slice; whether there are more. All variants of an experiment should have as many.
    fn next(&mut self, request: &Request) -> Result<bool, LabError>;

    /// Itself, if its next slice may be measured at the same time as those of other variants: each in a thread
    /// of its own, all on one processor, which the kernel gives to each for a few milliseconds at a time. Only
    /// what counts the thread's own processor time may be.
    fn alongside(&mut self) -> Option<&mut (dyn Slices + Send)> {
        None
    }

    /// Detaches. What was measured in slices is in [`Outcome::slices`].
    fn finish(self: Box<Self>, request: &Request) -> Result<Outcome, LabError>;
}

/// A number of each slice, in their order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SliceValues {
    /// What it is, as in [`Samples`].
    pub name: String,
    /// Its unit.
    pub unit: Cow<'static, str>,
    /// The numbers.
    pub values: Vec<f64>,
}

impl SliceValues {
    /// None yet.
    pub fn new(name: impl Into<String>, unit: impl Into<Cow<'static, str>>) -> SliceValues {
        SliceValues { name: name.into(), unit: unit.into(), values: Vec::new() }
    }
}

impl<S: Sliced> Trial for S {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let mut slices = self.begin(request)?;
        while slices.next(request)? {}
        let mut outcome = slices.finish(request)?;
        settle(&mut [&mut outcome]);
        Ok(outcome)
    }

    fn sliced(&self) -> Option<&dyn Sliced> {
        Some(self)
    }
}

/// Makes samples of the slices of trials that took turns: for each, the median over slices of its number
/// without what the slice did to all (the median over trials of how their numbers compare with what is usual
/// for them), at the usual level of the round.
pub fn settle(outcomes: &mut [&mut Outcome]) {
    let names: Vec<(String, Cow<'static, str>)> =
        outcomes.iter().flat_map(|o| o.slices.iter().map(|s| (s.name.clone(), s.unit.clone()))).collect();
    for (name, unit) in names {
        let rows: Vec<Option<Vec<f64>>> = outcomes.iter().map(|o| o.sliced(&name).map(<[f64]>::to_vec)).collect();
        let moods = moods(&rows.iter().flatten().map(Vec::as_slice).collect::<Vec<_>>());
        for (outcome, row) in outcomes.iter_mut().zip(&rows) {
            let Some(row) = row.as_ref().filter(|_| outcome.named(&name).is_none()) else { continue };
            let value = median(&row.iter().zip(&moods).map(|(value, mood)| value / mood).collect::<Vec<_>>());
            let values = Values::List(vec![value]);
            outcome.samples.push(Samples { name: name.clone(), unit: unit.clone(), values });
        }
    }
}

/// What each slice did to all of them, around 1.
fn moods(rows: &[&[f64]]) -> Vec<f64> {
    let slices = rows.iter().map(|r| r.len()).min().unwrap_or(0);
    let usual: Vec<f64> = rows.iter().map(|row| median(row)).collect();
    let mood = |slice: usize| {
        let compared =
            rows.iter().zip(&usual).filter(|(_, usual)| **usual > 0.0).map(|(row, usual)| row[slice] / usual);
        let mood = median(&compared.collect::<Vec<_>>());
        if mood > 0.0 { mood } else { 1.0 }
    };
    (0..slices).map(mood).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn outcome(values: Vec<f64>) -> Outcome {
        let slices = vec![SliceValues { values, ..SliceValues::new("time", "ns") }];
        Outcome { slices, ..Outcome::default() }
    }

    fn value(outcome: &Outcome) -> f64 {
        outcome.named("time").and_then(|s| s.reduce(crate::trial::Statistic::Mean)).unwrap()
    }

    /// A machine that is a quarter slower most of the time, never for as long as a slice is, and sometimes
    /// twice as slow for one of them only.
    #[test]
    fn moods_are_taken_out() {
        let mut random = Random::new(5);
        let moods: Vec<f64> = (0..40).map(|_| if random.one_in(3) { 1.0 } else { 1.25 }).collect();
        let mut row = |time: f64| {
            let mut noise = |mood: &f64| {
                mood * time * (1.0 + random.below(100) as f64 / 1e4) * if random.one_in(9) { 2.0 } else { 1.0 }
            };
            outcome(moods.iter().map(&mut noise).collect())
        };
        let (mut a, mut b, mut again) = (row(100.0), row(107.0), row(100.0));
        settle(&mut [&mut a, &mut b, &mut again]);
        assert!((value(&a) / value(&again) - 1.0).abs() < 0.003);
        assert!((value(&b) / value(&a) - 1.07).abs() < 0.003);
        assert!((100.0..127.0).contains(&value(&a)));
    }

    #[test]
    fn one_alone_is_its_median() {
        let mut alone = outcome(vec![3.0, 1.0, 2.0]);
        settle(&mut [&mut alone]);
        assert_eq!(value(&alone), 2.0);
        settle(&mut []);
    }
}
