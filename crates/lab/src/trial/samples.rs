//! What trials measure: named numbers, or histograms of many.

use super::counted;
use crate::statistics::{mean, quantile};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Significant decimal digits that histograms keep.
const DIGITS: u8 = 3;

/// An empty histogram of the form all trials use: any number, three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("three digits are allowed")
}

/// A quantity that a trial measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Samples {
    /// What it is: `rtt`, `rate`, `reach.tc`.
    pub name: String,
    /// Its unit: `ns`, `packets/s`, `bit/s`.
    pub unit: Cow<'static, str>,
    /// The numbers.
    pub values: Values,
}

/// Numbers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// Each one, in the order they were measured; often only one.
    List(Vec<f64>),
    /// How often each occurred.
    Histogram(#[serde(with = "counted")] Box<Histogram<u64>>),
}

impl Samples {
    /// One number.
    pub fn one(name: impl Into<String>, unit: impl Into<Cow<'static, str>>, value: f64) -> Samples {
        Samples { name: name.into(), unit: unit.into(), values: Values::List(vec![value]) }
    }

    /// Several.
    pub fn list(name: impl Into<String>, unit: impl Into<Cow<'static, str>>, values: Vec<f64>) -> Samples {
        Samples { name: name.into(), unit: unit.into(), values: Values::List(values) }
    }

    /// Very many.
    pub fn many(name: impl Into<String>, unit: impl Into<Cow<'static, str>>, histogram: Histogram<u64>) -> Samples {
        Samples { name: name.into(), unit: unit.into(), values: Values::Histogram(Box::new(histogram)) }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        match &self.values {
            Values::List(list) => list.len() as u64,
            Values::Histogram(histogram) => histogram.len(),
        }
    }

    /// One number for all of them; `None` of nothing.
    pub fn reduce(&self, statistic: Statistic) -> Option<f64> {
        if self.count() == 0 {
            return None;
        }
        Some(match &self.values {
            Values::List(list) => match statistic {
                Statistic::Mean => mean(list),
                Statistic::Quantile(share) => quantile(list, share),
            },
            Values::Histogram(histogram) => match statistic {
                Statistic::Mean => histogram.mean(),
                Statistic::Quantile(share) => histogram.value_at_quantile(share) as f64,
            },
        })
    }
}

/// How the samples of a trial become one number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// That share of the samples is not larger: 0.5 is the median.
    Quantile(f64),
}

impl Statistic {
    /// Reads `mean`, `median`, `min`, `max`, or `p` with a percentage: `p99`, `p99.9`.
    pub fn parse(text: &str) -> Option<Statistic> {
        let share = match text {
            "mean" => return Some(Statistic::Mean),
            "median" => 0.5,
            "min" => 0.0,
            "max" => 1.0,
            other => other.strip_prefix('p')?.parse::<f64>().ok()? / 100.0,
        };
        (0.0..=1.0).contains(&share).then_some(Statistic::Quantile(share))
    }
}

/// One quantity over another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// What it shows: `received over offered`.
    pub name: String,
    /// Name and unit of the horizontal axis: `offered (packets/s)`.
    pub x: String,
    /// Name and unit of the vertical axis.
    pub y: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_and_lists_reduce_alike() {
        let mut counted = histogram();
        (1..=100).for_each(|n| counted.record(n).unwrap());
        let many = Samples::many("a", "ns", counted);
        let list = Samples::list("a", "ns", (1..=100).map(f64::from).collect());
        for (text, expected) in [("median", 50.0), ("p99", 99.0), ("min", 1.0), ("max", 100.0), ("mean", 50.5)] {
            let statistic = Statistic::parse(text).unwrap();
            for samples in [&many, &list] {
                let got = samples.reduce(statistic).unwrap();
                assert!((got - expected).abs() <= 0.51, "{text}: {got}");
            }
        }
        let text = serde_json::to_string(&many).unwrap();
        assert_eq!(serde_json::from_str::<Samples>(&text).unwrap(), many);
        assert_eq!(Statistic::parse("p101"), None);
        assert_eq!(Samples::list("a", "ns", vec![]).reduce(Statistic::Mean), None);
    }
}
