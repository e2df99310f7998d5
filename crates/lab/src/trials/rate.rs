//! `rate`: the highest rate at which a program loses next to nothing, found by search, and the latency at
//! that rate and at others (K2's Table 2; RFC 2544). One trial is one whole search.
//!
//! A processor that is shared with others changes its speed by a factor of two for some seconds. So the search
//! is for the *share* of what gets through at full speed, which is measured right before each try; the rate is
//! that share of the full speed, and the full speeds of all variants are measured in turns.
//!
//! The generator has a CPU to itself, the kernel's receiving thread another; what comes too fast does not
//! fit into the device's ring of 256 frames and is lost. Frames that should come back go through the same
//! receiving CPU once more, where the generator's side takes them away.

use crate::error::LabError;
use crate::generator::{Gaps, Generator, Load, Sent, Source};
use crate::hook::{self, Hook, Place};
use crate::object::{self, Loaded};
use crate::programs::{self, Build};
use crate::search::{Found, Goal, Search, Try};
use crate::sink::Sink;
use crate::statistics::median;
use crate::testbed::{CONTROL_PRIORITY, Placed, Placement, Role, Testbed};
use crate::trial::{
    self, Curve, Kind, Outcome, Parameters, Request, Samples, SliceValues, Sliced, Slices, Trial, Workshop,
};
use crate::trials::flows;
use crate::trials::setting::{self, Setting};
use karakoram_kernel::attach::Attachment;
use serde::Deserialize;
use std::path::PathBuf;
use std::rc::Rc;
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
    #[serde(default)]
    generator: Source,
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
    /// Finest step of the search.
    #[serde(default = "fine")]
    step: f64,
    #[serde(default = "tries")]
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
fn tries() -> usize {
    30
}
fn little_loss() -> f64 {
    0.005
}
fn fine() -> f64 {
    0.01
}
fn try_ms() -> u64 {
    30
}

/// The search begins at this share of what gets through at full speed, with steps by this factor.
const BEGIN: f64 = 0.9;
const FACTOR: f64 = 1.1;
/// Time after which nothing is under way any more.
const DRAIN: Duration = Duration::from_millis(3);
/// How long latency is measured at one rate.
const LATENCY: Duration = Duration::from_millis(200);
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
        let (generator, sink) = (Generator::load(plan.generator, workshop)?, Sink::load(workshop)?);
        Ok(Box::new(Prepared(Rc::new(Parts { plan, object, entry, flows, generator, sink, reference }))))
    }
}

struct Prepared(Rc<Parts>);

struct Parts {
    plan: Plan,
    object: PathBuf,
    entry: String,
    flows: Vec<u32>,
    generator: Generator,
    sink: Sink,
    reference: PathBuf,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        trial::run_slices(self, request)
    }

    fn sliced(&self) -> Option<&dyn Sliced> {
        Some(self)
    }
}

impl Sliced for Prepared {
    fn begin(&self, request: &Request) -> Result<Box<dyn Slices>, LabError> {
        let parts = self.0.clone();
        let bed = Testbed::build(Placement::Threaded)?;
        let loaded = object::load(&parts.object, &[&parts.entry])?;
        setting::apply(&parts.plan.set, &loaded)?;
        let near = parts.sink.attach(&bed)?;
        let attached = hook::attach(&bed, parts.plan.hook, Some(loaded.program(&parts.entry)), Place::default())?;
        let goal = Goal { loss: parts.plan.loss, step: parts.plan.step, tries: parts.plan.tries };
        let full = SliceValues::new("full_rate", "packets/s");
        let search = Search::new(BEGIN, FACTOR, goal);
        let run = Run { parts, bed, loaded, search, full, points: Vec::new(), _near: near, _attached: attached };
        run.attempt(None, request)?; // warms up
        Ok(Box::new(run))
    }
}

/// One trial under way.
struct Run {
    _attached: hook::Attached,
    _near: Attachment,
    parts: Rc<Parts>,
    bed: Testbed,
    loaded: Loaded,
    /// In shares of what got through at full speed.
    search: Search,
    full: SliceValues,
    /// Rates offered and received.
    points: Vec<(f64, f64)>,
}

