//! The tracked tables: what the verifier of a kernel has to do with each program.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// How much more than in the table is a failure: figures change a little with compiler and kernel.
const MOST_GROWTH: u64 = 2;
/// And how much more is nothing to speak of.
const SLACK: u64 = 2000;

/// A program's figures.
#[derive(Clone, Copy)]
pub struct Row {
    /// Instructions that the verifier looked at.
    pub verified: u32,
    /// Instructions as the kernel keeps them.
    pub slots: u32,
    /// Bytes of machine code.
    pub jited: u32,
}

/// The table of a kernel, such as 6.12.
pub struct Table {
    kernel: String,
    text: String,
}

impl Table {
    /// An empty one.
    pub fn new(kernel: &str) -> Table {
        let head = format!(
            "# What the verifier has to do with each program of the corpus\n\n\
             Instructions that Linux {kernel}'s verifier processes, instructions of the program as the kernel keeps it, \
             and bytes of machine code, with the LLVM of Rust 1.95. Refused programs are bugs of the translator.\n\n\
             | program | verified instructions | instructions | JITed bytes |\n|---|---:|---:|---:|\n"
        );
        Table { kernel: kernel.to_string(), text: head }
    }

    /// Adds a program.
    pub fn accepted(&mut self, name: &str, row: Row) {
        let _ = writeln!(self.text, "| {name} | {} | {} | {} |", row.verified, row.slots, row.jited);
    }

    /// Adds one that did not load.
    pub fn refused(&mut self, name: &str) {
        let _ = writeln!(self.text, "| {name} | refused | | |");
    }

    /// Says what was compared.
    pub fn compared(&mut self, programs: usize, runs: u64) {
        let all = programs as u64 * runs;
        let _ =
            writeln!(self.text, "\nEach was run on {runs} packets, {all} in all, and did what it does on the host.");
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it is kept.
    pub fn path(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/extensions/corpus");
        folder.join(format!("verified-{}.md", self.kernel))
    }

    /// Programs that take the verifier much more than the tracked table says.
    pub fn grown(&self) -> Vec<String> {
        let tracked = std::fs::read_to_string(self.path()).unwrap_or_default();
        let figures = |text: &str| text.lines().filter_map(figure).collect::<Vec<_>>();
        let before = figures(&tracked);
        let grown = figures(&self.text).into_iter().filter_map(|(name, now)| {
            let (_, then) = before.iter().find(|(n, _)| *n == name)?;
            (now > then * MOST_GROWTH + SLACK).then(|| format!("{name}: {now} verified instructions, {then} so far"))
        });
        grown.collect()
    }
}

/// Name and verified instructions of a line of the table.
fn figure(line: &str) -> Option<(String, u64)> {
    let mut cells = line.split('|').map(str::trim).skip(1);
    Some((cells.next()?.to_string(), cells.next()?.parse().ok()?))
}
