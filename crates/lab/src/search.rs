//! The highest rate at which no more than a given share is lost, by halving (RFC 2544, section 26.1;
//! each decision may rest on several tries, as in MLRsearch).

use crate::error::LabError;

/// What a try at one rate showed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Try {
    /// Rate that was really offered, per second.
    pub offered: f64,
    /// Rate that came through.
    pub received: f64,
    /// Share that was lost.
    pub loss: f64,
}

/// How to search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Goal {
    /// Share that may be lost.
    pub loss: f64,
    /// The search ends when the bounds differ by no more than this share.
    pub width: f64,
    /// Tries that must fail before a rate counts as too high: one hiccup of the machine is no verdict.
    pub tries: usize,
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// Highest rate that was met, per second.
    pub rate: f64,
    /// Whether the generator, and not what was tested, set the limit: the rate is a lower bound.
    pub is_generator_bound: bool,
    /// All tries, in order.
    pub tries: Vec<Try>,
}

/// A generator that sends less than this share of what it should is at its limit.
const REACHED: f64 = 0.9;
/// Tries in which it does, before it counts as at its limit and not as held up for a moment.
const MOST_SHORT: usize = 3;
/// Rates decided on, at most; halving needs about ten.
const MOST_STEPS: usize = 30;

/// Searches between two rates. `None` when even the lowest is too high.
///
/// What counts is the rate that was really offered. A generator that is held up a little is asked for
/// correspondingly more.
pub fn search(
    low: f64,
    high: f64,
    goal: Goal,
    attempt: &mut dyn FnMut(f64) -> Result<Try, LabError>,
) -> Result<Option<Found>, LabError> {
    let mut search = Search { goal, attempt, tries: Vec::new(), efficiency: 1.0 };
    let (mut good, mut bad) = (0.0, high);
    let mut target = high;
    for _ in 0..MOST_STEPS {
        match search.decide(target)? {
            Outcome::Met(offered) => {
                good = f64::max(good, offered);
                if offered < REACHED * target || good >= bad {
                    break;
                }
            }
            Outcome::Missed(offered) => bad = offered.clamp(good, bad),
        }
        if bad <= low || bad - good <= goal.width * bad {
            break;
        }
        let floor = f64::max(good, low);
        target = if good == 0.0 && bad - low <= goal.width * bad { low } else { (floor + bad) / 2.0 };
    }
    let is_generator_bound = good < REACHED * bad;
    Ok((good > 0.0).then_some(Found { rate: good, is_generator_bound, tries: search.tries }))
}

/// With the rate that was really offered.
enum Outcome {
    Met(f64),
    Missed(f64),
}

struct Search<'a> {
    goal: Goal,
    attempt: &'a mut dyn FnMut(f64) -> Result<Try, LabError>,
    tries: Vec<Try>,
    /// Share of what the generator was asked for that it sent.
    efficiency: f64,
}

impl Search<'_> {
    fn decide(&mut self, rate: f64) -> Result<Outcome, LabError> {
        let (mut missed, mut short) = (Vec::new(), Vec::new());
        while missed.len() < self.goal.tries && short.len() < MOST_SHORT {
            let asked = rate / self.efficiency;
            let tried = (self.attempt)(asked)?;
            self.tries.push(tried);
            self.efficiency = (tried.offered / asked).clamp(REACHED, 1.0);
            match tried.loss <= self.goal.loss {
                true if tried.offered >= REACHED * rate => return Ok(Outcome::Met(tried.offered)),
                true => short.push(tried.offered),
                false => missed.push(tried.offered),
            }
        }
        let highest = |rates: Vec<f64>| rates.into_iter().fold(0.0, f64::max);
        Ok(if short.len() == MOST_SHORT { Outcome::Met(highest(short)) } else { Outcome::Missed(highest(missed)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const GOAL: Goal = Goal { loss: 0.0, width: 0.005, tries: 2 };

    /// A device that takes `capacity`, behind a generator that can do `most`; one try in `hiccup` fails.
    fn device(capacity: f64, most: f64, hiccup: u64) -> impl FnMut(f64) -> Result<Try, LabError> {
        let mut random = Random::new(3);
        move |rate| {
            let offered = f64::min(rate, most);
            let share = if random.one_in(hiccup) { 0.9 } else { 1.0 };
            let received = f64::min(offered, capacity) * share;
            Ok(Try { offered, received, loss: 1.0 - received / offered })
        }
    }

    #[test]
    fn finds_the_rate_despite_hiccups() {
        for capacity in [1.1e5, 7.7e5, 1.19e6] {
            let found = search(1e5, 1.2e6, GOAL, &mut device(capacity, 1e9, 40)).unwrap().unwrap();
            assert!((found.rate / capacity - 1.0).abs() < 0.011, "{capacity}: {}", found.rate);
            assert!(!found.is_generator_bound && found.rate <= capacity);
        }
    }

    #[test]
    fn a_generator_that_is_held_up_is_asked_for_more() {
        let mut device = device(7.7e5, 1e9, u64::MAX);
        let mut held_up = |rate: f64| device(rate * 0.95);
        let found = search(1e5, 1.2e6, GOAL, &mut held_up).unwrap().unwrap();
        assert!((found.rate / 7.7e5 - 1.0).abs() < 0.011 && !found.is_generator_bound, "{found:?}");
    }

    #[test]
    fn a_slow_generator_is_no_property_of_the_device() {
        let found = search(1e5, 1.2e6, GOAL, &mut device(1e9, 6e5, u64::MAX)).unwrap().unwrap();
        assert!(found.is_generator_bound && found.rate == 6e5);
    }

    #[test]
    fn too_slow_gives_nothing() {
        assert_eq!(search(1e5, 1.2e6, GOAL, &mut device(5e4, 1e9, u64::MAX)).unwrap(), None);
    }
}
