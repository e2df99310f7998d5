//! Verdicts, and how settings are read.

use karakoram_lab::report::{Claim, Verdict};
use karakoram_link::Mode;
use karakoram_link::config::LineRate;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Reads an experiment's definition, which is part of this program.
pub fn definition<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).expect("the experiments that are built in are well formed")
}

/// A published figure and what may come of it.
pub struct Figure<'a> {
    /// What it says.
    pub text: String,
    /// Where.
    pub source: &'a str,
    /// The figure.
    pub published: f64,
    /// What was found.
    pub measured: f64,
    /// What is near enough.
    pub band: (f64, f64),
    /// The unit, with a space before it.
    pub unit: &'a str,
    /// Why it may not hold.
    pub why: Option<&'a str>,
}

impl Figure<'_> {
    /// The verdict.
    pub fn judge(self) -> Claim {
        let (low, high) = self.band;
        let is_near = (low..=high).contains(&self.measured);
        let tolerance = format!("tolerated: {} to {}{}", short(low), short(high), self.unit);
        let reason = match (is_near, self.why) {
            (false, Some(why)) => format!("{tolerance}. {why}"),
            _ => tolerance,
        };
        Claim {
            text: self.text,
            source: self.source.to_string(),
            published: format!("{}{}", short(self.published), self.unit),
            measured: format!("{}{}", short(self.measured), self.unit),
            verdict: if is_near { Verdict::Holds } else { Verdict::DoesNotHold },
            reason,
        }
    }
}

/// Four digits that matter.
pub fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        0.0 => "0".to_string(),
        s if !(1e-3..1e5).contains(&s) => format!("{value:.2e}"),
        s if s >= 1000.0 => format!("{value:.0}"),
        s if s >= 100.0 => format!("{value:.1}"),
        s if s >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A line rate in a definition.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// 10 Gb/s.
    #[serde(rename = "10G")]
    G10,
    /// 25 Gb/s.
    #[serde(rename = "25G")]
    G25,
    /// 100 Gb/s.
    #[serde(rename = "100G")]
    G100,
}

impl Line {
    /// As the protocol has it.
    pub fn rate(self) -> LineRate {
        match self {
            Line::G10 => LineRate::G10,
            Line::G25 => LineRate::G25,
            Line::G100 => LineRate::G100,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Line::G10 => "10G",
            Line::G25 => "25G",
            Line::G100 => "100G",
        }
    }
}

/// A mode in a definition.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// In order.
    #[serde(rename = "LG")]
    Ordered,
    /// Non-blocking.
    #[serde(rename = "NB")]
    NonBlocking,
}

impl Order {
    /// As the protocol has it.
    pub fn mode(self) -> Mode {
        match self {
            Order::Ordered => Mode::Ordered,
            Order::NonBlocking => Mode::NonBlocking,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Order::Ordered => "LG",
            Order::NonBlocking => "NB",
        }
    }
}

/// The exact 95 % interval of the mean of a Poisson variable that came out as `count` (Garwood 1936),
/// by bisection of its distribution.
pub fn poisson_interval(count: u64) -> (f64, f64) {
    poisson_interval_of(count, 1)
}

/// The same for one of so many counts, all of whose intervals hold together in 95 % of cases (Bonferroni).
pub fn poisson_interval_of(count: u64, counts: usize) -> (f64, f64) {
    let tail = 0.025 / counts as f64;
    let low = if count == 0 { 0.0 } else { root(|mean| 1.0 - below(count - 1, mean), tail, count) };
    (low, root(|mean| 1.0 - below(count, mean), 1.0 - tail, count))
}

/// The mean at which an increasing `share` reaches `target`.
fn root(share: impl Fn(f64) -> f64, target: f64, count: u64) -> f64 {
    let (mut low, mut high) = (0.0, 4.0 * count as f64 + 20.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if share(middle) < target { low = middle } else { high = middle }
    }
    low
}

/// The probability of at most `count` when so many are expected.
fn below(count: u64, mean: f64) -> f64 {
    if mean <= 0.0 {
        return 1.0;
    }
    let mut log_term = -mean;
    let mut sum = log_term.exp();
    for k in 1..=count {
        log_term += (mean / k as f64).ln();
        sum += log_term.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        let near = |a: f64, b: f64| (a - b).abs() < 5e-3;
        for (count, low, high) in [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.390), (100, 81.364, 121.627)] {
            let (l, h) = poisson_interval(count);
            assert!(near(l, low) && near(h, high), "{count}: {l} {h}");
        }
        let (one, many) = (poisson_interval(10), poisson_interval_of(10, 20));
        assert!(many.0 < one.0 && many.1 > one.1);
    }
}
