//! Figures of a run.

use super::sentence;
use crate::analysis::{Analysis, MetricAnalysis, VariantFigures};
use crate::experiment::{FigureText, Form};
use crate::report::{Axis, BoxRow, Figure, IntervalRow, Plot, Point, Scale, Series, cdf};
use crate::results::{Results, TrialRecord};
use crate::statistics::quantile;
use crate::trial::{Curve, Samples, Values, histogram};
use crate::units::Shown;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Axes whose largest value is so many times the smallest are logarithmic.
const WIDE: f64 = 20.0;

/// All figures that the experiment asks for and that there is something to draw in.
pub fn all(results: &Results, analysis: &Analysis) -> Vec<Figure> {
    let asked = analysis.experiment.definition.figures.iter();
    asked.filter_map(|text| figure(text, results, analysis)).collect()
}

fn figure(text: &FigureText, results: &Results, analysis: &Analysis) -> Option<Figure> {
    let metric = || analysis.metrics.iter().find(|m| m.metric.name == text.of && !m.variants.is_empty());
    let (what, caption, plot) = match text.form {
        Form::Distribution => distribution(text, results, analysis)?,
        Form::Boxes => boxes(text, results, analysis)?,
        Form::Values => values(metric()?),
        Form::Ratios => ratios(metric()?),
        Form::Curve => curves(text, results, analysis)?,
        Form::Over => over(text, metric()?, analysis)?,
    };
    let name = format!("{}-{}-{}", analysis.experiment.name, file_name(&text.of), form_name(text.form));
    Some(Figure { name, title: sentence(&text.title.clone().unwrap_or(what)), caption: caption.to_string(), plot })
}

type Drawn = (String, &'static str, Plot);

fn form_name(form: Form) -> &'static str {
    match form {
        Form::Distribution => "distribution",
        Form::Boxes => "boxes",
        Form::Values => "values",
        Form::Ratios => "ratios",
        Form::Curve => "curve",
        Form::Over => "over",
    }
}

fn file_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn counted<'a>(results: &'a Results, variant: &'a str) -> impl Iterator<Item = &'a TrialRecord> {
    results.trials.iter().filter(move |t| t.counts() && !t.is_control && t.variant == variant)
}

/// The samples of all trials of a variant.
fn samples<'a>(results: &'a Results, variant: &'a str, name: &'a str) -> Vec<&'a Samples> {
    counted(results, variant).flat_map(|t| t.samples.iter().filter(move |s| s.name == name)).collect()
}

fn together(all: &[&Samples]) -> Histogram<u64> {
    let mut sum = histogram();
    for samples in all {
        // Three digits hold any number that a trial's histogram held.
        let _ = match &samples.values {
            Values::Histogram(one) => sum.add(one.as_ref()).map_err(|_| ()),
            Values::List(list) => list.iter().try_for_each(|v| sum.record(v.max(0.0) as u64).map_err(|_| ())),
        };
    }
    sum
}

fn distribution(text: &FigureText, results: &Results, analysis: &Analysis) -> Option<Drawn> {
    let mut all: Vec<(String, Histogram<u64>)> = Vec::new();
    let mut unit = String::new();
    for variant in &analysis.experiment.variants {
        let found = samples(results, &variant.name, &text.of);
        unit = found.first().map_or(unit, |s| s.unit.to_string());
        all.push((variant.name.clone(), together(&found)));
    }
    all.retain(|(_, h)| !h.is_empty());
    let largest = all.iter().map(|(_, h)| h.value_at_quantile(0.5)).max()? as f64;
    let shown = Shown::of(&unit, largest);
    let series = all.iter().map(|(name, h)| cdf(name, h, shown.factor)).collect();
    let plot =
        Plot::Lines { x: Axis::new(&text.of, &shown.unit, Scale::Log), y: Axis::new("share", "", Scale::Zero), series };
    Some((format!("Distribution of {}", text.of), "All trials together.", plot))
}

