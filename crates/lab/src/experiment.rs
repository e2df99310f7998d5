//! An experiment as data: what is measured, how often, what others published about it, and what their
//! claims would look like here.
//!
//! ```toml
//! title = "Echo at each hook"
//! about = "A server that answers at one hook after the other."
//! kind = "echo"                   # a kind of trial
//! baseline = "socket"             # measured twice in each round: the A/A control
//! rounds = { least = 20, most = 40, target = 0.02 }   # or one number
//! parameters = { payload-bytes = 13 }
//! quick = { rounds = 6, parameters = { requests = 2000 } }
//!
//! [[variant]]
//! name = "socket"
//! parameters = { hook = "socket" }
//!
//! [[variant]]
//! name = "xdp"
//! parameters = { hook = "xdp" }
//!
//! [[metric]]
//! name = "median"
//! title = "round trip, median"
//! samples = "rtt"                 # as the trial names them
//! statistic = "median"
//! better = "lower"
//! published = { socket = 44300, xdp = 37800 }          # other hardware; in the samples' unit
//!
//! [[figure]]
//! form = "distribution"
//! of = "rtt"
//!
//! [[claim]]
//! text = "XDP saves 6 microseconds"
//! source = "Figure 3"
//! published = "37.8 against 44.3 us"
//! metric = "median"
//! rule = { order = ["xdp", "socket"] }
//! ```
//!
//! Instead of variants, or besides them, `matrix = { hook = ["xdp", "tc"], size = [64, 1500] }` makes one
//! of every combination, named by the values.

mod claim;
mod variant;

pub use claim::{ClaimText, Rule};
pub use variant::{Variant, shown};

use crate::error::LabError;
use crate::trial::{Parameters, Statistic};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Table;
use variant::Matrix;

/// What is called equivalent when an experiment does not say.
const TOLERANCE: f64 = 0.03;

/// An experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Experiment {
    /// Its folder's name.
    pub name: String,
    /// The text it was read from.
    pub text: String,
    /// What the text says.
    pub definition: Definition,
    /// All variants, those of the matrix too; the baseline first.
    pub variants: Vec<Variant>,
}

/// What `experiment.toml` says.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Definition {
    /// Its title.
    pub title: String,
    /// What it is about.
    #[serde(default)]
    pub about: String,
    /// The kind of its trials.
    pub kind: String,
    /// The variant that others are compared with; the first one, if not said.
    pub baseline: Option<String>,
    /// How many rounds.
    pub rounds: Rounds,
    /// Rounds before those that count.
    #[serde(default = "one")]
    pub warm_up: usize,
    /// Within which share two are equivalent.
    #[serde(default = "tolerance")]
    pub tolerance: f64,
    /// Parameters of all variants.
    #[serde(default)]
    pub parameters: Table,
    /// What is different in the quick form.
    #[serde(default)]
    pub quick: Quick,
    /// The variants.
    #[serde(default, rename = "variant")]
    pub variants: Vec<VariantText>,
    /// Values of parameters that are combined to variants.
    #[serde(default)]
    pub matrix: Matrix,
    /// What is looked at.
    #[serde(rename = "metric")]
    pub metrics: Vec<Metric>,
    /// What is drawn.
    #[serde(default, rename = "figure")]
    pub figures: Vec<FigureText>,
    /// What others published.
    #[serde(default, rename = "claim")]
    pub claims: Vec<ClaimText>,
}

/// A variant as text.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariantText {
    /// Its name.
    pub name: String,
    /// What is different in it.
    #[serde(default)]
    pub parameters: Table,
}

/// How many rounds: at least, at most, and the half-width of intervals (as a share) that is enough.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Rounds {
    /// So many in any case.
    pub least: usize,
    /// No more than that.
    pub most: usize,
    /// Enough when the intervals of all ratios are this narrow.
    pub target: f64,
}

impl<'de> Deserialize<'de> for Rounds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Rounds, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Text {
            Fixed(usize),
            Open { least: usize, most: usize, target: f64 },
        }
        Ok(match Text::deserialize(from)? {
            Text::Fixed(count) => Rounds { least: count, most: count, target: 0.0 },
            Text::Open { least, most, target } => Rounds { least, most: most.max(least), target },
        })
    }
}

/// The quick form.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Quick {
    /// Other rounds.
    pub rounds: Option<Rounds>,
    /// Other parameters.
    #[serde(default)]
    pub parameters: Table,
    /// Only these variants.
    pub variants: Option<Vec<String>>,
}

/// One number of each trial.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Metric {
    /// Its name, for claims and figures.
    pub name: String,
    /// What a reader sees.
    pub title: String,
    /// The samples it is made of.
    pub samples: String,
    /// How.
    #[serde(default = "median", deserialize_with = "statistic")]
    pub statistic: Statistic,
    /// Which end is the good one.
    pub better: Better,
    /// Published values of variants, in the unit of the samples; other hardware.
    #[serde(default)]
    pub published: BTreeMap<String, f64>,
}

/// Which end of a metric is the good one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Times, losses.
    Lower,
    /// Rates.
    Higher,
    /// Neither.
    Neither,
}

/// A figure as text.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FigureText {
    /// What it looks like.
    pub form: Form,
    /// Name of the metric, the samples or the curve.
    pub of: String,
    /// Its title; made of the name, if not said.
    pub title: Option<String>,
    /// For `over`: the parameter along the horizontal axis.
    pub over: Option<String>,
    /// For `over`: the parameter that makes one curve from another.
    pub by: Option<String>,
}

