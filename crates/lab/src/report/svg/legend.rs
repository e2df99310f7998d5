//! Which colour is what, above a figure.

use super::canvas::{Anchor, Canvas, width_of};
use super::{COLOURS, WIDTH};

const LINE: f64 = 20.0;
const KEY: f64 = 22.0;

/// How a key looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A piece of area.
    Area,
    /// A piece of line.
    Line,
    /// A piece of broken line.
    Dashes,
}

/// The class of a series' colour.
pub fn colour(number: usize) -> String {
    format!("k{}", number % COLOURS)
}

/// Draws the names from the left, in as many lines as they need; returns where the figure begins.
pub fn draw(canvas: &mut Canvas, names: &[(String, Key)]) -> f64 {
    let (mut x, mut y) = (4.0, 14.0);
    for (number, (name, key)) in names.iter().enumerate() {
        let width = KEY + 6.0 + width_of(name) + 18.0;
        if x + width > WIDTH && x > 4.0 {
            (x, y) = (4.0, y + LINE);
        }
        let class = colour(number);
        match key {
            Key::Area => canvas.rect((x + 4.0, y - 10.0), (x + KEY, y + 1.0), &format!("bar {class}"), ""),
            Key::Line => canvas.line((x, y - 4.0), (x + KEY, y - 4.0), &format!("stroke {class}")),
            Key::Dashes => canvas.line((x, y - 4.0), (x + KEY, y - 4.0), &format!("stroke published {class}")),
        }
        canvas.text((x + KEY + 6.0, y), Anchor::Start, "", name);
        x += width;
    }
    if names.is_empty() { 6.0 } else { y + 12.0 }
}
