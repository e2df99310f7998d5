//! Figures as data: what is drawn, not how.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Points of a cumulative distribution are at most so many.
const CDF_POINTS: u64 = 200;

/// A figure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Its name: of its file, if it gets one.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How to read it: what boxes and intervals mean, how many there are.
    pub caption: String,
    /// What is drawn.
    pub plot: Plot,
}

/// What is drawn.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plot {
    /// One box for each row, without outliers.
    Boxes {
        /// The quantity.
        axis: Axis,
        /// From top to bottom.
        rows: Vec<BoxRow>,
    },
    /// One estimate with its interval for each row.
    Intervals {
        /// The quantity.
        axis: Axis,
        /// A line to compare with, such as 1 for ratios.
        reference: Option<f64>,
        /// Differences within it are none: what a control against itself shows.
        band: Option<(f64, f64)>,
        /// From top to bottom.
        rows: Vec<IntervalRow>,
    },
    /// Curves: cumulative distributions, one quantity over another.
    Lines {
        /// The horizontal quantity.
        x: Axis,
        /// The vertical quantity.
        y: Axis,
        /// The curves.
        series: Vec<Series>,
    },
    /// Bars of parts.
    Bars {
        /// The quantity.
        axis: Axis,
        /// Whether the parts of a row follow one another; otherwise they are below one another.
        is_stacked: bool,
        /// From top to bottom.
        rows: Vec<BarRow>,
    },
}

/// A quantity.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// What it is.
    pub label: String,
    /// Its unit; may be empty.
    pub unit: String,
    /// How its values are placed.
    pub scale: Scale,
}

/// How values are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Evenly, as much of them as there is.
    Linear,
    /// Evenly, from 0.
    Zero,
    /// By their logarithm; what is not positive is left out.
    Log,
}

/// A box.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BoxRow {
    /// What it is of.
    pub label: String,
    /// Lower whisker.
    pub low: f64,
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// Upper whisker.
    pub high: f64,
}

/// An estimate with its interval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IntervalRow {
    /// What it is of.
    pub label: String,
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What others published for it, on other hardware.
    pub published: Option<f64>,
}

/// A curve.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Series {
    /// What it is of.
    pub label: String,
    /// Its points, by x.
    pub points: Vec<Point>,
    /// Whether it stays as it is up to the next point.
    pub is_step: bool,
    /// Whether others published it, on other hardware.
    pub is_published: bool,
}

/// A point of a curve.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Horizontal.
    pub x: f64,
    /// Vertical.
    pub y: f64,
    /// Ends of its interval, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval: Option<(f64, f64)>,
}

/// A bar, or several that belong together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BarRow {
    /// What it is of.
    pub label: String,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A part of a bar.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// What it is; parts of one name have one colour.
    pub label: String,
    /// How long.
    pub value: f64,
    /// Ends of its interval, if it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval: Option<(f64, f64)>,
}

impl Axis {
    /// A quantity with its unit.
    pub fn new(label: impl Into<String>, unit: impl Into<String>, scale: Scale) -> Axis {
        Axis { label: label.into(), unit: unit.into(), scale }
    }

    /// `label (unit)`.
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.unit) }
    }
}

impl Series {
    /// A curve through points.
    pub fn new(label: impl Into<String>, points: &[(f64, f64)]) -> Series {
        let points = points.iter().map(|&(x, y)| Point { x, y, interval: None }).collect();
        Series { label: label.into(), points, is_step: false, is_published: false }
    }
}

/// The cumulative distribution of a histogram, its values times `factor`.
pub fn cdf(label: impl Into<String>, histogram: &Histogram<u64>, factor: f64) -> Series {
    let every = (histogram.len() / CDF_POINTS).max(1);
    let mut points: Vec<(f64, f64)> = Vec::new();
    let (mut seen, mut shown) = (0u64, 0u64);
    for value in histogram.iter_recorded() {
        seen += value.count_at_value();
        if points.is_empty() || seen - shown >= every || seen == histogram.len() {
            points.push((value.value_iterated_to() as f64 * factor, seen as f64 / histogram.len() as f64));
            shown = seen;
        }
    }
    Series { is_step: true, ..Series::new(label, &points) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_ends_at_one_and_is_short() {
        let mut histogram = crate::trial::histogram();
        (0..100_000u64).for_each(|n| histogram.record(n % 5000 + 1).unwrap());
        let points = cdf("x", &histogram, 0.001).points;
        assert!(points.len() <= CDF_POINTS as usize + 2 && points.is_sorted_by(|a, b| a.x < b.x && a.y < b.y));
        assert_eq!(points.last().unwrap().y, 1.0);
        assert!((points.last().unwrap().x - 5.0).abs() < 0.01);
    }
}
