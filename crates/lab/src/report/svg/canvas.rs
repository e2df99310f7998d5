//! SVG as text.

use super::STYLE;
use std::fmt::Write;

/// Where a text stands at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// To the right of it.
    Start,
    /// Around it.
    Middle,
    /// To the left of it.
    End,
}

/// A drawing in the making.
#[derive(Debug, Default)]
pub struct Canvas(String);

impl Canvas {
    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.push(format_args!(r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#));
    }

    /// A rectangle between two corners; `hint` shows when a pointer rests on it.
    pub fn rect(&mut self, from: (f64, f64), to: (f64, f64), class: &str, hint: &str) {
        let (x, y) = (from.0.min(to.0), from.1.min(to.1));
        let (width, height) = ((to.0 - from.0).abs(), (to.1 - from.1).abs());
        let title = title(hint);
        self.push(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" class="{class}">{title}</rect>"#
        ));
    }

    /// A dot.
    pub fn circle(&mut self, at: (f64, f64), radius: f64, class: &str, hint: &str) {
        let ((x, y), title) = (at, title(hint));
        self.push(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" class="{class}">{title}</circle>"#));
    }

    /// A line through points.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        let Some(((x, y), rest)) = points.split_first() else { return };
        let mut d = format!("M{x:.1} {y:.1}");
        for (x, y) in rest {
            // Writing to a text does not fail.
            let _ = write!(d, "L{x:.1} {y:.1}");
        }
        self.push(format_args!(r#"<path d="{d}" class="{class}"/>"#));
    }

    /// A text.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let ((x, y), text) = (at, escape(text));
        self.push(format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#));
    }

    /// A text from bottom to top.
    pub fn upright_text(&mut self, at: (f64, f64), class: &str, text: &str) {
        let ((x, y), text) = (at, escape(text));
        self.push(format_args!(
            r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle" class="{class}">{text}</text>"#
        ));
    }

    /// The whole drawing.
    pub fn finish(self, width: f64, height: f64, title: &str, is_standalone: bool) -> String {
        let style = match is_standalone {
            true => format!("<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>\n"),
            false => String::new(),
        };
        let title = escape(title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" viewBox=\"0 0 {width} {height:.0}\" role=\"img\" \
             aria-label=\"{title}\">\n{style}{}</svg>\n",
            self.0
        )
    }

    fn push(&mut self, text: std::fmt::Arguments) {
        let _ = writeln!(self.0, "{text}");
    }
}

/// About how wide a text is.
pub fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * 6.7
}

fn title(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("<title>{}</title>", escape(hint)) }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
