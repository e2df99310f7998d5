//! Bars: of parts that follow one another, or of several below one another.

use super::canvas::Canvas;
use super::legend::{self, Key, colour};
use super::rows::Rows;
use crate::report::figure::{Axis, BarRow, Part};
use crate::report::number::short;

const THICK: f64 = 16.0;
const GAP: f64 = 12.0;

/// Draws; returns the height.
pub fn draw(canvas: &mut Canvas, axis: &Axis, is_stacked: bool, bars: &[BarRow]) -> f64 {
    let mut names: Vec<String> = Vec::new();
    for part in bars.iter().flat_map(|b| &b.parts) {
        if !names.contains(&part.label) {
            names.push(part.label.clone());
        }
    }
    let keys: Vec<(String, Key)> =
        if names.len() > 1 { names.iter().map(|n| (n.clone(), Key::Area)).collect() } else { Vec::new() };
    let top = legend::draw(canvas, &keys);
    let most = if is_stacked { 1 } else { bars.iter().map(|b| b.parts.len()).max().unwrap_or(1) };
    let labels: Vec<&str> = bars.iter().map(|b| b.label.as_str()).collect();
    let lengths: Vec<f64> = bars.iter().flat_map(|b| lengths(b, is_stacked)).collect();
    let rows = Rows::draw(canvas, axis, lengths.into_iter(), &labels, (top, most as f64 * THICK + GAP));
    let number_of = |part: &Part| names.iter().position(|n| *n == part.label).unwrap_or(0);
    for (number, bar) in bars.iter().enumerate() {
        let first = rows.middle(number) - bar_height(bar, is_stacked) / 2.0;
        let mut from = 0.0;
        for (place, part) in bar.parts.iter().enumerate() {
            let y = if is_stacked { first } else { first + place as f64 * THICK };
            draw_part(canvas, &rows, axis, part, (from, y), number_of(part));
            from += if is_stacked { part.value } else { 0.0 };
        }
    }
    rows.total()
}

/// How far the parts of a row reach.
fn lengths(bar: &BarRow, is_stacked: bool) -> Vec<f64> {
    if is_stacked {
        return vec![bar.parts.iter().map(|p| p.value).sum()];
    }
    bar.parts.iter().flat_map(|p| [p.value, p.interval.map_or(p.value, |i| i.1)]).collect()
}

fn bar_height(bar: &BarRow, is_stacked: bool) -> f64 {
    if is_stacked { THICK } else { bar.parts.len() as f64 * THICK }
}

fn draw_part(canvas: &mut Canvas, rows: &Rows, axis: &Axis, part: &Part, place: (f64, f64), number: usize) {
    let (from, y) = place;
    let start = if from > 0.0 { rows.span.at(from) } else { rows.left() };
    let end = rows.span.at(from + part.value);
    let class = colour(number);
    let hint = format!("{}: {} {}", part.label, short(part.value), axis.unit);
    canvas.rect((start, y + 1.0), (end, y + THICK - 1.0), &format!("bar {class}"), &hint);
    let middle = y + THICK / 2.0;
    if let Some((low, high)) = part.interval {
        let (low, high) = (rows.span.at(low), rows.span.at(high));
        canvas.line((low, middle), (high, middle), "reference");
        [low, high].iter().for_each(|x| canvas.line((*x, middle - 4.0), (*x, middle + 4.0), "reference"));
    }
}
