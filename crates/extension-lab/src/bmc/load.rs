//! `bmc`: requests that are answered in a second, by memcached alone and with the cache before it, in Rust
//! or in C. Real memcached; keys by Zipf's law; writes over TCP; every reply is checked for its key and for
//! being no older than the last write that was confirmed.

use super::client::{Client, Exchanged};
use super::zipf::Zipf;
use super::{ANSWER, LEARN, PROGRAMS};
use crate::programs::{Compiled, InKernel, Source};
use karakoram_kernel::attach::{self, Attachment, Direction};
use karakoram_lab::error::LabError;
use karakoram_lab::hook::{self, Attached, Hook, Place};
use karakoram_lab::memcached::Memcached;
use karakoram_lab::sink::Sink;
use karakoram_lab::testbed::{Placed, Placement, Role, Testbed, WORK_PRIORITY};
use karakoram_lab::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The kind.
pub struct Load;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    /// The cache; without it memcached is alone.
    source: Option<Source>,
    #[serde(default = "threaded")]
    placement: Placement,
    #[serde(default = "keys")]
    keys: usize,
    #[serde(default = "exponent")]
    exponent: f64,
    /// Requests for each write; 0 is no writes.
    #[serde(default = "gets_per_set")]
    gets_per_set: u64,
    /// Before what is counted: the cache learns.
    #[serde(default = "warm_up_ms")]
    warm_up_ms: u64,
    #[serde(default = "duration_ms")]
    duration_ms: u64,
}

fn threaded() -> Placement {
    Placement::Threaded
}
fn keys() -> usize {
    1_000_000
}
fn exponent() -> f64 {
    0.99
}
fn gets_per_set() -> u64 {
    30
}
fn warm_up_ms() -> u64 {
    2000
}
fn duration_ms() -> u64 {
    3000
}

impl Kind for Load {
    fn name(&self) -> &'static str {
        "bmc"
    }

    fn check_machine(&self) -> Result<(), LabError> {
        let found = std::process::Command::new("memcached").arg("-V").output();
        found.map(drop).map_err(|e| LabError::tool("memcached", &e))
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let compiled = plan.source.as_ref().map(|s| s.compile("bmc", workshop)).transpose()?;
        let zipf = Rc::new(Zipf::new(plan.keys, plan.exponent));
        Ok(Box::new(Prepared { plan, compiled, zipf, sink: Sink::load(workshop)? }))
    }
}

struct Prepared {
    plan: Plan,
    compiled: Option<Compiled>,
    zipf: Rc<Zipf>,
    sink: Sink,
}

/// The cache in place.
struct InPlace {
    loaded: Option<InKernel>,
    load_ms: f64,
    _answer: Attached,
    _learn: Option<Attachment>,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let bed = Testbed::build(self.plan.placement)?;
        let _near = self.sink.attach_open(&bed)?;
        let _memcached = Memcached::start(&bed)?;
        // Before the cache is there: what is stored at once is no part of the question.
        let mut client = Client::new(&bed, self.plan.keys)?;
        let in_place = self.attach(&bed)?;
        let _placed = Placed::on(bed.placement.cpu(Role::Generator), WORK_PRIORITY)?;
        let warm_up = self.ask(&mut client, request, 0, self.plan.warm_up_ms)?;
        let exchanged = self.ask(&mut client, request, 1 << 20, self.plan.duration_ms)?;
        if (request.is_interrupted)() {
            return Err(LabError::Interrupted);
        }
        Ok(report(&bed, &in_place, &warm_up, &exchanged))
    }
}

impl Prepared {
    fn ask(&self, client: &mut Client, request: &Request, from: u64, ms: u64) -> Result<Exchanged, LabError> {
        let seed = request.seed.wrapping_add(from);
        client.run(&self.zipf, seed, Duration::from_millis(ms), self.plan.gets_per_set, request.is_interrupted)
    }

    fn attach(&self, bed: &Testbed) -> Result<InPlace, LabError> {
        let Some(compiled) = &self.compiled else {
            let attached = hook::attach(bed, Hook::Socket, None, Place::default())?;
            bed.pin_receiver()?;
            return Ok(InPlace { loaded: None, load_ms: 0.0, _answer: attached, _learn: None });
        };
        let started = Instant::now();
        let loaded = compiled.load(&PROGRAMS)?;
        let load_ms = started.elapsed().as_secs_f64() * 1e3;
        let answer = hook::attach(bed, Hook::Xdp, Some(loaded.program(ANSWER)), Place::default())?;
        let (learn, device) = (loaded.program(LEARN), bed.tested.device.index);
        let learn = bed.tested.namespace.run(|| attach::tcx(learn, device, Direction::Egress))?;
        let learn = learn.map_err(|e| LabError::Machine(e.to_string(), "tcx needs Linux 6.6 or later".into()))?;
        Ok(InPlace { loaded: Some(loaded), load_ms, _answer: answer, _learn: Some(learn) })
    }
}

fn report(bed: &Testbed, in_place: &InPlace, warm_up: &Exchanged, exchanged: &Exchanged) -> Outcome {
    let mut outcome = Outcome::default();
    let wrong = warm_up.wrong + exchanged.wrong;
    if wrong > 0 {
        let first = warm_up.first_wrong.as_ref().or(exchanged.first_wrong.as_ref());
        outcome.void = Some(format!("{wrong} wrong replies, the first one: {}", first.map_or("", |f| f)));
    }
    if let Some(complaint) = in_place.loaded.as_ref().and_then(|l| l.complaint(&PROGRAMS)) {
        outcome.void = Some(complaint);
    }
    let rate = exchanged.answered as f64 * 1e9 / exchanged.elapsed_ns.max(1) as f64;
    outcome.samples.push(Samples::one("rate", "requests/s", rate));
    outcome.samples.push(Samples::one("wrong", "replies", wrong as f64));
    if in_place.loaded.is_some() {
        outcome.samples.push(Samples::one("load", "ms", in_place.load_ms));
    }
    let notes = [
        ("placement", bed.placement.describe()),
        ("requests", exchanged.sent.to_string()),
        ("lost", exchanged.lost.to_string()),
        ("writes confirmed", exchanged.written.to_string()),
        ("replies checked", (warm_up.answered + exchanged.answered).to_string()),
    ];
    outcome.notes.extend(notes.map(|(name, value)| (name.to_string(), value)));
    if let Some(InKernel::Extension(installed)) = &in_place.loaded {
        outcome.notes.extend(installed.counters().into_iter().map(|(n, v)| (n.to_lowercase(), v.to_string())));
    }
    outcome
}
