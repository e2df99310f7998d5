//! From values to places, and the values that are written at an axis.

use crate::report::figure::{Axis, Scale};

/// Ticks that an axis has at most, about.
const TICKS: f64 = 7.0;

/// An axis with its ends.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl Span {
    /// The part of an axis that shows all of `values`, drawn between two places.
    pub fn over(axis: &Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Span {
        let is_log = axis.scale == Scale::Log;
        let shown = values.filter(|v| v.is_finite() && (!is_log || *v > 0.0));
        let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        let (low, high) = match axis.scale {
            Scale::Log => padded(low.log10(), high.log10(), 0.05),
            Scale::Linear => padded(low, high, 0.1),
            Scale::Zero => (low.min(0.0), if high > 0.0 { high * 1.06 } else { 1.0 }),
        };
        Span { low, high, is_log, from, to }
    }

    /// Where a value is; values outside stand at the nearer end.
    pub fn at(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// Whether a value has a place of its own.
    pub fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.is_log || value > 0.0)
    }

    /// Round values along the axis.
    pub fn ticks(&self) -> Vec<f64> {
        if !self.is_log {
            return linear(self.low, self.high);
        }
        let decades = self.high - self.low;
        if decades < 0.7 {
            return linear(10f64.powf(self.low), 10f64.powf(self.high));
        }
        let factors: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / TICKS).ceil().max(1.0) as i32;
        let first = self.low.floor() as i32;
        let powers = (first..=self.high.ceil() as i32).filter(|p| (p - first) % every == 0);
        let all = powers.flat_map(|p| factors.iter().map(move |f| f * 10f64.powi(p)));
        all.filter(|t| (self.low..=self.high).contains(&t.log10())).collect()
    }
}

fn padded(low: f64, high: f64, share: f64) -> (f64, f64) {
    let width = high - low;
    let pad = if width > 0.0 { width * share } else { low.abs().max(1.0) * 0.1 };
    (low - pad, high + pad)
}

fn linear(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|f| f * power).find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(scale: Scale, values: &[f64]) -> Span {
        Span::over(&Axis::new("x", "", scale), values.iter().copied(), 0.0, 100.0)
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(span(Scale::Zero, &[0.0, 100.0]).ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(span(Scale::Log, &[3.0, 70.0]).ticks(), [5.0, 10.0, 20.0, 50.0]);
        assert_eq!(span(Scale::Log, &[1.0, 1e6]).ticks().len(), 7);
    }

    #[test]
    fn one_value_or_none_has_a_place() {
        assert_eq!(span(Scale::Linear, &[5.0]).at(5.0), 50.0);
        assert!(span(Scale::Log, &[]).at(0.0).is_finite());
        assert!(!span(Scale::Log, &[1.0]).shows(0.0));
    }
}
