//! `keyvalue`: memcached over UDP, alone and behind a fast path that answers in the kernel (Figure 4 of
//! "Demystifying Performance of eBPF Network Applications", which used BMC). Every reply is compared with
//! what it has to be, byte for byte: a fast path that answers with less than the value voids the trial.
//!
//! A trial is two things. A client on a socket compares every reply and says what it takes (`response`); it
//! is soon at its own limit. How many requests are answered at most (`capacity`) is found by search, with
//! requests that the kernel makes and replies that it counts and compares.

mod beside;
mod capacity;
mod front;

use crate::error::LabError;
use crate::generator::{Exchange, Exchanged, LiveGenerator, Pace, Waiting, exchange};
use crate::memcached::{self, Contents, Gets, MOST_VALUE, Memcached, PORT};
use crate::packet::CLIENT_PORT;
use crate::programs::{self, Build};
use crate::replies::{Counted, Replies};
use crate::search::Found;
use crate::statistics::median;
use crate::testbed::{Placed, Placement, Role, Testbed, WORK_PRIORITY, connected_udp};
use crate::trial::{Curve, Kind, Outcome, Parameters, Request, Samples, Statistic, Trial, Workshop};
use crate::trials::echo::fault;
use capacity::Capacity;
use front::{Front, InPlace};
use serde::Deserialize;
use std::net::{SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

/// Share of the requests that a program that answers must have answered.
const HITS: f64 = 0.999;
/// Time to teach it.
const TEACH_MS: u64 = 20;

/// The kind.
pub struct KeyValue;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    /// What stands before memcached; nothing, if left out.
    front: Option<Front>,
    #[serde(default)]
    build: Build,
    #[serde(default = "threaded")]
    placement: Placement,
    #[serde(default = "one")]
    keys: usize,
    #[serde(default = "key_bytes")]
    key_bytes: usize,
    #[serde(default = "value_bytes")]
    value_bytes: usize,
    /// Requests of the client under way, in a closed loop.
    #[serde(default = "outstanding")]
    outstanding: usize,
    /// Requests per second of the client, in an open loop.
    rate: Option<f64>,
    #[serde(default = "duration")]
    duration_ms: u64,
    /// Requests per second that the kernel makes beside the client's. The client then asks for a key that is too
    /// long for a fast path, one request at a time, and there is no search.
    background: Option<f64>,
    /// How long each rate is tried in the search for the highest one; 0 is no search.
    #[serde(default = "try_ms")]
    try_ms: u64,
    /// Rates that are tried.
    #[serde(default = "tries")]
    tries: usize,
}

fn threaded() -> Placement {
    Placement::Threaded
}
fn one() -> usize {
    1
}
fn key_bytes() -> usize {
    16
}
fn value_bytes() -> usize {
    256
}
fn outstanding() -> usize {
    16
}
fn duration() -> u64 {
    500
}
fn tries() -> usize {
    40
}
fn try_ms() -> u64 {
    40
}

impl Kind for KeyValue {
    fn name(&self) -> &'static str {
        "keyvalue"
    }

    fn check_machine(&self) -> Result<(), LabError> {
        let found = std::process::Command::new("memcached").arg("-V").output();
        found.map(drop).map_err(|e| LabError::tool("memcached", &e))
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        if plan.value_bytes > MOST_VALUE || plan.key_bytes > 63 || plan.keys == 0 {
            return Err(LabError::Request("`keyvalue` takes values of 1300 bytes and keys of 63 at most".into()));
        }
        let contents = Contents::new(plan.keys, plan.key_bytes, plan.value_bytes);
        let built = plan.front.as_ref().map(|front| programs::build(workshop, &front.program, plan.build));
        let asking = LiveGenerator::of_requests(workshop, PORT, &memcached::requests(&contents))?;
        let replies = Replies::load(workshop, &memcached::replies(&contents))?;
        Ok(Box::new(Prepared { object: built.transpose()?, plan, contents, asking, replies }))
    }
}

struct Prepared {
    plan: Plan,
    object: Option<PathBuf>,
    contents: Contents,
    asking: LiveGenerator,
    replies: Replies,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let bed = Testbed::build(self.plan.placement)?;
        let _near = self.replies.attach(&bed)?;
        let mut memcached = Memcached::start(&bed)?;
        let in_place = match (&self.plan.front, &self.object) {
            (Some(front), Some(object)) => front.attach(object, &bed)?,
            _ => InPlace::nothing(&bed)?,
        };
        memcached.store(&self.contents)?;
        let from = SocketAddrV4::new(bed.generator.host.ip, CLIENT_PORT);
        let to = SocketAddrV4::new(bed.tested.host.ip, PORT);
        let client = connected_udp(&bed.generator.namespace, from, to)?;
        self.teach(&client, &bed)?;
        if let Some(rate) = self.plan.background {
            return self.ask_beside(rate, &bed, &client, &in_place, &mut memcached, request);
        }
        let mut outcome = self.ask_by_socket(&bed, &client, &in_place, request)?;
        if self.plan.try_ms > 0 && outcome.void.is_none() {
            self.ask_in_kernel(&bed, &in_place, request, &mut outcome)?;
        }
        outcome.notes.insert("placement".into(), bed.placement.describe());
        Ok(outcome)
    }
}

