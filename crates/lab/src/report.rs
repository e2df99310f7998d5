//! The project's one way to show results: plain data in, one page out.
//!
//! A [`Report`] is built by whoever measured (packets, links, proofs), knows nothing of where its
//! numbers come from, and is complete: [`write`] makes of it one HTML page that needs no other file
//! (light and dark by the reader's preference), the same as Markdown, every table as CSV, every figure
//! as SVG, and all of it as JSON, from which the rest can be made again.
//!
//! ```
//! use karakoram_lab::report::{Block, Cell, Column, Report, Section, Table};
//!
//! let table = Table::new("sizes", vec![Column::text("program"), Column::number("slots", "", 0)])
//!     .row(vec![Cell::from("xdp_fw"), Cell::from(57.0)]);
//! let section = Section::new("Sizes").text("What is written.").block(Block::Table(table));
//! let report = Report::new("An example").section(section);
//! assert!(karakoram_lab::report::html(&report).unwrap().contains("xdp_fw"));
//! ```

mod claim;
mod figure;
mod files;
mod html;
mod markdown;
mod number;
mod svg;
mod table;

pub use claim::{Claim, Verdict};
pub use figure::{Axis, BarRow, BoxRow, Figure, IntervalRow, Part, Plot, Point, Scale, Series, cdf};
pub use files::{read, write};
pub use html::html;
pub use markdown::markdown;
pub use number::plain;
pub use svg::svg;
pub use table::{Cell, Column, Form, Table};

use serde::{Deserialize, Serialize};

/// Names this form of report.
pub const SCHEMA: &str = "kara/report/1";

/// Everything that is shown.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its title.
    pub title: String,
    /// What it is about, in a sentence or two.
    pub summary: Vec<String>,
    /// Warnings that a reader must see first: a busy machine, a short run.
    pub warnings: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
    /// What it was measured on and with, in the order it is shown.
    pub environment: Vec<(String, String)>,
}

/// A part of a report: one experiment, one question.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// What others published, and what came of it here.
    pub claims: Vec<Claim>,
    /// The rest, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A figure.
    Figure(Figure),
}

impl Report {
    /// An empty one.
    pub fn new(title: impl Into<String>) -> Report {
        Report {
            schema: SCHEMA.to_string(),
            title: title.into(),
            summary: Vec::new(),
            warnings: Vec::new(),
            sections: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// The same with a paragraph at its head.
    pub fn summary(mut self, text: impl Into<String>) -> Report {
        self.summary.push(text.into());
        self
    }

    /// The same with a warning.
    pub fn warning(mut self, text: impl Into<String>) -> Report {
        self.warnings.push(text.into());
        self
    }

    /// The same with a part more.
    pub fn section(mut self, section: Section) -> Report {
        self.sections.push(section);
        self
    }

    /// The same with what it was measured on.
    pub fn environment(mut self, record: Vec<(String, String)>) -> Report {
        self.environment = record;
        self
    }
}

impl Section {
    /// An empty one.
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), ..Section::default() }
    }

    /// The same with a paragraph more.
    pub fn text(self, text: impl Into<String>) -> Section {
        self.block(Block::Text(text.into()))
    }

    /// The same with a block more.
    pub fn block(mut self, block: Block) -> Section {
        self.blocks.push(block);
        self
    }

    /// The same with a published claim more.
    pub fn claim(mut self, claim: Claim) -> Section {
        self.claims.push(claim);
        self
    }
}
