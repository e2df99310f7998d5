//! Figures as SVG. Colours are classes, so that one drawing serves light and dark.

mod bars;
mod boxes;
mod canvas;
mod intervals;
mod legend;
mod lines;
mod rows;
mod scale;

use super::figure::{Figure, Plot};
use canvas::Canvas;

/// Width of all figures, in the units of the drawing.
const WIDTH: f64 = 760.0;
/// Colours there are; more series than that share them.
const COLOURS: usize = 8;

/// Colours and lines: of standalone figures, and of pages with figures.
pub const STYLE: &str = include_str!("svg/style.css");

/// The drawing. A standalone one brings its colours along; in a page they are the page's.
pub fn svg(figure: &Figure, is_standalone: bool) -> String {
    let mut canvas = Canvas::default();
    let height = match &figure.plot {
        Plot::Boxes { axis, rows } => boxes::draw(&mut canvas, axis, rows),
        Plot::Intervals { axis, reference, band, rows } => intervals::draw(&mut canvas, axis, *reference, *band, rows),
        Plot::Lines { x, y, series } => lines::draw(&mut canvas, x, y, series),
        Plot::Bars { axis, is_stacked, rows } => bars::draw(&mut canvas, axis, *is_stacked, rows),
    };
    canvas.finish(WIDTH, height, &figure.title, is_standalone)
}

#[cfg(test)]
mod tests {
    use super::super::figure::{Axis, IntervalRow, Scale, Series};
    use super::*;

    fn figure(plot: Plot) -> Figure {
        Figure { name: "f".into(), title: "A & B".into(), caption: String::new(), plot }
    }

    #[test]
    fn drawings_are_well_formed_and_without_holes() {
        let axis = Axis::new("time", "ns", Scale::Log);
        let row = IntervalRow { label: "<x>".into(), value: 2.0, low: 1.0, high: 3.0, published: Some(9.0) };
        let intervals =
            Plot::Intervals { axis: axis.clone(), reference: Some(1.0), band: Some((0.9, 1.1)), rows: vec![row] };
        let series = vec![Series::new("s", &[(1.0, 0.5), (10.0, 1.0)]), Series::new("empty", &[])];
        let lines = Plot::Lines { x: axis.clone(), y: Axis::new("share", "", Scale::Zero), series };
        let nothing = Plot::Boxes { axis, rows: Vec::new() };
        for plot in [intervals, lines, nothing] {
            let text = svg(&figure(plot), true);
            assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n") && text.contains("A &amp; B"), "{text}");
            assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains("<x>"), "{text}");
        }
    }
}