impl Prepared {
    /// Which request is the n-th of the kernel's.
    fn order(&self) -> Vec<u32> {
        (0..self.plan.keys.next_power_of_two()).map(|n| (n % self.plan.keys) as u32).collect()
    }

    /// Whatever the fast path has to learn it learns here, one request at a time.
    fn teach(&self, client: &UdpSocket, bed: &Testbed) -> Result<(), LabError> {
        const ROUNDS: u64 = 2;
        const REQUEST_US: u64 = 200;
        let duration_ms = TEACH_MS.max(self.plan.keys as u64 * ROUNDS * REQUEST_US / 1000);
        self.exchange(bed, client, Pace::Closed { outstanding: 1, think: Duration::ZERO }, duration_ms, 0).map(drop)
    }

    fn ask_by_socket(
        &self,
        bed: &Testbed,
        client: &UdpSocket,
        in_place: &InPlace,
        request: &Request,
    ) -> Result<Outcome, LabError> {
        let before = in_place.hits()?;
        let pace = match self.plan.rate {
            Some(rate) => Pace::Open { rate, poisson: true },
            None => Pace::Closed { outstanding: self.plan.outstanding, think: Duration::ZERO },
        };
        let exchanged = self.exchange(bed, client, pace, self.plan.duration_ms, request.seed)?;
        let mut outcome = Outcome { void: fault(&exchanged), ..Outcome::default() };
        note_hits(&mut outcome, "client", before, in_place.hits()?, exchanged.sent);
        outcome.notes.insert("requests of the client, all compared".into(), exchanged.sent.to_string());
        outcome.notes.insert("lateness".into(), exchanged.lateness.to_string());
        outcome.samples.push(Samples::one("rate", "requests/s", exchanged.rate));
        outcome.samples.push(Samples::many("response", "ns", exchanged.response));
        Ok(outcome)
    }

    fn ask_in_kernel(
        &self,
        bed: &Testbed,
        in_place: &InPlace,
        request: &Request,
        outcome: &mut Outcome,
    ) -> Result<(), LabError> {
        let capacity = Capacity {
            bed,
            asking: &self.asking,
            replies: &self.replies,
            order: self.order(),
            duration: Duration::from_millis(self.plan.try_ms),
            tries: self.plan.tries,
            request,
        };
        let start = outcome.named("rate").and_then(|s| s.reduce(Statistic::Mean)).unwrap_or_default();
        let before = in_place.hits()?;
        let (found, counted) = capacity.find(start)?;
        note_hits(outcome, "kernel's requests", before, in_place.hits()?, counted.right);
        report_capacity(outcome, found, counted);
        Ok(())
    }

    fn exchange(
        &self,
        bed: &Testbed,
        client: &std::net::UdpSocket,
        pace: Pace,
        duration_ms: u64,
        seed: u64,
    ) -> Result<Exchanged, LabError> {
        let duration = Duration::from_millis(duration_ms);
        let contents = &self.contents;
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                let _placed = Placed::on(bed.placement.cpu(Role::Generator), WORK_PRIORITY)?;
                let plan = Exchange { pace, waiting: Waiting::Awake, duration, seed };
                exchange(client, plan, &mut Gets::new(contents))
            });
            client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Voids a trial in which the programs answered less than they should have.
fn note_hits(outcome: &mut Outcome, whose: &str, before: Option<u64>, after: Option<u64>, all: u64) {
    let (Some(before), Some(after)) = (before, after) else { return };
    let share = (after - before) as f64 / all.max(1) as f64;
    outcome.notes.insert(format!("answered by the program, {whose}"), format!("{:.2} %", share.min(1.0) * 100.0));
    if share < HITS {
        outcome.void.get_or_insert(format!("the program answered only {:.2} % of the {whose}", share * 100.0));
    }
}

fn report_capacity(outcome: &mut Outcome, found: Option<Found>, counted: Counted) {
    let compared = format!("{}, {} of them compared byte for byte", counted.right, counted.compared);
    outcome.notes.insert("right replies to the kernel's requests".into(), compared);
    if counted.wrong > 0 {
        outcome.void.get_or_insert(format!("{} wrong replies", counted.wrong));
    }
    let Some(found) = found else {
        outcome.void.get_or_insert("requests were lost at every rate".into());
        return;
    };
    if found.is_generator_bound {
        outcome.note_generator_limit();
    }
    outcome.samples.push(Samples::one("capacity", "requests/s", median(&found.rates)));
    let points = found.tries.iter().map(|t| (t.offered, t.received)).collect();
    outcome.curves.push(Curve {
        name: "answered over asked".into(),
        x: "asked (requests/s)".into(),
        y: "answered (requests/s)".into(),
        points,
    });
}
