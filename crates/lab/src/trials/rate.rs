//! `rate`: the highest rate at which a program loses next to nothing, found by search, and the latency at
//! that rate and at others (K2's Table 2; RFC 2544). One trial is one whole search.
//!
//! A processor that is shared with others is stopped now and then: what counts is what becomes of frames in most
//! milliseconds. It also changes its speed by a factor of two, for seconds or for tenths of one. So the search is for
//! the *share* of what gets through at full speed, which is measured right after each try without a pause; the
//! rate is that share of the full speed, and the full speeds of all variants are measured in turns.
//!
//! The generator has a CPU to itself, the kernel's receiving thread another; what comes too fast does not
//! fit into the device's ring of 256 frames and is lost. Frames that should come back go through the same
//! receiving CPU once more, where the generator's side takes them away.

mod latency;
mod run;

use crate::error::LabError;
use crate::generator::LiveGenerator;
use crate::hook::Hook;
use crate::programs::{self, Build};
use crate::sink::Sink;
use crate::trial::{Kind, Parameters, Request, Sliced, Slices, Trial, Workshop};
use crate::trials::flows;
use crate::trials::setting::Setting;
use run::Run;
use serde::Deserialize;
use std::path::PathBuf;
use std::rc::Rc;

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
    40
}
fn little_loss() -> f64 {
    0.005
}
fn fine() -> f64 {
    0.01
}
fn try_ms() -> u64 {
    20
}

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
        let (generator, sink) = (LiveGenerator::watching(workshop)?, Sink::load(workshop)?);
        Ok(Box::new(Prepared(Rc::new(Parts { plan, object, entry, flows, generator, sink, reference }))))
    }
}

struct Prepared(Rc<Parts>);

/// What all trials of a variant share.
struct Parts {
    plan: Plan,
    object: PathBuf,
    entry: String,
    flows: Vec<u32>,
    generator: LiveGenerator,
    sink: Sink,
    /// Where the first rate that any trial of the experiment found is noted.
    reference: PathBuf,
}

impl Sliced for Prepared {
    fn begin(&self, request: &Request) -> Result<Box<dyn Slices>, LabError> {
        Ok(Box::new(Run::begin(self.0.clone(), request)?))
    }
}
