//! What a run of an experiment leaves: every trial with everything it measured, what it was measured
//! on, and the definition it was made by. All figures and verdicts are made from this alone.

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::files::replace;
use crate::trial::{Curve, LIMIT, Samples, SliceValues};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Names this form of results.
pub const SCHEMA: &str = "kara/lab/results/1";
/// Name of the file.
pub const FILE: &str = "results.json";

/// A run of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The experiment.
    pub experiment: String,
    /// Its definition, as text.
    pub definition: String,
    /// Whether it was the quick form.
    pub is_quick: bool,
    /// Seed of the order and of the trials.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
    /// Why its figures may be wrong: others used the machine.
    pub contamination: Vec<String>,
    /// Variants that could not be measured here, and why.
    pub unavailable: BTreeMap<String, String>,
    /// What it was measured on and with.
    pub environment: Vec<(String, String)>,
    /// Every trial, in the order they were made.
    pub trials: Vec<TrialRecord>,
}

/// A trial.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TrialRecord {
    /// The variant; the baseline's second self has its name too.
    pub variant: String,
    /// Whether it is the baseline measured again, as the control.
    pub is_control: bool,
    /// Round, from 0; those below 0 warmed up and count for nothing.
    pub round: i64,
    /// Its seed.
    pub seed: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Why it counts for nothing, if so.
    pub void: Option<String>,
    /// Share of one processor that others used meanwhile.
    pub others: f64,
    /// Share of the processors' time that the host took away meanwhile.
    pub stolen: f64,
    /// What was measured.
    pub samples: Vec<Samples>,
    /// What samples were made of, slice by slice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceValues>,
    /// One quantity over another.
    pub curves: Vec<Curve>,
    /// What else is known.
    pub notes: BTreeMap<String, String>,
}

impl TrialRecord {
    /// Whether conclusions may be drawn from it.
    pub fn counts(&self) -> bool {
        self.void.is_none() && self.round >= 0
    }

    /// Whether its rates are lower bounds.
    pub fn is_lower_bound(&self) -> bool {
        self.notes.contains_key(LIMIT)
    }
}

impl Results {
    /// Reads `FOLDER/results.json`.
    pub fn read(folder: &Path) -> Result<Results, LabError> {
        let path = folder.join(FILE);
        let bytes = std::fs::read(&path).map_err(|e| LabError::file("read", &path, &e))?;
        serde_json::from_slice(&bytes)
            .map_err(|e| LabError::Request(format!("{} holds no results of this version: {e}", path.display())))
    }

    /// Writes `FOLDER/results.json`, which is complete or absent.
    pub fn write(&self, folder: &Path) -> Result<(), LabError> {
        std::fs::create_dir_all(folder).map_err(|e| LabError::file("make the folder", folder, &e))?;
        let text = serde_json::to_string(self).map_err(|e| LabError::Request(format!("the results: {e}")))?;
        // One trial in a line: a difference between two files is then one that people can read.
        replace(&folder.join(FILE), text.replace("{\"variant\":", "\n{\"variant\":").as_bytes())
    }

    /// The experiment as it was then.
    pub fn experiment(&self) -> Result<Experiment, LabError> {
        Experiment::parse(&self.experiment, &self.definition)
    }
}
