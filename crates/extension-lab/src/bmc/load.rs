//! `bmc`: requests that are answered in a second, by memcached alone and with the cache before it, in Rust
//! or in C. Real memcached; keys by Zipf's law; writes over TCP; every reply is checked for its key and for
//! being no older than the last write that was confirmed. All variants of a round are in place at once, each with
//! its own memcached, and are asked in turn.

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
use karakoram_lab::trial::{Kind, Outcome, Parameters, Request, Samples, SliceValues, Sliced, Slices, Trial, Workshop};
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

/// How long one variant is asked before the next one is. What is left under way is waited for in between.
const SLICE_MS: u64 = 20;
/// Less urgent than receiving.
const SERVER_PRIORITY: i32 = WORK_PRIORITY - 5;

/// The cache in place.
struct InPlace {
    loaded: Option<InKernel>,
    load_ms: f64,
    _answer: Attached,
    _learn: Option<Attachment>,
}

impl Sliced for Prepared {
    fn begin(&self, request: &Request) -> Result<Box<dyn Slices>, LabError> {
        let bed = Testbed::build(self.plan.placement)?;
        let near = self.sink.attach_open(&bed)?;
        let memcached = {
            // It inherits its priority, and shares its CPU with the receiving thread and nobody else.
            let _urgent = Placed::on(bed.placement.cpu(Role::Server), SERVER_PRIORITY)?;
            Memcached::start(&bed)?
        };
        // Before the cache is there: what is stored at once is no part of the question.
        let mut client = Client::new(&bed, self.plan.keys)?;
        let in_place = self.attach(&bed)?;
        client.reconnect(&bed)?;
        let rates = SliceValues::new("rate", "requests/s");
        let (plan, zipf) = (self.plan.clone(), self.zipf.clone());
        let (total, slices) = (Exchanged::default(), 0);
        let mut run =
            Run { plan, zipf, client, in_place, rates, total, slices, _memcached: memcached, _near: near, bed };
        let warm_up_ms = run.plan.warm_up_ms;
        run.ask(request, warm_up_ms)?;
        Ok(Box::new(run))
    }
}

/// A trial under way. What is attached goes before the testbed does.
struct Run {
    plan: Plan,
    zipf: Rc<Zipf>,
    client: Client,
    in_place: InPlace,
    /// Of each slice.
    rates: SliceValues,
    /// Of all slices, and the warm-up.
    total: Exchanged,
    slices: u64,
    _memcached: Memcached,
    _near: Attachment,
    bed: Testbed,
}

impl Run {
    /// Asks for so long; requests answered in a second.
    fn ask(&mut self, request: &Request, ms: u64) -> Result<f64, LabError> {
        let _placed = Placed::on(self.bed.placement.cpu(Role::Generator), WORK_PRIORITY)?;
        let time = Duration::from_millis(ms);
        let exchanged =
            self.client.run(&self.zipf, request.seed, time, self.plan.gets_per_set, request.is_interrupted)?;
        request.check()?;
        self.total.add(&exchanged);
        Ok(exchanged.answered as f64 * 1e9 / exchanged.elapsed_ns.max(1) as f64)
    }
}

impl Slices for Run {
    fn next(&mut self, request: &Request) -> Result<bool, LabError> {
        self.slices += 1;
        let rate = self.ask(request, SLICE_MS)?;
        self.rates.values.push(rate);
        Ok(self.slices * SLICE_MS < self.plan.duration_ms)
    }

    fn finish(self: Box<Self>, _request: &Request) -> Result<Outcome, LabError> {
        report(*self)
    }
}

impl Prepared {
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

fn report(run: Run) -> Result<Outcome, LabError> {
    let (total, in_place) = (&run.total, &run.in_place);
    let mut outcome = Outcome::default();
    if let Some(first) = &total.first_wrong {
        outcome.void = Some(format!("{} wrong replies, the first one: {first}", total.wrong));
    }
    if let Some(complaint) = in_place.loaded.as_ref().and_then(|l| l.complaint(&PROGRAMS)) {
        outcome.void = Some(complaint);
    }
    outcome.samples.push(Samples::one("wrong", "replies", total.wrong as f64));
    if let Some(loaded) = &in_place.loaded {
        outcome.samples.push(Samples::one("load", "ms", in_place.load_ms));
        let counters = counters(loaded)?;
        let counted = |name: &str| counters.iter().find(|(n, _)| n == name).map_or(0, |(_, count)| *count) as f64;
        let share = counted("hits") / (counted("hits") + counted("misses")).max(1.0);
        outcome.samples.push(Samples::one("hits", "%", share * 100.0));
        outcome.notes.extend(run_times(loaded)?);
        outcome.notes.extend(counters.into_iter().map(|(name, count)| (name, count.to_string())));
    }
    let notes = [
        ("placement", run.bed.placement.describe()),
        ("requests", total.sent.to_string()),
        ("lost", total.lost.to_string()),
        ("writes confirmed", total.written.to_string()),
        ("replies checked", total.answered.to_string()),
    ];
    outcome.notes.extend(notes.map(|(name, value)| (name.to_string(), value)));
    outcome.slices.push(run.rates);
    Ok(outcome)
}

/// What a run of each program took in all this, where the kernel counts it (`kernel.bpf_stats_enabled`).
fn run_times(loaded: &InKernel) -> Result<Vec<(String, String)>, LabError> {
    let time = |name: &&str| {
        let info = loaded.program(name).info(false).map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
        let mean = info.run_time_ns.checked_div(info.run_count);
        Ok(mean.map(|ns| (format!("mean run of {name}"), format!("{ns} ns in {} runs", info.run_count))))
    };
    PROGRAMS.iter().map(time).filter_map(Result::transpose).collect()
}

/// What the cache has counted, by name.
fn counters(loaded: &InKernel) -> Result<Vec<(String, u64)>, LabError> {
    /// `struct counters` of `bmc.c`.
    const NAMES: [&str; 4] = ["hits", "misses", "fills", "invalidations"];
    match loaded {
        InKernel::Extension(installed) => {
            Ok(installed.counters().into_iter().map(|(name, count)| (name.to_lowercase(), count)).collect())
        }
        InKernel::Object(object) => {
            let mut bytes = [0; 8 * NAMES.len()];
            let read = object.mapping("counters").map(|m| m.read(0, &mut bytes));
            read?.map_err(|e| LabError::Machine(format!("could not read the counters: {e}"), String::new()))?;
            let numbers = bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().expect("eight bytes")));
            Ok(NAMES.iter().map(|n| n.to_string()).zip(numbers).collect())
        }
        InKernel::Module(_) => Ok(Vec::new()),
    }
}