fn boxes(text: &FigureText, results: &Results, analysis: &Analysis) -> Option<Drawn> {
    let mut rows = Vec::new();
    let mut unit = String::new();
    for variant in &analysis.experiment.variants {
        let found = samples(results, &variant.name, &text.of);
        let Some(first) = found.first() else { continue };
        unit = first.unit.to_string();
        rows.push(one_box(&variant.name, &found));
    }
    let largest = rows.iter().map(|r| r.median).fold(0.0, f64::max);
    let shown = Shown::of(&unit, largest);
    for row in &mut rows {
        for value in [&mut row.low, &mut row.q1, &mut row.median, &mut row.q3, &mut row.high] {
            *value *= shown.factor;
        }
    }
    let scale = scale(rows.iter().flat_map(|r| [r.low, r.high]));
    let caption = "Box: quartiles and median of all samples; whiskers: 1st and 99th percentile.";
    let plot = Plot::Boxes { axis: Axis::new(&text.of, &shown.unit, scale), rows };
    (largest > 0.0).then(|| (format!("Spread of {}", text.of), caption, plot))
}

fn one_box(label: &str, all: &[&Samples]) -> BoxRow {
    let lists: Option<Vec<&Vec<f64>>> = all
        .iter()
        .map(|s| match &s.values {
            Values::List(list) => Some(list),
            Values::Histogram(_) => None,
        })
        .collect();
    let at: Box<dyn Fn(f64) -> f64> = match lists {
        Some(lists) => {
            let values: Vec<f64> = lists.into_iter().flatten().copied().collect();
            Box::new(move |share| quantile(&values, share))
        }
        None => {
            let counts = together(all);
            Box::new(move |share| counts.value_at_quantile(share) as f64)
        }
    };
    BoxRow { label: label.to_string(), low: at(0.01), q1: at(0.25), median: at(0.5), q3: at(0.75), high: at(0.99) }
}

fn scale(values: impl Iterator<Item = f64>) -> Scale {
    let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    if low > 0.0 && high / low > WIDE { Scale::Log } else { Scale::Zero }
}

fn values(metric: &MetricAnalysis) -> Drawn {
    let largest = metric.variants.iter().map(|v| v.estimate.value).fold(0.0, f64::max);
    let shown = Shown::of(&metric.unit, largest);
    let row = |v: &VariantFigures| {
        let e = v.estimate.map(|x| x * shown.factor);
        IntervalRow { label: v.name.clone(), value: e.value, low: e.low, high: e.high, published: None }
    };
    let rows: Vec<IntervalRow> = metric.variants.iter().map(row).collect();
    let axis = Axis::new(&metric.metric.title, &shown.unit, scale(rows.iter().flat_map(|r| [r.low, r.high])));
    let plot = Plot::Intervals { axis, reference: None, band: None, rows };
    (metric.metric.title.clone(), "Medians over trials with 95 % intervals.", plot)
}

fn ratios(metric: &MetricAnalysis) -> Drawn {
    let row = |v: &VariantFigures| {
        let r = v.comparison.as_ref()?.ratio;
        Some(IntervalRow {
            label: v.name.clone(),
            value: r.value,
            low: r.low,
            high: r.high,
            published: published(metric, &v.name),
        })
    };
    let mut rows: Vec<IntervalRow> = metric.variants.iter().filter_map(row).collect();
    let own = metric.control.map(|c| IntervalRow {
        label: "the baseline against itself".to_string(),
        value: c.value,
        low: c.low,
        high: c.high,
        published: None,
    });
    rows.extend(own);
    let values = rows.iter().flat_map(|r| [r.low, r.high]);
    let scale = if scale(values) == Scale::Log { Scale::Log } else { Scale::Linear };
    let band = metric.band.is_finite().then(|| (1.0 / metric.band, metric.band));
    let axis = Axis::new(format!("{}: over the baseline", metric.metric.title), "", scale);
    let caption = "Ratios to the baseline with 95 % intervals; differences within the shaded band are those of the machine. \
                   Rings: the same ratio as others published it, on other hardware.";
    (format!("{}: ratios", metric.metric.title), caption, Plot::Intervals { axis, reference: Some(1.0), band, rows })
}

