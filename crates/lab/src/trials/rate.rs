//! `rate`: the highest rate at which a program loses next to nothing, found by search, and the latency at
//! that rate and at others (K2's Table 2; RFC 2544). One trial is one whole search.
//!
//! The generator has a CPU to itself, the kernel's receiving thread another; what comes too fast does not
//! fit into the device's ring of 256 frames and is lost. Frames that should come back go through the same
//! receiving CPU once more, where the generator's side takes them away.

use crate::error::LabError;
use crate::generator::{Gaps, LiveGenerator, Load, Sent};
use crate::hook::{self, Hook, Place};
use crate::object::{self, Loaded};
use crate::programs::{self, Build};
use crate::search::{Found, Goal, Try, search};
use crate::sink::Sink;
use crate::testbed::{CONTROL_PRIORITY, Placed, Placement, Role, Testbed};
use crate::trial::{Curve, Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use crate::trials::flows;
use crate::trials::setting::{self, Setting};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// The kind.
pub struct Rate;

/// Its parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    /// Program below `programs/`, or a path of an object.
    program: String,
    /// Which program of the object; the only one when left out.
    entry: Option<String>,
    #[serde(default)]
    build: Build,
    /// What becomes of frames.
    way: Way,
    #[serde(default = "xdp")]
    hook: Hook,
    #[serde(default = "short_frame")]
    frame_bytes: usize,
    /// Flows, and how unevenly frames are spread over them (exponent of Zipf's law).
    #[serde(default = "one")]
    flows: usize,
    #[serde(default)]
    skew: f64,
    /// Times between frames follow a Poisson process.
    #[serde(default)]
    poisson: bool,
    /// Share that may be lost: by default half a percent, what MLRsearch calls the partial drop rate. A
    /// virtual machine that is stopped for 100 us now and then loses some frames at any rate.
    #[serde(default = "little_loss")]
    loss: f64,
    /// Width at which the search ends.
    #[serde(default = "narrow")]
    width: f64,
    #[serde(default = "two")]
    tries: usize,
    #[serde(default = "try_ms")]
    try_ms: u64,
    /// Loads at which latency is measured, as shares of the first rate that any trial of the experiment
    /// found, so that all variants meet the same ones.
    #[serde(default)]
    loads: Vec<f64>,
    /// Contents of maps.
    #[serde(default)]
    set: Vec<Setting>,
}

/// What a program does with frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    /// They end there: what the program saw counts as received.
    Drop,
    /// They come back: what came back counts as received.
    Return,
}

fn xdp() -> Hook {
    Hook::Xdp
}
fn short_frame() -> usize {
    64
}
fn one() -> usize {
    1
}
fn two() -> usize {
    2
}
fn little_loss() -> f64 {
    0.005
}
fn narrow() -> f64 {
    0.005
}
fn try_ms() -> u64 {
    200
}

/// The search begins and ends at these shares of what got through at full speed.
const LOWEST: f64 = 0.1;
const HIGHEST: f64 = 1.2;
/// Time after which nothing is under way any more.
const DRAIN: Duration = Duration::from_millis(3);
/// Frames whose time is kept, at least, in a measurement of latency.
const SAMPLES: f64 = 200_000.0;
/// Part of a measurement of latency that is warm-up.
const WARM_UP: f64 = 0.1;

impl Kind for Rate {
    fn name(&self) -> &'static str {
        "rate"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let object = programs::build(workshop, &plan.program, plan.build)?;
        let entry = programs::entry(&object, plan.entry.as_deref())?;
        let flows = flows::table(plan.flows, plan.skew);
        let reference = workshop.scratch.join("rate.reference");
        let (generator, sink) = (LiveGenerator::load(workshop)?, Sink::load(workshop)?);
        Ok(Box::new(Prepared { plan, object, entry, flows, generator, sink, reference }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
    entry: String,
    flows: Vec<u32>,
    generator: LiveGenerator,
    sink: Sink,
    reference: PathBuf,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let bed = Testbed::build(Placement::Threaded)?;
        let loaded = object::load(&self.object, &[&self.entry])?;
        setting::apply(&self.plan.set, &loaded)?;
        let _sink = self.sink.attach(&bed)?;
        let _attached = hook::attach(&bed, self.plan.hook, Some(loaded.program(&self.entry)), Place::default())?;
        let _placed = Placed::on(bed.placement.cpu(Role::Server), CONTROL_PRIORITY)?;
        let run = Run { trial: self, bed: &bed, request };
        let full = run.attempt(None)?;
        let plan = &self.plan;
        let goal = Goal { loss: plan.loss, width: plan.width, tries: plan.tries };
        let found = search(full.received * LOWEST, full.received * HIGHEST, goal, &mut |rate| run.attempt(Some(rate)))?;
        let Some(found) = found else {
            return Ok(Outcome::voided("frames were lost at every rate"));
        };
        let mut outcome = run.report(full, &found);
        run.add_latencies(&mut outcome, found.rate)?;
        outcome.notes.insert("placement".into(), bed.placement.describe());
        outcome.notes.insert("program".into(), size_of(&loaded, &self.entry));
        Ok(outcome)
    }
}

/// One trial under way.
struct Run<'a> {
    trial: &'a Prepared,
    bed: &'a Testbed,
    request: &'a Request<'a>,
}

