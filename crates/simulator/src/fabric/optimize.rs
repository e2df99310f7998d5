//! CorrOpt's optimizer: of the corrupting links of a pod that are in service, the set whose removal
//! takes away most loss while every rack keeps enough paths. Exact.
//!
//! Once it is fixed how many uplinks each aggregation switch loses (always those that lose most),
//! the racks no longer depend on one another, and a rack has few corrupting links. So all counts are
//! tried, and for each the best choice of every rack.

use super::pod::{Place, Pod, paths};

/// A corrupting link in service, and the loss that taking it out of service removes.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<Id> {
    /// Its name.
    pub id: Id,
    /// Where it stands.
    pub place: Place,
    /// What removing it is worth.
    pub loss: f64,
}

/// The candidates to take out of service so that every rack keeps at least `required` paths.
pub fn choose<Id: Copy>(pod: &Pod, candidates: &[Candidate<Id>], required: u32) -> Vec<Id> {
    let problem = Problem::new(pod, candidates, required);
    let mut best = (-1.0, Vec::new());
    let mut counts = vec![0; problem.uppers.len()];
    loop {
        if let Some(found) = problem.solve(&counts, best.0) {
            best = found;
        }
        if !problem.advance(&mut counts) {
            return best.1;
        }
    }
}

/// Candidates sorted by where they stand.
struct Problem<'a, Id> {
    pod: &'a Pod,
    required: u32,
    /// By aggregation switch, the uplinks, most loss first.
    uppers: Vec<Vec<Candidate<Id>>>,
    /// Racks that have candidates, with them.
    racks: Vec<(u32, Vec<Candidate<Id>>)>,
}

impl<'a, Id: Copy> Problem<'a, Id> {
    fn new(pod: &'a Pod, candidates: &[Candidate<Id>], required: u32) -> Self {
        let mut uppers = vec![Vec::new(); pod.uplinks().len()];
        let mut racks: Vec<(u32, Vec<Candidate<Id>>)> = Vec::new();
        for candidate in candidates {
            match candidate.place {
                Place::Upper { aggregation } => uppers[aggregation as usize].push(*candidate),
                Place::Lower { rack, .. } => match racks.iter_mut().find(|(r, _)| *r == rack) {
                    Some((_, links)) => links.push(*candidate),
                    None => racks.push((rack, vec![*candidate])),
                },
            }
        }
        uppers.iter_mut().for_each(|links| links.sort_by(|a, b| b.loss.total_cmp(&a.loss)));
        Problem { pod, required, uppers, racks }
    }

    /// The next vector of counts; no when all were tried.
    fn advance(&self, counts: &mut [usize]) -> bool {
        for (count, links) in counts.iter_mut().zip(&self.uppers) {
            if *count < links.len() {
                *count += 1;
                return true;
            }
            *count = 0;
        }
        false
    }

    /// The best choice with these counts, if it is feasible and better than `least`.
    fn solve(&self, counts: &[usize], least: f64) -> Option<(f64, Vec<Id>)> {
        let uplinks: Vec<u32> = self.pod.uplinks().iter().zip(counts).map(|(n, c)| n - *c as u32).collect();
        let is_served = |rack| paths(self.pod.reach(rack), &uplinks) >= self.required;
        if !(0..self.pod.racks()).all(is_served) {
            return None;
        }
        let taken = || self.uppers.iter().zip(counts).flat_map(|(links, c)| &links[..*c]);
        let mut sum: f64 = taken().map(|c| c.loss).sum();
        let mut chosen: Vec<Id> = taken().map(|c| c.id).collect();
        for (rack, links) in &self.racks {
            sum += self.solve_rack(*rack as usize, links, &uplinks, &mut chosen);
        }
        (sum > least).then_some((sum, chosen))
    }

    /// The best subset of one rack's links; adds it to `chosen` and returns its worth.
    fn solve_rack(&self, rack: usize, links: &[Candidate<Id>], uplinks: &[u32], chosen: &mut Vec<Id>) -> f64 {
        let mut best = (0.0, 0u32);
        for subset in 1u32..1 << links.len() {
            let members = || links.iter().enumerate().filter(|(i, _)| subset & (1 << i) != 0).map(|(_, c)| c);
            let removed = members().fold(0u8, |bits, c| bits | bit(c.place));
            let loss = members().map(|c| c.loss).sum();
            if loss > best.0 && paths(self.pod.reach(rack) & !removed, uplinks) >= self.required {
                best = (loss, subset);
            }
        }
        chosen.extend(links.iter().enumerate().filter(|(i, _)| best.1 & (1 << i) != 0).map(|(_, c)| c.id));
        best.0
    }
}

fn bit(place: Place) -> u8 {
    match place {
        Place::Lower { aggregation, .. } => 1 << aggregation,
        Place::Upper { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;
    use crate::random::Random;

    /// All subsets, one after the other.
    fn by_brute_force(pod: &Pod, candidates: &[Candidate<usize>], required: u32) -> f64 {
        let mut best = 0.0;
        for subset in 0u32..1 << candidates.len() {
            let mut changed = pod.clone();
            let members = || candidates.iter().filter(|c| subset & (1 << c.id) != 0);
            members().for_each(|c| changed.set(c.place, false));
            if changed.least_paths() >= required {
                best = f64::max(best, members().map(|c| c.loss).sum());
            }
        }
        best
    }

    #[test]
    fn as_good_as_trying_all_subsets() {
        let shape = Shape { pods: 1, racks: 5, aggregations: 3, uplinks: 4 };
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut links: Vec<u32> = (0..9).map(|_| random.below(shape.links().into()) as u32).collect();
            links.sort_unstable();
            links.dedup();
            // Uplinks are told apart by number only; several of one switch may be candidates.
            let candidates: Vec<_> = links
                .iter()
                .enumerate()
                .map(|(id, link)| Candidate { id, place: shape.place(*link).1, loss: random.unit() })
                .collect();
            let pod = Pod::new(&shape);
            for required in [3, 6, 9, 11] {
                let chosen = choose(&pod, &candidates, required);
                let worth: f64 = chosen.iter().map(|id| candidates[*id].loss).sum();
                let best = by_brute_force(&pod, &candidates, required);
                assert!((worth - best).abs() < 1e-9, "seed {seed}, {required} paths: {worth}, best {best}");
            }
        }
    }
}
