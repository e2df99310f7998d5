//! What figures with one row for each thing share: labels at the left, the axis below.

use super::WIDTH;
use super::canvas::{Anchor, Canvas, width_of};
use super::scale::Span;
use crate::report::figure::Axis;
use crate::report::number::short;

const RIGHT: f64 = WIDTH - 16.0;
const LABELS_AT_MOST: f64 = 300.0;

/// Room for rows.
pub struct Rows {
    /// Where values are.
    pub span: Span,
    top: f64,
    height: f64,
    count: usize,
    left: f64,
}

impl Rows {
    /// Draws grid and axis for rows of these labels below `top`.
    pub fn draw(
        canvas: &mut Canvas,
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        labels: &[&str],
        place: (f64, f64),
    ) -> Rows {
        let (top, height) = place;
        let widest = labels.iter().map(|l| width_of(l)).fold(0.0, f64::max);
        let left = (widest + 18.0).clamp(60.0, LABELS_AT_MOST);
        let rows = Rows { span: Span::over(axis, values, left, RIGHT), top, height, count: labels.len().max(1), left };
        let bottom = rows.bottom();
        for tick in rows.span.ticks() {
            let x = rows.span.at(tick);
            canvas.line((x, top), (x, bottom), "grid");
            canvas.text((x, bottom + 16.0), Anchor::Middle, "quiet", &short(tick));
        }
        canvas.line((left, bottom), (RIGHT, bottom), "axis");
        canvas.text(((left + RIGHT) / 2.0, bottom + 35.0), Anchor::Middle, "title", &axis.title());
        for (number, label) in labels.iter().enumerate() {
            let most = (LABELS_AT_MOST / 6.7) as usize;
            let text: String = match label.chars().count() > most {
                true => label.chars().take(most - 1).chain(['…']).collect(),
                false => label.to_string(),
            };
            canvas.text((left - 10.0, rows.middle(number) + 4.0), Anchor::End, "", &text);
        }
        rows
    }

    /// The middle of a row.
    pub fn middle(&self, number: usize) -> f64 {
        self.top + (number as f64 + 0.5) * self.height
    }

    /// Where rows end and begin.
    pub fn ends(&self) -> (f64, f64) {
        (self.top, self.bottom())
    }

    /// Where the values begin.
    pub fn left(&self) -> f64 {
        self.left
    }

    fn bottom(&self) -> f64 {
        self.top + self.count as f64 * self.height
    }

    /// Height of the whole figure.
    pub fn total(&self) -> f64 {
        self.bottom() + 46.0
    }
}