impl Slices for Run {
    fn next(&mut self, request: &Request) -> Result<bool, LabError> {
        let Some(share) = self.search.next() else { return Ok(false) };
        let full = self.attempt(None, request)?.received.max(1.0);
        let tried = self.attempt(Some(share * full), request)?;
        self.full.values.push(full);
        self.points.push((tried.offered, tried.received));
        self.search.learn(Try { offered: tried.offered / full, received: tried.received / full, loss: tried.loss });
        Ok(self.search.next().is_some())
    }

    fn finish(self: Box<Self>, request: &Request) -> Result<Outcome, LabError> {
        let Some(found) = self.search.clone().found() else {
            return Ok(Outcome::voided("frames were lost at every rate"));
        };
        let rate = median(&found.rates) * median(&self.full.values);
        let mut outcome = self.report(&found);
        self.add_latencies(&mut outcome, rate, request)?;
        outcome.notes.insert("placement".into(), self.bed.placement.describe());
        outcome.notes.insert("program".into(), size_of(&self.loaded, &self.parts.entry));
        Ok(outcome)
    }
}

impl Run {
    fn load(&self, rate: Option<f64>) -> Load {
        let plan = &self.parts.plan;
        Load {
            rate,
            gaps: if plan.poisson { Gaps::Poisson } else { Gaps::Constant },
            frame_bytes: plan.frame_bytes,
            flows: self.parts.flows.clone(),
            ..Load::new(rate, Duration::from_millis(plan.try_ms))
        }
    }

    fn send(&self, load: &Load, request: &Request) -> Result<(Sent, u64), LabError> {
        request.check()?;
        let _placed = Placed::on(self.bed.placement.cpu(Role::Server), CONTROL_PRIORITY)?;
        let before = self.bed.tested.counters()?;
        let sent = self.parts.generator.send(&self.bed, load)?;
        std::thread::sleep(DRAIN);
        let received = match self.parts.plan.way {
            Way::Drop => self.bed.tested.counters()?.since(before).received,
            Way::Return => self.parts.sink.received()?,
        };
        Ok((sent, received))
    }

    fn attempt(&self, rate: Option<f64>, request: &Request) -> Result<Try, LabError> {
        self.parts.sink.reset(1, u64::MAX)?;
        let (sent, received) = self.send(&self.load(rate), request)?;
        let share = received as f64 / sent.frames.max(1) as f64;
        Ok(Try { offered: sent.rate(), received: sent.rate() * share, loss: 1.0 - share })
    }

    fn report(&self, found: &Found) -> Outcome {
        let share = median(&found.rates);
        let mut outcome = Outcome::default();
        let values = self.full.values.iter().map(|full| full * share).collect();
        outcome.slices.push(SliceValues { values, ..SliceValues::new("loss_free_rate", "packets/s") });
        outcome.notes.insert("share of full speed without loss".into(), format!("{share:.3}"));
        outcome.slices.push(self.full.clone());
        outcome.curves.push(Curve {
            name: "received over offered".into(),
            x: "offered (packets/s)".into(),
            y: "received (packets/s)".into(),
            points: self.points.clone(),
        });
        if found.is_generator_bound {
            outcome.notes.insert("limit".into(), "the generator's: the rate is a lower bound".into());
        }
        outcome
    }

    /// At the rate that was found (`latency.free`) and at the loads that all variants meet
    /// (`latency.50` and so on). Frames that are dropped have none.
    fn add_latencies(&self, outcome: &mut Outcome, own: f64, request: &Request) -> Result<(), LabError> {
        let plan = &self.parts.plan;
        if plan.way == Way::Drop || plan.loads.is_empty() {
            return Ok(());
        }
        let reference = self.reference(own)?;
        let shares = plan.loads.iter().map(|share| (format!("latency.{:.0}", share * 100.0), share * reference));
        let mut middles = Vec::new();
        for (name, rate) in shares.chain([("latency.free".to_string(), own)]) {
            let load = Load { duration: LATENCY, ..self.load(Some(rate)) };
            let frames = rate * load.duration.as_secs_f64();
            let every = (frames / SAMPLES).max(1.0) as u64;
            self.parts.sink.reset(every.next_power_of_two(), (frames * WARM_UP) as u64)?;
            let (sent, _) = self.send(&load, request)?;
            let times = self.parts.sink.times()?;
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
        let path = &self.parts.reference;
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
