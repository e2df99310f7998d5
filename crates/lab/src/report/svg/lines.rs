//! Curves.

use super::WIDTH;
use super::canvas::{Anchor, Canvas};
use super::legend::{self, Key, colour};
use super::scale::Span;
use crate::report::figure::{Axis, Point, Series};
use crate::report::number::short;

const HEIGHT: f64 = 300.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 16.0;
/// A curve of more points than this shows none of them as dots.
const DOTS: usize = 40;

/// Draws; returns the height.
pub fn draw(canvas: &mut Canvas, x: &Axis, y: &Axis, series: &[Series]) -> f64 {
    let key = |s: &Series| (s.label.clone(), if s.is_published { Key::Dashes } else { Key::Line });
    let keys: Vec<(String, Key)> = series.iter().map(key).collect();
    let top = legend::draw(canvas, &keys);
    let bottom = top + HEIGHT;
    let points = || series.iter().flat_map(|s| &s.points);
    let across = Span::over(x, points().map(|p| p.x), LEFT, RIGHT);
    let reach = |p: &Point| [p.y, p.interval.map_or(p.y, |i| i.0), p.interval.map_or(p.y, |i| i.1)];
    let up = Span::over(y, points().flat_map(reach), bottom, top);
    for tick in across.ticks() {
        canvas.line((across.at(tick), top), (across.at(tick), bottom), "grid");
        canvas.text((across.at(tick), bottom + 16.0), Anchor::Middle, "quiet", &short(tick));
    }
    for tick in up.ticks() {
        canvas.line((LEFT, up.at(tick)), (RIGHT, up.at(tick)), "grid");
        canvas.text((LEFT - 8.0, up.at(tick) + 4.0), Anchor::End, "quiet", &short(tick));
    }
    canvas.line((LEFT, bottom), (RIGHT, bottom), "axis");
    canvas.line((LEFT, top), (LEFT, bottom), "axis");
    canvas.text(((LEFT + RIGHT) / 2.0, bottom + 35.0), Anchor::Middle, "title", &x.title());
    canvas.upright_text((14.0, (top + bottom) / 2.0), "title", &y.title());
    for (number, one) in series.iter().enumerate() {
        curve(canvas, one, number, &across, &up);
    }
    bottom + 46.0
}

fn curve(canvas: &mut Canvas, series: &Series, number: usize, across: &Span, up: &Span) {
    let class = colour(number);
    let shown: Vec<&Point> = series.points.iter().filter(|p| across.shows(p.x) && up.shows(p.y)).collect();
    let place = |p: &Point| (across.at(p.x), up.at(p.y));
    let banded: Vec<&&Point> = shown.iter().filter(|p| p.interval.is_some()).collect();
    let edge = |p: &Point, end: fn((f64, f64)) -> f64| (across.at(p.x), up.at(p.interval.map_or(p.y, end)));
    let mut band: Vec<(f64, f64)> = banded.iter().map(|p| edge(p, |i| i.1)).collect();
    band.extend(banded.iter().rev().map(|p| edge(p, |i| i.0)));
    canvas.path(&band, &format!("area {class}"));
    let mut places: Vec<(f64, f64)> = Vec::new();
    for p in &shown {
        let (x, y) = place(p);
        if let Some((_, before)) = places.last().copied().filter(|_| series.is_step) {
            places.push((x, before));
        }
        places.push((x, y));
    }
    let published = if series.is_published { " published" } else { "" };
    canvas.path(&places, &format!("stroke {class}{published}"));
    if shown.len() <= DOTS && !series.is_step {
        for p in shown {
            let hint = format!("{}: {} at {}", series.label, short(p.y), short(p.x));
            canvas.circle(place(p), 3.5, &format!("mark {class}"), &hint);
        }
    }
}
