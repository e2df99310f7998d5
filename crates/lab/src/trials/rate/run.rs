//! One search under way.

use super::{Parts, Way};
use crate::error::LabError;
use crate::generator::{Gaps, Load, Sent, Typical};
use crate::hook::{self, Place};
use crate::object::{self, Loaded};
use crate::search::{Found, Goal, Search, Try};
use crate::statistics::median;
use crate::testbed::{CONTROL_PRIORITY, Placed, Placement, Role, Testbed};
use crate::trial::{Curve, Outcome, Request, SliceValues, Slices};
use crate::trials::setting;
use karakoram_kernel::attach::Attachment;
use std::rc::Rc;
use std::time::Duration;

/// The search begins at this share of what gets through at full speed, with steps by this factor.
const BEGIN: f64 = 0.9;
const FACTOR: f64 = 1.1;
/// Full speeds that the next rate to try is a share of, at most: the last ones.
const LAST: usize = 5;
/// Rate of the try that warms up.
const WARM_UP_RATE: f64 = 1e6;
/// Time after which nothing is under way any more.
const DRAIN: Duration = Duration::from_millis(3);
/// How often a try is made again in which the generator was held up all the time.
const AGAIN: usize = 5;

/// It, with what is in place.
pub(super) struct Run {
    _attached: hook::Attached,
    _near: Attachment,
    pub(super) parts: Rc<Parts>,
    pub(super) bed: Testbed,
    loaded: Loaded,
    /// In shares of what got through at full speed.
    search: Search,
    full: SliceValues,
    /// How often nothing was lost at full speed.
    unhurt: usize,
    /// Rates offered and received, in the same shares.
    points: Vec<(f64, f64)>,
}

/// A rate that was tried, and full speed right after it.
struct Tried {
    offered: f64,
    loss: f64,
    full: f64,
    loss_at_full: f64,
}

impl Slices for Run {
    fn next(&mut self, request: &Request) -> Result<bool, LabError> {
        let Some(share) = self.search.next() else { return Ok(false) };
        let known = &self.full.values[self.full.values.len().saturating_sub(LAST)..];
        let rate = if known.is_empty() { WARM_UP_RATE } else { share * median(known) };
        let tried = self.attempt(rate, request)?;
        self.unhurt += usize::from(tried.loss_at_full <= self.parts.plan.loss);
        self.full.values.push(tried.full);
        let offered = tried.offered / tried.full;
        let received = offered * (1.0 - tried.loss);
        self.points.push((offered, received));
        self.search.learn(Try { offered, received, loss: tried.loss });
        Ok(self.search.next().is_some())
    }

    fn finish(self: Box<Self>, request: &Request) -> Result<Outcome, LabError> {
        let Some(found) = self.search.clone().found() else {
            return Ok(Outcome::voided("frames were lost at every rate"));
        };
        let mut outcome = self.report(&found);
        self.add_latencies(&mut outcome, found.threshold * median(&self.full.values), request)?;
        outcome.notes.insert("placement".into(), self.bed.placement.describe());
        outcome.notes.insert("program".into(), size_of(&self.loaded, &self.parts.entry));
        Ok(outcome)
    }
}

impl Run {
    /// Attaches, and warms up.
    pub(super) fn begin(parts: Rc<Parts>, request: &Request) -> Result<Run, LabError> {
        let bed = Testbed::build(Placement::Threaded)?;
        let loaded = object::load(&parts.object, &[&parts.entry])?;
        setting::apply(&parts.plan.set, &loaded)?;
        let near = parts.sink.attach(&bed)?;
        let program = Some(loaded.program(&parts.entry));
        let attached = hook::attach(&bed, parts.plan.hook, program, Place::default())?;
        let goal = Goal { loss: parts.plan.loss, step: parts.plan.step, tries: parts.plan.tries };
        let full = SliceValues::new("full_rate", "packets/s");
        let search = Search::new(BEGIN, FACTOR, goal);
        let points = Vec::new();
        let run = Run { parts, bed, loaded, search, full, unhurt: 0, points, _near: near, _attached: attached };
        run.attempt(WARM_UP_RATE, request)?;
        Ok(run)
    }

    /// Frames at this rate.
    pub(super) fn load(&self, rate: f64) -> Load {
        let plan = &self.parts.plan;
        Load {
            gaps: if plan.poisson { Gaps::Poisson } else { Gaps::Constant },
            frame_bytes: plan.frame_bytes,
            flows: self.parts.flows.clone(),
            ..Load::new(Some(rate), Duration::from_millis(plan.try_ms))
        }
    }

    /// Sends them; how many were received.
    pub(super) fn send(&self, load: &Load, request: &Request) -> Result<(Sent, u64), LabError> {
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

    fn attempt(&self, rate: f64, request: &Request) -> Result<Tried, LabError> {
        let load = Load { then_hurry: Duration::from_millis(self.parts.plan.try_ms) / 2, ..self.load(rate) };
        for _ in 0..AGAIN {
            self.parts.sink.reset(1, u64::MAX)?;
            let (sent, received) = self.send(&load, request)?;
            if let Some((paced, hurried)) = sent.typical(&load) {
                return Ok(judge(&sent, received, paced, hurried));
            }
        }
        Err(LabError::Machine("the generator was held up all the time".into(), "is the machine busy?".into()))
    }

    fn report(&self, found: &Found) -> Outcome {
        let (share, level) = (found.threshold, median(&self.full.values));
        let mut outcome = Outcome::default();
        let values = self.full.values.iter().map(|full| full * share).collect();
        outcome.slices.push(SliceValues { values, ..SliceValues::new("loss_free_rate", "packets/s") });
        outcome.notes.insert("share of full speed without loss".into(), format!("{share:.3}"));
        outcome.slices.push(self.full.clone());
        outcome.curves.push(Curve {
            name: "received over offered".into(),
            x: "offered (packets/s)".into(),
            y: "received (packets/s)".into(),
            points: self.points.iter().map(|(x, y)| (x * level, y * level)).collect(),
        });
        if found.is_generator_bound || 2 * self.unhurt > self.full.values.len() {
            outcome.note_generator_limit();
        }
        outcome
    }
}

/// Of the frames that the device took in most milliseconds, the share that was received in all is what got
/// through: programs may lose some too.
fn judge(sent: &Sent, received: u64, paced: Typical, hurried: Typical) -> Tried {
    let lost: u64 = sent.windows.iter().map(|w| w.lost).sum();
    let kept = (received as f64 / sent.frames.saturating_sub(lost).max(1) as f64).min(1.0);
    let loss = |part: &Typical| 1.0 - (1.0 - part.loss) * kept;
    let full = (hurried.rate * (1.0 - loss(&hurried))).max(1.0);
    Tried { offered: paced.rate, loss: loss(&paced), full, loss_at_full: loss(&hurried) }
}

fn size_of(loaded: &Loaded, entry: &str) -> String {
    match loaded.program(entry).info(false) {
        Ok(info) => format!("{} bytes of machine code", info.jited_len),
        Err(_) => "loaded".into(),
    }
}
