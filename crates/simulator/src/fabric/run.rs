//! A year of a fabric under a policy.

use super::optimize::{Candidate, choose};
use super::pod::{Place, Pod};
use super::{Failure, LinkId, Shape};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What a link without a fault loses.
const HEALTHY_RATE: f64 = 1e-18;

/// What a protected link of some loss rate was measured to lose and to carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// The share of frames the bare link loses.
    pub rate: f64,
    /// The share that is still lost.
    pub effective_rate: f64,
    /// The share of the link's capacity that is left.
    pub capacity: f64,
}

/// Measured points of a protected link, ascending by rate; a link gets the values of the nearest.
#[derive(Clone, Debug, PartialEq)]
pub struct Protection(pub Vec<Tested>);

impl Protection {
    /// The published points at 100G (the last one's capacity is the authors' assumption).
    pub fn published() -> Protection {
        let point = |rate, effective_rate, capacity| Tested { rate, effective_rate, capacity };
        Protection(vec![
            point(1.43e-5, 5.97e-10, 0.9876),
            point(9.16e-5, 7.56e-9, 0.9874),
            point(1.16e-3, 1.29e-9, 0.9088),
            point(1e-2, 1e-8, 0.60),
        ])
    }

    /// The point whose rate is nearest.
    fn nearest(&self, rate: f64) -> Tested {
        let distance = |t: &Tested| (t.rate - rate).abs();
        *self.0.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("a protection has points")
    }
}

/// How a fabric is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The share of its paths that every rack keeps.
    pub constraint: f64,
    /// What corrupting links in service are protected with.
    pub protection: Option<Protection>,
}

/// The fabric right after a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Hours since the start.
    pub hour: u32,
    /// Loss rates of all links in service, added up.
    pub penalty: f64,
    /// Paths of the rack that has fewest, as a share of all.
    pub least_paths: f64,
    /// Capacity of the tier of a pod that has least, as a share of all.
    pub least_capacity: f64,
    /// Protected links in service.
    pub protected: u32,
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// One row for each failure.
    pub rows: Vec<Row>,
    /// Failures of links that were out of order already.
    pub skipped: u32,
    /// Failing links that could not be taken out of service at once.
    pub kept: u32,
    /// Links that the optimizer took out of service later.
    pub optimized: u32,
}

/// Runs a year of failures under a policy.
pub fn run(shape: &Shape, failures: &[Failure], policy: &Policy) -> Summary {
    let mut fabric = Fabric::new(*shape, policy);
    for failure in failures {
        fabric.repair_until(failure.hour);
        fabric.fail(failure);
        fabric.record(failure.hour);
    }
    fabric.summary
}

/// A corrupting link.
struct Faulty {
    place: Place,
    pod: usize,
    rate: f64,
    effective_rate: f64,
    capacity: f64,
    repair_hours: u32,
    in_service: bool,
}

struct Fabric<'a> {
    shape: Shape,
    policy: &'a Policy,
    required: u32,
    pods: Vec<Pod>,
    /// By pod and tier, the capacity that protection costs, in links.
    cost: Vec<[f64; 2]>,
    capacity: Vec<f64>,
    least_paths: Vec<u32>,
    faulty: BTreeMap<LinkId, Faulty>,
    repairs: BinaryHeap<Reverse<(u32, LinkId)>>,
    summary: Summary,
}

impl<'a> Fabric<'a> {
    fn new(shape: Shape, policy: &'a Policy) -> Self {
        let pods = shape.pods as usize;
        Fabric {
            shape,
            policy,
            required: libm::ceil(policy.constraint * f64::from(shape.paths())) as u32,
            pods: vec![Pod::new(&shape); pods],
            cost: vec![[0.0; 2]; pods],
            capacity: vec![1.0; pods],
            least_paths: vec![shape.paths(); pods],
            faulty: BTreeMap::new(),
            repairs: BinaryHeap::new(),
            summary: Summary::default(),
        }
    }

    fn fail(&mut self, failure: &Failure) {
        if self.faulty.contains_key(&failure.link) {
            self.summary.skipped += 1;
            return;
        }
        let (pod, place) = self.shape.place(failure.link);
        let tested = self.policy.protection.as_ref().map(|p| p.nearest(failure.rate));
        let link = Faulty {
            place,
            pod,
            rate: failure.rate,
            effective_rate: tested.map_or(failure.rate, |t| t.effective_rate),
            capacity: tested.map_or(1.0, |t| t.capacity),
            repair_hours: failure.repair_hours,
            in_service: true,
        };
        self.cost[pod][tier(place)] += 1.0 - link.capacity;
        self.faulty.insert(failure.link, link);
        match self.can_spare(pod, place) {
            true => self.take_out(failure.link, failure.hour),
            false => self.summary.kept += 1,
        }
        self.measure(pod);
    }

