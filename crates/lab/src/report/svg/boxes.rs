//! Box plots.

use super::canvas::Canvas;
use super::rows::Rows;
use crate::report::figure::{Axis, BoxRow};
use crate::report::number::short;

const HEIGHT: f64 = 34.0;
const HALF: f64 = 9.0;

/// Draws; returns the height.
pub fn draw(canvas: &mut Canvas, axis: &Axis, boxes: &[BoxRow]) -> f64 {
    let labels: Vec<&str> = boxes.iter().map(|b| b.label.as_str()).collect();
    let values = boxes.iter().flat_map(|b| [b.low, b.q1, b.median, b.q3, b.high]);
    let rows = Rows::draw(canvas, axis, values, &labels, (8.0, HEIGHT));
    for (number, one) in boxes.iter().enumerate() {
        let y = rows.middle(number);
        let [low, q1, median, q3, high] = [one.low, one.q1, one.median, one.q3, one.high].map(|v| rows.span.at(v));
        for (from, to) in [(low, q1), (q3, high)] {
            canvas.line((from, y), (to, y), "thin k0");
        }
        for end in [low, high] {
            canvas.line((end, y - HALF / 2.0), (end, y + HALF / 2.0), "thin k0");
        }
        let hint = format!(
            "{}: median {}, quartiles {} to {}, whiskers {} to {} {}",
            one.label,
            short(one.median),
            short(one.q1),
            short(one.q3),
            short(one.low),
            short(one.high),
            axis.unit
        );
        canvas.rect((q1, y - HALF), (q3, y + HALF), "box k0", &hint);
        canvas.line((median, y - HALF), (median, y + HALF), "median k0");
    }
    rows.total()
}
