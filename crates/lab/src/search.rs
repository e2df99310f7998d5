//! The highest rate at which no more than a given share is lost, by a staircase: after a try that lost too
//! much the next rate is lower, after another higher, in steps that become finer at every turn and coarser
//! again when several go the same way (Taylor and Creelman, PEST, 1967; the loss-free throughput is that of
//! RFC 2544, section 26.1).
//!
//! Halving an interval decides once about each half: on a machine that is held up now and then, or that is a
//! quarter slower for some seconds, one wrong decision is the result. A staircase goes on, and ends where tries
//! fail as often as they succeed. All searches have the same number of tries, so that searches of several
//! variants can take turns.

use crate::statistics::{mean, median};

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
    /// Finest step, as a share of the rate.
    pub step: f64,
    /// Tries in all.
    pub tries: usize,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    goal: Goal,
    /// Rate of the next try.
    rate: f64,
    /// Factor of the next step.
    step: f64,
    /// Coarsest step.
    most: f64,
    /// Whether the last try was met, and how many in a row were as it.
    last: Option<bool>,
    row: u32,
    /// Whether the last try was missed, and is repeated.
    is_doubted: bool,
    tries: Vec<Try>,
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// Rate of every try that counts, in order: those after the start of the search.
    pub rates: Vec<f64>,
    /// The rate that best divides those of all tries that were met from those that were missed.
    pub threshold: f64,
    /// Whether the generator, and not what was tested, set the limit: the rate is a lower bound.
    pub is_generator_bound: bool,
    /// All tries, in order.
    pub tries: Vec<Try>,
}

/// A generator that sends less than this share of what it should is at its limit.
const REACHED: f64 = 0.9;
/// Share of the tries that only lead there.
const START: f64 = 0.4;
/// With coarser steps, a try that was missed is repeated: a hiccup of the machine would lead far astray.
const COARSE: f64 = 1.05;
/// Steps the same way after which they become coarser.
const SAME_WAY: u32 = 3;

impl Search {
    /// Begins at a rate, with steps by this factor.
    pub fn new(start: f64, factor: f64, goal: Goal) -> Search {
        Search {
            goal,
            rate: start,
            step: factor,
            most: factor,
            last: None,
            row: 0,
            is_doubted: false,
            tries: Vec::new(),
        }
    }

    /// The rate to try next; `None` at the end.
    pub fn next(&self) -> Option<f64> {
        (self.tries.len() < self.goal.tries).then_some(self.rate)
    }

    /// Takes what came of it.
    pub fn learn(&mut self, tried: Try) {
        self.tries.push(tried);
        let is_met = tried.loss <= self.goal.loss;
        self.is_doubted = !is_met && !self.is_doubted && self.step > COARSE;
        if self.is_doubted {
            return;
        }
        let is_short = tried.offered < REACHED * self.rate;
        let is_same = self.last == Some(is_met);
        self.row = if is_same { self.row + 1 } else { 1 };
        if self.last.is_some() && !is_same {
            self.step = self.step.sqrt().max(1.0 + self.goal.step);
        } else if self.row > SAME_WAY {
            self.step = (self.step * self.step).min(self.most);
        }
        self.last = Some(is_met);
        // What the generator cannot do, no search will find; but it may only have been held up.
        if !is_met {
            self.rate /= self.step;
        } else if !is_short {
            self.rate *= self.step;
        }
    }

    /// What was found; `None` when no try was met.
    pub fn found(self) -> Option<Found> {
        let first = (self.tries.len() as f64 * START) as usize;
        let counted = &self.tries[first..];
        let is_met = |t: &&Try| t.loss <= self.goal.loss;
        if !counted.iter().any(|t| is_met(&t)) {
            return None;
        }
        let threshold = threshold(&self.tries, self.goal.loss);
        // Below its limit, a try that was met is followed by a higher one, and soon by one that was not.
        let is_generator_bound = counted.iter().filter(is_met).count() as f64 > REACHED * counted.len() as f64;
        let rates = counted.iter().map(|t| t.offered).collect();
        Some(Found { rates, threshold, is_generator_bound, tries: self.tries })
    }
}

