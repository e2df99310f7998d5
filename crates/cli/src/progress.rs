//! How far long work is, for a person who watches.

use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A line that says how far it is; nothing but a beginning and an end when nobody watches.
pub struct Bar {
    bar: ProgressBar,
    what: String,
    is_quiet: bool,
}

impl Bar {
    /// Begins.
    pub fn new(is_quiet: bool, what: &str) -> Bar {
        let is_hidden = is_quiet || !terminal::is_watched();
        let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(1) };
        if let Ok(style) =
            ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {elapsed} (left {eta}) {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_string());
        if !is_hidden {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Bar { bar, what: what.to_string(), is_quiet }
    }

    /// Begins; nothing is said at the end.
    pub fn silent(is_quiet: bool, what: &str) -> Bar {
        let mut bar = Bar::new(is_quiet, what);
        bar.is_quiet = true;
        bar
    }

    /// So much of all is done, and this comes next.
    pub fn show(&self, done: usize, all: usize, next: &str) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(next.to_string());
    }

    /// It is over.
    pub fn done(&self, outcome: &str) {
        self.bar.finish_and_clear();
        if !self.is_quiet {
            eprintln!("{}: {outcome}", self.what);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
