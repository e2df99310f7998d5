//! Rules from search: windows that a search made shorter become general rules, with constants as
//! variables as far as a proof holds, for a person to review.

mod draft;
mod generalize;
mod sample;

pub use sample::{Effort, Sample, samples};

use crate::rules::Rule;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A rule that was learned.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The rule, proven in general.
    pub rule: Rule,
    /// Windows that led to it.
    pub support: usize,
    /// Where these were.
    pub origins: BTreeSet<String>,
}

/// Collects what samples teach.
#[derive(Default)]
pub struct Learner {
    /// By text without the name.
    learned: BTreeMap<String, Learned>,
    /// What became of a window that looks the same: the text of its rule.
    known: HashMap<String, Option<String>>,
    /// Windows that no rule came of.
    pub unsaid: usize,
}

impl Learner {
    /// Learns from one window. The same windows in the same order teach the same.
    pub fn add(&mut self, sample: &Sample) {
        let key = sample.key();
        if !self.known.contains_key(&key) {
            let rule = generalize::rule(sample);
            let body = rule.as_ref().map(body);
            if let (Some(rule), Some(body)) = (rule, &body) {
                let new = Learned { rule, support: 0, origins: BTreeSet::new() };
                self.learned.entry(body.clone()).or_insert(new);
            }
            self.known.insert(key.clone(), body);
        }
        match self.known[&key].as_ref().and_then(|body| self.learned.get_mut(body)) {
            Some(learned) => {
                learned.support += 1;
                learned.origins.insert(sample.origin.clone());
            }
            None => self.unsaid += 1,
        }
    }

    /// The rules, those with most support first.
    pub fn rules(&self) -> Vec<Learned> {
        let mut all: Vec<Learned> = self.learned.values().cloned().collect();
        all.sort_by_key(|l| std::cmp::Reverse(l.support));
        let mut names: HashMap<String, usize> = HashMap::new();
        for learned in &mut all {
            let name = draft::name(&learned.rule.variants[0]);
            let n = names.entry(name.clone()).or_insert(0);
            *n += 1;
            let name = if *n == 1 { name } else { format!("{name}-{n}") };
            learned.rule.text = format!("rule {name}\n{}", body(&learned.rule));
            learned.rule.name = name;
        }
        all
    }
}

/// The text of a rule without its name.
fn body(rule: &Rule) -> String {
    rule.text.split_once('\n').map_or(String::new(), |(_, body)| body.to_string())
}