/// What a figure looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Cumulative distributions of samples, one for each variant, all trials together.
    Distribution,
    /// A box of samples for each variant.
    Boxes,
    /// A metric of each variant with its interval.
    Values,
    /// Ratios to the baseline.
    Ratios,
    /// Curves that trials measured, medians over trials.
    Curve,
    /// A metric over a parameter.
    Over,
}

fn one() -> usize {
    1
}

fn tolerance() -> f64 {
    TOLERANCE
}

fn median() -> Statistic {
    Statistic::Quantile(0.5)
}

fn statistic<'de, D: Deserializer<'de>>(from: D) -> Result<Statistic, D::Error> {
    let text = String::deserialize(from)?;
    Statistic::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("no statistic `{text}`: mean, median, p99")))
}

impl Experiment {
    /// Reads `FOLDER/experiment.toml`.
    pub fn read(folder: &Path) -> Result<Experiment, LabError> {
        let path = folder.join("experiment.toml");
        let text = std::fs::read_to_string(&path).map_err(|e| LabError::file("read", &path, &e))?;
        let name = folder.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
        Experiment::parse(&name, &text)
    }

    /// Reads a text.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, LabError> {
        let wrong = |e: String| LabError::Request(format!("experiment {name}: {}", e.trim_end()));
        let definition: Definition = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let variants = variant::all(&definition).map_err(wrong)?;
        let experiment = Experiment { name: name.to_string(), text: text.to_string(), definition, variants };
        experiment.check().map_err(wrong)?;
        Ok(experiment)
    }

    /// The variants of a run with their parameters.
    pub fn plan(&self, is_quick: bool) -> Vec<Variant> {
        let quick = &self.definition.quick;
        let wanted = |v: &&Variant| !is_quick || quick.variants.as_ref().is_none_or(|names| names.contains(&v.name));
        let chosen = self.variants.iter().filter(wanted).cloned();
        chosen.map(|v| if is_quick { v.over(&quick.parameters) } else { v }).collect()
    }

    /// The rounds of a run.
    pub fn rounds(&self, is_quick: bool) -> Rounds {
        self.definition.quick.rounds.filter(|_| is_quick).unwrap_or(self.definition.rounds)
    }

    /// The metric of that name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.definition.metrics.iter().find(|m| m.name == name)
    }

    /// Names that are used must exist, or a claim could never come out.
    fn check(&self) -> Result<(), String> {
        let known = |name: &str| self.variants.iter().any(|v| v.name == name);
        let no = |name: &str| format!("there is no variant `{name}`");
        for claim in &self.definition.claims {
            let missing = claim.rule.variants().into_iter().find(|v| !known(v));
            if let Some(missing) = missing {
                return Err(format!("claim `{}`: {}", claim.text, no(missing)));
            }
            if claim.rule.needs_metric() && claim.metric.as_ref().is_none_or(|m| self.metric(m).is_none()) {
                return Err(format!("claim `{}`: it needs a metric that exists", claim.text));
            }
        }
        let published = self.definition.metrics.iter().flat_map(|m| m.published.keys());
        let quick = self.definition.quick.variants.iter().flatten();
        match published.chain(quick).find(|name| !known(name)) {
            Some(name) => Err(no(name)),
            None if self.definition.rounds.least == 0 => Err("it has no rounds".to_string()),
            None => Ok(()),
        }
    }
}

/// Parameters of an experiment, under those of a variant.
fn merged(definition: &Definition, own: &Table) -> Parameters {
    Parameters::new(definition.parameters.clone()).with(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        title = "T"
        kind = "k"
        baseline = "b"
        rounds = { least = 6, most = 12, target = 0.02 }
        parameters = { size = 64, packets = 1000 }
        quick = { rounds = 5, parameters = { packets = 10 }, variants = ["b", "x 64"] }
        matrix = { hook = ["x", "t"], size = [64, 1500] }
        [[variant]]
        name = "a"
        [[variant]]
        name = "b"
        parameters = { size = 1 }
        [[metric]]
        name = "m"
        title = "M"
        samples = "s"
        statistic = "p99"
        better = "lower"
        [[claim]]
        text = "c"
        source = "s"
        published = "1"
        metric = "m"
        rule = { order = ["a", "t 1500"] }
    "#;

    #[test]
    fn variants_come_from_both_and_the_baseline_is_first() {
        let experiment = Experiment::parse("e", TEXT).unwrap();
        let names: Vec<&str> = experiment.variants.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "x 64", "x 1500", "t 64", "t 1500"]);
        let size = |v: &Variant| v.parameters.table()["size"].as_integer();
        assert_eq!(experiment.variants.iter().map(size).collect::<Vec<_>>(), [1, 64, 64, 1500, 64, 1500].map(Some));
        let quick = experiment.plan(true);
        assert_eq!(quick.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["b", "x 64"]);
        assert_eq!(quick[0].parameters.table()["packets"].as_integer(), Some(10));
        assert_eq!((experiment.rounds(true).most, experiment.rounds(false).most), (5, 12));
    }

    #[test]
    fn names_that_do_not_exist_are_mistakes() {
        let error = |from: &str, to: &str| Experiment::parse("e", &TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(error("\"t 1500\"", "\"t 9\"").contains("no variant `t 9`"));
        assert!(error("metric = \"m\"", "metric = \"n\"").contains("metric that exists"));
        assert!(error("baseline = \"b\"", "baseline = \"z\"").contains("no variant `z`"));
        assert!(error("p99", "p999").contains("no statistic"));
        assert!(error("better", "bettr").contains("bettr"));
    }
}