/// The ratio of two published values: theirs over theirs.
fn published(metric: &MetricAnalysis, variant: &str) -> Option<f64> {
    let values = &metric.metric.published;
    let baseline = values.get(&metric.variants.first()?.name).filter(|v| **v > 0.0)?;
    Some(values.get(variant)? / baseline)
}

fn curves(text: &FigureText, results: &Results, analysis: &Analysis) -> Option<Drawn> {
    let mut series = Vec::new();
    let mut axes = None;
    for variant in &analysis.experiment.variants {
        let found: Vec<&Curve> =
            counted(results, &variant.name).flat_map(|t| t.curves.iter().filter(|c| c.name == text.of)).collect();
        let Some(first) = found.first() else { continue };
        axes = Some((first.x.clone(), first.y.clone()));
        series.push(typical(&variant.name, &found));
    }
    let (x, y) = axes?;
    let plot = Plot::Lines { x: Axis::new(x, "", Scale::Zero), y: Axis::new(y, "", Scale::Zero), series };
    Some((text.of.clone(), "Medians over trials; the area is from the lowest to the highest.", plot))
}

/// The median of several curves; points belong together by their place in the order of x where all have as many,
/// and by their x otherwise.
fn typical(label: &str, curves: &[&Curve]) -> Series {
    let mut groups: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    let is_even = curves.iter().all(|c| c.points.len() == curves[0].points.len());
    for curve in curves {
        let mut points = curve.points.clone();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (place, point) in points.into_iter().enumerate() {
            let key = if is_even { place as u64 } else { point.0.max(0.0).to_bits() };
            groups.entry(key).or_default().push(point);
        }
    }
    let point = |group: &Vec<(f64, f64)>| {
        let (xs, ys): (Vec<f64>, Vec<f64>) = group.iter().copied().unzip();
        let interval = (ys.len() > 1).then(|| (quantile(&ys, 0.0), quantile(&ys, 1.0)));
        Point { x: quantile(&xs, 0.5), y: quantile(&ys, 0.5), interval }
    };
    let mut points: Vec<Point> = groups.values().map(point).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series { label: label.to_string(), points, is_step: false, is_published: false }
}

fn over(text: &FigureText, metric: &MetricAnalysis, analysis: &Analysis) -> Option<Drawn> {
    let across = text.over.as_deref()?;
    let largest = metric.variants.iter().map(|v| v.estimate.value).fold(0.0, f64::max);
    let shown = Shown::of(&metric.unit, largest);
    let mut groups: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for variant in &analysis.experiment.variants {
        let Some(figures) = metric.named(&variant.name) else { continue };
        let table = variant.parameters.table();
        let number = table.get(across).and_then(|v| v.as_float().or(v.as_integer().map(|n| n as f64)));
        let Some(x) = number else { continue };
        let label = text.by.as_ref().and_then(|by| table.get(by)).map_or(String::new(), crate::experiment::shown);
        let e = figures.estimate.map(|v| v * shown.factor);
        groups.entry(label).or_default().push(Point { x, y: e.value, interval: Some((e.low, e.high)) });
    }
    let series = groups.into_iter().map(|(label, mut points)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let label = if label.is_empty() { metric.metric.title.clone() } else { label };
        Series { label, points, is_step: false, is_published: false }
    });
    let plot = Plot::Lines {
        x: Axis::new(across, "", Scale::Linear),
        y: Axis::new(&metric.metric.title, &shown.unit, Scale::Zero),
        series: series.collect(),
    };
    Some((format!("{} over {across}", metric.metric.title), "Medians over trials with 95 % intervals.", plot))
}
