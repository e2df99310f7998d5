//! What code that measures and code that runs experiments agree on.
//!
//! A **trial** is one attach, measure, detach. It is the unit of replication: however many packets it
//! sees, statistics count it once. A [`Kind`] of trial knows how to make [`Trial`]s from the parameters
//! of an experiment; the runner decides which is run when, and what their samples say.
//!
//! An experiment (`experiments/NAME/experiment.toml`) names a kind, parameters for all of its variants,
//! and for each variant those that differ; they arrive merged, as one [`Parameters`]. The variant that
//! is the baseline is made twice, from the same parameters: the second is the A/A control.

mod counted;
mod parameters;
mod samples;
mod slices;

pub use parameters::Parameters;
pub use samples::{Curve, Samples, Statistic, Values, histogram};
pub use slices::{SliceValues, Sliced, Slices, settle};

use crate::error::LabError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A kind of trial: a way to measure.
pub trait Kind {
    /// Its name in `experiment.toml`.
    fn name(&self) -> &'static str;

    /// Why it cannot be done on this machine, whatever the parameters; asked before anything is prepared.
    fn check_machine(&self) -> Result<(), LabError> {
        Ok(())
    }

    /// Reads the parameters and makes ready what all trials of a variant share: programs are compiled,
    /// files are made. Nothing is attached yet and nothing is left behind when the result is dropped.
    /// [`LabError::Machine`] here means that this variant is not testable on this machine.
    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError>;
}

/// One variant of an experiment, ready to be measured again and again.
pub trait Trial {
    /// Attaches, warms up, measures, detaches. Everything it set up is gone when it returns, also when
    /// it fails. An error ends the experiment; what only spoils this trial is [`Outcome::void`].
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError>;

    /// The trial in slices, if it can be measured so; the runner then lets all variants take turns.
    fn sliced(&self) -> Option<&dyn Sliced> {
        None
    }
}

/// What is asked of one trial.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// For everything that is random in it; another in each trial.
    pub seed: u64,
    /// Asked now and then, at least once in a second; true means to clean up and to return
    /// [`LabError::Interrupted`].
    pub is_interrupted: &'a (dyn Fn() -> bool + Sync),
}

impl Request<'_> {
    /// Fails when someone asked to stop.
    pub fn check(&self) -> Result<(), LabError> {
        if (self.is_interrupted)() { Err(LabError::Interrupted) } else { Ok(()) }
    }
}

/// Where trials find programs, and what makes them.
pub struct Workshop<'a> {
    /// The folder of our own packet programs (`programs/`).
    pub programs: &'a Path,
    /// A folder for files, emptied when the experiment ends.
    pub scratch: &'a Path,
    /// Makes an optimized copy of a BPF object, proven, and returns its path.
    pub optimize: &'a dyn Fn(&Path) -> Result<PathBuf, LabError>,
}

/// The note of a trial whose rates are lower bounds: not what was tested set the limit.
pub const LIMIT: &str = "limit";

/// What came of a trial.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was measured.
    pub samples: Vec<Samples>,
    /// What was measured in slices; the runner makes samples of it.
    pub slices: Vec<SliceValues>,
    /// One quantity over another, such as received over offered packets: for figures.
    pub curves: Vec<Curve>,
    /// Why nothing may be concluded from it (the generator was late, a reply was wrong, packets were
    /// lost where none may be). Its samples are kept, and not used.
    pub void: Option<String>,
    /// What is worth knowing about it: counters, lateness, affinity as read back, sizes of programs.
    pub notes: BTreeMap<String, String>,
}

impl Outcome {
    /// Nothing may be concluded from it.
    pub fn voided(reason: impl Into<String>) -> Outcome {
        Outcome { void: Some(reason.into()), ..Outcome::default() }
    }

    /// Notes that the generator could not do more: rates are lower bounds.
    pub fn note_generator_limit(&mut self) {
        self.notes.insert(LIMIT.into(), "the generator's: the rate is a lower bound".into());
    }

    /// The samples of that name.
    pub fn named(&self, name: &str) -> Option<&Samples> {
        self.samples.iter().find(|s| s.name == name)
    }

    /// The numbers of that name, slice by slice.
    pub fn sliced(&self, name: &str) -> Option<&[f64]> {
        self.slices.iter().find(|s| s.name == name).map(|s| s.values.as_slice())
    }
}
