//! Estimates with their intervals, one below the other.

use super::canvas::Canvas;
use super::rows::Rows;
use crate::report::figure::{Axis, IntervalRow};
use crate::report::number::short;

const HEIGHT: f64 = 28.0;

/// Draws; returns the height.
pub fn draw(
    canvas: &mut Canvas,
    axis: &Axis,
    reference: Option<f64>,
    band: Option<(f64, f64)>,
    estimates: &[IntervalRow],
) -> f64 {
    let labels: Vec<&str> = estimates.iter().map(|e| e.label.as_str()).collect();
    let values = estimates.iter().flat_map(|e| [Some(e.low), Some(e.high), e.published]).flatten();
    let marks = [reference, band.map(|b| b.0), band.map(|b| b.1)];
    let rows = Rows::draw(canvas, axis, values.chain(marks.into_iter().flatten()), &labels, (8.0, HEIGHT));
    let (top, bottom) = rows.ends();
    if let Some((low, high)) = band {
        let hint = format!("A against itself: {} to {}", short(low), short(high));
        canvas.rect((rows.span.at(low), top), (rows.span.at(high), bottom), "band", &hint);
    }
    if let Some(reference) = reference {
        let x = rows.span.at(reference);
        canvas.line((x, top), (x, bottom), "reference");
    }
    for (number, one) in estimates.iter().enumerate() {
        let y = rows.middle(number);
        let (low, high) = (rows.span.at(one.low), rows.span.at(one.high));
        canvas.line((low, y), (high, y), "stroke k0");
        for end in [low, high] {
            canvas.line((end, y - 5.0), (end, y + 5.0), "thin k0");
        }
        let hint =
            format!("{}: {} [{}, {}] {}", one.label, short(one.value), short(one.low), short(one.high), axis.unit);
        canvas.circle((rows.span.at(one.value), y), 4.5, "mark k0", &hint);
        if let Some(published) = one.published.filter(|p| rows.span.shows(*p)) {
            let hint = format!("{}: published {} {} (other hardware)", one.label, short(published), axis.unit);
            canvas.circle((rows.span.at(published), y), 4.5, "other", &hint);
        }
    }
    rows.total()
}