    /// CorrOpt's fast check: whether every rack keeps enough paths without this link.
    fn can_spare(&mut self, pod: usize, place: Place) -> bool {
        self.pods[pod].set(place, false);
        let is_enough = self.pods[pod].least_paths() >= self.required;
        self.pods[pod].set(place, true);
        is_enough
    }

    fn take_out(&mut self, id: LinkId, hour: u32) {
        let link = self.faulty.get_mut(&id).expect("a corrupting link");
        link.in_service = false;
        self.pods[link.pod].set(link.place, false);
        self.cost[link.pod][tier(link.place)] -= 1.0 - link.capacity;
        self.repairs.push(Reverse((hour + link.repair_hours, id)));
    }

    fn repair_until(&mut self, hour: u32) {
        while let Some(Reverse((at, id))) = self.repairs.peek().copied().filter(|Reverse((at, _))| *at <= hour) {
            self.repairs.pop();
            let link = self.faulty.remove(&id).expect("a link under repair");
            self.pods[link.pod].set(link.place, true);
            self.optimize(link.pod, at);
            self.measure(link.pod);
        }
    }

    fn optimize(&mut self, pod: usize, hour: u32) {
        let links = self.shape.links_per_pod();
        let first = pod as u32 * links;
        let in_pod = self.faulty.range(first..first + links).filter(|(_, link)| link.in_service);
        let candidates: Vec<_> =
            in_pod.map(|(id, link)| Candidate { id: *id, place: link.place, loss: link.rate }).collect();
        if candidates.is_empty() {
            return;
        }
        for id in choose(&self.pods[pod], &candidates, self.required) {
            self.summary.optimized += 1;
            self.take_out(id, hour);
        }
    }

    /// Takes the pod's figures down again after something changed.
    fn measure(&mut self, pod: usize) {
        let per_tier = [self.shape.racks * self.shape.aggregations, self.shape.aggregations * self.shape.uplinks];
        let in_service = self.pods[pod].in_service();
        let share = |tier: usize| (f64::from(in_service[tier]) - self.cost[pod][tier]) / f64::from(per_tier[tier]);
        self.capacity[pod] = f64::min(share(0), share(1));
        self.least_paths[pod] = self.pods[pod].least_paths();
    }

    fn record(&mut self, hour: u32) {
        let serving = || self.faulty.values().filter(|l| l.in_service);
        let healthy = f64::from(self.shape.links()) - self.faulty.len() as f64;
        let least_paths = self.least_paths.iter().copied().min().unwrap_or(0);
        self.summary.rows.push(Row {
            hour,
            penalty: serving().map(|l| l.effective_rate).sum::<f64>() + healthy * HEALTHY_RATE,
            least_paths: f64::from(least_paths) / f64::from(self.shape.paths()),
            least_capacity: self.capacity.iter().copied().fold(1.0, f64::min),
            protected: if self.policy.protection.is_some() { serving().count() as u32 } else { 0 },
        });
    }
}

fn tier(place: Place) -> usize {
    match place {
        Place::Lower { .. } => 0,
        Place::Upper { .. } => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::failures;
    use super::*;

    const SMALL: Shape = Shape { pods: 8, racks: 12, aggregations: 4, uplinks: 12 };

    fn year(constraint: f64, protection: Option<Protection>) -> Summary {
        let trace = failures(&SMALL, 9000, 5);
        run(&SMALL, &trace, &Policy { constraint, protection })
    }

    #[test]
    fn the_constraint_holds_at_all_times() {
        for constraint in [0.5, 0.75] {
            let summary = year(constraint, None);
            assert!(summary.rows.iter().all(|r| r.least_paths >= constraint));
            assert!(constraint < 0.7 || summary.kept > 0, "the constraint never bound");
        }
    }

    #[test]
    fn protection_changes_the_penalty_and_nothing_else() {
        let (bare, protected) = (year(0.75, None), year(0.75, Some(Protection::published())));
        assert_eq!((bare.kept, bare.skipped, bare.optimized), (protected.kept, protected.skipped, protected.optimized));
        let worse = bare.rows.iter().zip(&protected.rows).filter(|(b, p)| p.penalty > b.penalty * 1.01).count();
        let better = bare.rows.iter().zip(&protected.rows).filter(|(b, p)| p.penalty < b.penalty / 1e3).count();
        assert!(better > bare.rows.len() / 4 && worse == 0, "{better} better, {worse} worse");
        assert!(protected.rows.iter().any(|r| r.protected > 0 && r.least_capacity < 1.0));
    }
}
