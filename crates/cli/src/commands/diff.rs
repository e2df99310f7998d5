//! `kara diff`: how the assembly of two versions differs, function by function.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars};
use crate::output;
use crate::terminal::{self, Style};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm::{self, Targets};
use serde_json::json;

const AFTER_HELP: &str = "\
Examples:
  kara diff in.o out.o                  a unified diff for each function that changed
  kara diff in.o out.o --prog xdp_main -U 10

Exit status: 0 done, whether they differ or not (with --exit-code 1 when they do), 2 wrong input.";

/// Lines of a function beyond which the two sides are not aligned exactly.
const MOST_CELLS: usize = 64 << 20;

/// Options of `kara diff`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// The first version; - is stdin
    a: String,
    /// The second version
    b: String,
    /// Only this function; may be repeated
    #[arg(long, value_name = "NAME")]
    prog: Vec<String>,
    /// Unchanged lines around changes
    #[arg(short = 'U', long, value_name = "N", default_value_t = 3)]
    unified: usize,
    /// Answer with the exit status: 1 when they differ
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    sidecars: Sidecars,
}

impl Options {
    /// Compares.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let a = Input::read(&self.a, &self.sidecars)?;
        let b = Input::read_version(&self.b, &a)?;
        let style = terminal::stdout_style();
        let (mut text, mut functions) = (String::new(), Vec::new());
        for name in self.names(a.program(), b.program()) {
            let (old, new) = (lines(a.program(), &name), lines(b.program(), &name));
            let hunks = hunks(&script(&old, &new), self.unified);
            if hunks.is_empty() {
                continue;
            }
            let place = |path: &str| format!("{path} {name}");
            text += &format!("{}\n", style.red(&format!("--- {}", place(&self.a))));
            text += &format!("{}\n", style.green(&format!("+++ {}", place(&self.b))));
            let body: String = hunks.iter().map(|h| h.to_text(style)).collect();
            functions.push(json!({ "name": name, "before": old.len(), "after": new.len(),
                "diff": hunks.iter().map(|h| h.to_text(Style::default())).collect::<String>() }));
            text += &body;
        }
        let differ = !functions.is_empty();
        if common.json {
            let exit_code = (differ && self.exit_code) as u8;
            output::print_json(&json!({ "schema": "kara/diff/1", "ok": exit_code == 0, "exit_code": exit_code,
                "functions": functions }));
        } else {
            output::print_text(&text);
        }
        Ok(if differ && self.exit_code { Answer::No } else { Answer::Yes })
    }

    /// Names of the functions of either, those of the first version first.
    fn names(&self, a: &Program, b: &Program) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for function in a.functions.iter().chain(&b.functions) {
            let wanted =
                self.prog.is_empty() || self.prog.contains(&function.name) || self.prog.contains(&function.section);
            if wanted && !names.contains(&function.name) {
                names.push(function.name.clone());
            }
        }
        names
    }
}

/// The function of that name as lines; labels stand alone, so that their names matter little.
fn lines(program: &Program, name: &str) -> Vec<String> {
    let Some(at) = program.functions.iter().position(|f| f.name == name) else { return Vec::new() };
    let labelled = asm::lines(program, FuncId(at as u32), Targets::Labels);
    labelled
        .into_iter()
        .flat_map(|l| l.label.map(|l| format!("{l}:")).into_iter().chain([format!("    {}", l.text)]))
        .collect()
}

/// A line of a diff.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Line {
    Same(String),
    Gone(String),
    New(String),
}

/// Longest common subsequence, after what is the same at both ends.
fn script(a: &[String], b: &[String]) -> Vec<Line> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(x, y)| x == y).count();
    let (x, y) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut out: Vec<Line> = a[..head].iter().cloned().map(Line::Same).collect();
    if x.len().saturating_mul(y.len()) > MOST_CELLS {
        out.extend(x.iter().cloned().map(Line::Gone));
        out.extend(y.iter().cloned().map(Line::New));
    } else {
        middle(x, y, &mut out);
    }
    out.extend(a[a.len() - tail..].iter().cloned().map(Line::Same));
    out
}

fn middle(a: &[String], b: &[String], out: &mut Vec<Line>) {
    let width = b.len() + 1;
    // Length of the longest common subsequence of what follows.
    let mut length = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            length[i * width + j] = if a[i] == b[j] {
                length[(i + 1) * width + j + 1] + 1
            } else {
                length[(i + 1) * width + j].max(length[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            out.push(Line::Same(a[i].clone()));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && length[(i + 1) * width + j] >= length[i * width + j + 1] {
            out.push(Line::Gone(a[i].clone()));
            i += 1;
        } else {
            out.push(Line::New(b[j].clone()));
            j += 1;
        }
    }
}

/// Changes with the lines around them; numbers count from 1.
struct Hunk {
    old: (usize, usize),
    new: (usize, usize),
    lines: Vec<Line>,
}

impl Hunk {
    fn to_text(&self, style: Style) -> String {
        let range = |(start, count): (usize, usize)| format!("{start},{count}");
        let mut out = format!("{}\n", style.blue(&format!("@@ -{} +{} @@", range(self.old), range(self.new))));
        for line in &self.lines {
            out += &match line {
                Line::Same(text) => format!(" {text}\n"),
                Line::Gone(text) => format!("{}\n", style.red(&format!("-{text}"))),
                Line::New(text) => format!("{}\n", style.green(&format!("+{text}"))),
            };
        }
        out
    }
}

fn hunks(script: &[Line], context: usize) -> Vec<Hunk> {
    let changed: Vec<usize> = (0..script.len()).filter(|i| !matches!(script[*i], Line::Same(_))).collect();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for at in changed {
        let (start, end) = (at.saturating_sub(context), (at + context + 1).min(script.len()));
        match ranges.last_mut() {
            Some(last) if start <= last.1 => last.1 = end,
            _ => ranges.push((start, end)),
        }
    }
    let count = |lines: &[Line], old: bool| {
        lines.iter().filter(|l| !matches!((l, old), (Line::New(_), true) | (Line::Gone(_), false))).count()
    };
    ranges
        .into_iter()
        .map(|(start, end)| {
            let side = |old: bool| (count(&script[..start], old) + 1, count(&script[start..end], old));
            Hunk { old: side(true), new: side(false), lines: script[start..end].to_vec() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_with_its_surroundings() {
        let text = |t: &str| t.split(' ').map(str::to_string).collect::<Vec<_>>();
        let found = hunks(&script(&text("a b c d e f g h"), &text("a b c x e f g h")), 1);
        let shown: String = found.iter().map(|h| h.to_text(Style::default())).collect();
        assert_eq!(shown, "@@ -3,3 +3,3 @@\n c\n-d\n+x\n e\n");
        assert!(hunks(&script(&text("a b"), &text("a b")), 3).is_empty());
    }
}
