//! Published claims, and when they hold.

use serde::Deserialize;

/// A published claim as text.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClaimText {
    /// What is claimed.
    pub text: String,
    /// Where.
    pub source: String,
    /// The published figures.
    pub published: String,
    /// What the rule is about.
    pub metric: Option<String>,
    /// When it holds.
    pub rule: Rule,
    /// Why it does not hold here, if it does not: what is known about this kind of machine.
    #[serde(default)]
    pub mechanism: String,
}

/// When a claim holds.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Rule {
    /// The metric grows from each variant to the next.
    Order(Vec<String>),
    /// The first over the second is within bounds.
    Ratio {
        /// Two variants.
        of: [String; 2],
        /// Lower bound.
        #[serde(default)]
        at_least: Option<f64>,
        /// Upper bound.
        #[serde(default)]
        at_most: Option<f64>,
    },
    /// The metric of a variant is within bounds.
    Value {
        /// The variant.
        of: String,
        /// Lower bound.
        #[serde(default)]
        at_least: Option<f64>,
        /// Upper bound.
        #[serde(default)]
        at_most: Option<f64>,
    },
    /// This machine cannot show it, and why.
    NotTestable(String),
}

impl Rule {
    /// The variants it is about.
    pub fn variants(&self) -> Vec<&str> {
        match self {
            Rule::Order(all) => all.iter().map(String::as_str).collect(),
            Rule::Ratio { of, .. } => of.iter().map(String::as_str).collect(),
            Rule::Value { of, .. } => vec![of],
            Rule::NotTestable(_) => Vec::new(),
        }
    }

    /// Whether it is about a metric.
    pub fn needs_metric(&self) -> bool {
        !matches!(self, Rule::NotTestable(_))
    }
}