impl Run<'_> {
    fn load(&self, rate: Option<f64>) -> Load {
        let plan = &self.trial.plan;
        Load {
            rate,
            gaps: if plan.poisson { Gaps::Poisson } else { Gaps::Constant },
            frame_bytes: plan.frame_bytes,
            flows: self.trial.flows.clone(),
            ..Load::new(rate, Duration::from_millis(plan.try_ms))
        }
    }

    fn send(&self, load: &Load) -> Result<(Sent, u64), LabError> {
        if (self.request.is_interrupted)() {
            return Err(LabError::Interrupted);
        }
        let before = self.bed.tested.counters()?;
        let sent = self.trial.generator.send(self.bed, load)?;
        std::thread::sleep(DRAIN);
        let received = match self.trial.plan.way {
            Way::Drop => self.bed.tested.counters()?.since(before).received,
            Way::Return => self.trial.sink.received()?,
        };
        Ok((sent, received))
    }

    fn attempt(&self, rate: Option<f64>) -> Result<Try, LabError> {
        self.trial.sink.reset(1, u64::MAX)?;
        let (sent, received) = self.send(&self.load(rate))?;
        let share = received as f64 / sent.frames.max(1) as f64;
        Ok(Try { offered: sent.rate(), received: sent.rate() * share, loss: 1.0 - share })
    }

    fn report(&self, full: Try, found: &Found) -> Outcome {
        let points = found.tries.iter().map(|t| (t.offered, t.received)).collect();
        let mut outcome = Outcome::default();
        outcome.samples.push(Samples::one("loss_free_rate", "packets/s", found.rate));
        outcome.samples.push(Samples::one("full_rate", "packets/s", full.received));
        outcome.curves.push(Curve {
            name: "received over offered".into(),
            x: "offered (packets/s)".into(),
            y: "received (packets/s)".into(),
            points,
        });
        if found.is_generator_bound {
            outcome.notes.insert("limit".into(), "the generator's: the rate is a lower bound".into());
        }
        outcome
    }

    /// At the rate that was found (`latency.free`) and at the loads that all variants meet
    /// (`latency.50` and so on). Frames that are dropped have none.
    fn add_latencies(&self, outcome: &mut Outcome, own: f64) -> Result<(), LabError> {
        let plan = &self.trial.plan;
        if plan.way == Way::Drop || plan.loads.is_empty() {
            return Ok(());
        }
        let reference = self.reference(own)?;
        let shares = plan.loads.iter().map(|share| (format!("latency.{:.0}", share * 100.0), share * reference));
        let mut middles = Vec::new();
        for (name, rate) in shares.chain([("latency.free".to_string(), own)]) {
            let load = self.load(Some(rate));
            let frames = rate * load.duration.as_secs_f64();
            let every = (frames / SAMPLES).max(1.0) as u64;
            self.trial.sink.reset(every.next_power_of_two(), (frames * WARM_UP) as u64)?;
            let (sent, _) = self.send(&load)?;
            let times = self.trial.sink.times()?;
            if !sent.is_punctual() {
                outcome.notes.insert(format!("{name} is left out"), format!("late: {}", sent.lateness));
                continue;
            }
            middles.push((sent.rate(), times.value_at_quantile(0.5) as f64));
            outcome.samples.push(Samples::many(name, "ns", times));
        }
        outcome.curves.push(Curve {
            name: "latency over offered".into(),
            x: "offered (packets/s)".into(),
            y: "latency, median (ns)".into(),
            points: middles,
        });
        Ok(())
    }

    /// The first rate that any trial of this experiment found.
    fn reference(&self, own: f64) -> Result<f64, LabError> {
        let path = &self.trial.reference;
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(text.parse().unwrap_or(own)),
            Err(_) => {
                std::fs::write(path, own.to_string()).map_err(|e| LabError::file("write", path, &e))?;
                Ok(own)
            }
        }
    }
}

fn size_of(loaded: &Loaded, entry: &str) -> String {
    match loaded.program(entry).info(false) {
        Ok(info) => format!("{} bytes of machine code", info.jited_len),
        Err(_) => "loaded".into(),
    }
}