/// The rate below which tries are met and above which they are missed, with the fewest exceptions among all of
/// them; in the middle of where that is so. Exceptions are the machine's doing, and as likely on either side.
fn threshold(tries: &[Try], loss: f64) -> f64 {
    let mut sorted: Vec<&Try> = tries.iter().collect();
    sorted.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    let is_met = |t: &&Try| t.loss <= loss;
    // Exceptions when the threshold lies before each of the tries, and behind all.
    let mut exceptions = vec![sorted.iter().filter(|t| is_met(t)).count() as i64];
    for tried in &sorted {
        exceptions.push(exceptions[exceptions.len() - 1] + if is_met(tried) { -1 } else { 1 });
    }
    let fewest = exceptions.iter().min().copied().unwrap_or(0);
    let at = |place: usize| {
        let near = [place.checked_sub(1), Some(place)].into_iter().flatten().filter_map(|p| sorted.get(p));
        mean(&near.map(|t| t.offered).collect::<Vec<_>>())
    };
    let places = (0..exceptions.len()).filter(|place| exceptions[*place] == fewest);
    median(&places.map(at).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const GOAL: Goal = Goal { loss: 0.005, step: 0.01, tries: 40 };

    /// A device that takes what `capacity` says for each try, behind a generator that can do `most`; one try
    /// in `hiccup` fails.
    fn find(start: f64, capacity: &dyn Fn(usize) -> f64, most: f64, hiccup: u64) -> Option<Found> {
        let mut random = Random::new(3);
        let mut search = Search::new(start, 2.0, GOAL);
        for number in 0.. {
            let Some(rate) = search.next() else { break };
            let offered = f64::min(rate, most);
            let share = if random.one_in(hiccup) { 0.9 } else { 1.0 };
            let received = f64::min(offered, capacity(number)) * share;
            search.learn(Try { offered, received, loss: 1.0 - received / offered });
        }
        search.found()
    }

    #[test]
    fn finds_the_rate_from_near_and_far_despite_hiccups() {
        for capacity in [4e4, 1.1e5, 7.7e5, 2.8e6] {
            let found = find(5e4, &|_| capacity, 1e9, 15).unwrap();
            let rate = median(&found.rates);
            assert!((rate / capacity - 1.0).abs() < 0.02, "{capacity}: {rate}");
            assert!(!found.is_generator_bound);
        }
    }

    #[test]
    fn follows_a_machine_that_becomes_slower() {
        let found = find(1e5, &|number| if number < 20 { 1e6 } else { 8e5 }, 1e9, u64::MAX).unwrap();
        let last = median(&found.rates[found.rates.len() - 10..]);
        assert!((last / 8e5 - 1.0).abs() < 0.03, "{last}");
    }

    #[test]
    fn a_generator_at_its_limit_is_no_rate_of_the_device() {
        let found = find(1e5, &|_| 1e9, 6e5, u64::MAX).unwrap();
        assert!(found.is_generator_bound && median(&found.rates) == 6e5);
    }

    /// On a machine that does one thing in eight tries that it should not.
    #[test]
    fn the_threshold_is_found_despite_exceptions() {
        let mut random = Random::new(9);
        let mut tried = |offered: f64| {
            let is_met = (offered < 1.0) != random.one_in(8);
            Try { offered, received: offered, loss: if is_met { 0.0 } else { 0.1 } }
        };
        let tries: Vec<Try> = (0..60).map(|n| tried(0.8 + f64::from(n * 7 % 60) / 150.0)).collect();
        let found = threshold(&tries, 0.005);
        assert!((found - 1.0).abs() < 0.025, "{found}");
        assert_eq!(threshold(&tries[..1], 0.005), tries[0].offered);
    }

    #[test]
    fn nothing_is_found_where_everything_is_lost() {
        assert_eq!(find(1e5, &|_| 0.0, 1e9, u64::MAX), None);
    }
}
