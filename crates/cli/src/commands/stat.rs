//! `kara stat`: figures of programs, or of two versions side by side, under veristat's names.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::figures::{self, Figures};
use crate::input::{Input, Sidecars};
use crate::judge::{Kernel, Refused, TypeOption};
use crate::output;
use crate::table;
use karakoram_bpf::insn::FuncId;
use serde_json::{Map, Value, json};

const AFTER_HELP: &str = "\
Examples:
  kara stat prog.o                               all programs
  kara stat old.o new.o                          before -> after
  kara stat old.o new.o -o csv                   veristat's columns: total_insns_base, _comp, _diff
  kara stat old.o new.o --fail-on verdict,total_insns>10%,prog_size>0
  kara stat prog.o --fail-on total_insns>900000,stack>400

Columns, as veristat names them:
  verdict          success or failure           total_insns      instructions the verifier processed
  duration         of verification, us          total_states     states it kept
  peak_states      states at one time           prog_size        slots of eight bytes
  prog_size_jited  bytes of machine code        stack            bytes on the deepest chain of calls
  insns            instructions; a 64-bit constant counts once

Exit status: 0 done, 1 --fail-on found something, 2 wrong request or input.";

/// The figures, in the order in which they are shown.
const STATS: [&str; 9] = [
    "verdict",
    "prog_size",
    "insns",
    "stack",
    "total_insns",
    "total_states",
    "peak_states",
    "prog_size_jited",
    "duration",
];

/// Options of `kara stat`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Object (.o), .k2, .bpf, assembly (.s) or raw instructions (.insns); - is stdin
    a: String,
    /// Another version of it
    b: Option<String>,
    /// Only this program, by function or section; may be repeated
    #[arg(long, value_name = "NAME")]
    prog: Vec<String>,
    /// How to print
    #[arg(short = 'o', long, value_enum, default_value_t = Format::Markdown, help_heading = "Output")]
    output_format: Format,
    /// Exit with 1 when a figure grew by more than so much (with one file: is larger): STAT>N, STAT>N%, verdict
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = condition)]
    fail_on: Vec<Condition>,
    /// Do not ask the kernel
    #[arg(long)]
    no_kernel: bool,
    #[command(flatten)]
    program_type: TypeOption,
    #[command(flatten)]
    sidecars: Sidecars,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    /// A table for people, and for pull requests
    Markdown,
    /// Comma-separated, with a header
    Csv,
    /// One JSON object
    Json,
}

/// When to say no.
#[derive(Clone, PartialEq, Debug)]
struct Condition {
    stat: &'static str,
    most: f64,
    percent: bool,
}

fn condition(text: &str) -> Result<Condition, String> {
    let (name, bound) = text.split_once('>').unwrap_or((text, "0"));
    let stat = STATS.into_iter().find(|s| *s == name.trim());
    let stat = stat.ok_or_else(|| format!("no such figure; there are {}", STATS.join(", ")))?;
    let percent = bound.trim().ends_with('%');
    let most = bound.trim().trim_end_matches('%').parse().map_err(|_| "expected STAT>N or STAT>N%".to_string())?;
    Ok(Condition { stat, most, percent })
}

/// Figures of one program of one file.
struct Row {
    program: String,
    section: String,
    kind: String,
    values: Map<String, Value>,
    note: Option<String>,
}

impl Row {
    fn number(&self, stat: &str) -> Option<u64> {
        self.values.get(stat).and_then(Value::as_u64)
    }

    fn text(&self, stat: &str) -> String {
        match self.values.get(stat) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        }
    }
}

impl Options {
    /// Measures.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let kernel =
            if self.no_kernel { Err("--no-kernel".to_string()) } else { Kernel::open(self.program_type.program_type) };
        let a = Input::read(&self.a, &self.sidecars)?;
        let rows_a = self.measure(&a, kernel.as_ref().ok())?;
        let rows_b = match &self.b {
            Some(b) => Some(self.measure(&Input::read_version(b, &a)?, kernel.as_ref().ok())?),
            None => None,
        };
        let violations = self.violations(&rows_a, rows_b.as_deref());
        let format = if common.json { Format::Json } else { self.output_format };
        match format {
            Format::Json => output::print_json(&self.to_json(&rows_a, rows_b.as_deref(), &violations)),
            Format::Csv => output::print_text(&self.to_csv(&rows_a, rows_b.as_deref())),
            Format::Markdown => output::print_text(&to_markdown(&rows_a, rows_b.as_deref())),
        }
        if !common.quiet && !common.json {
            if let (Err(why), false) = (&kernel, self.no_kernel) {
                eprintln!("note: the kernel was not asked: {why}");
            }
            for row in rows_a.iter().chain(rows_b.iter().flatten()) {
                row.note.iter().for_each(|n| eprintln!("note: {}: {n}", row.program));
            }
        }
        if !common.json {
            violations.iter().for_each(|v| eprintln!("fail-on: {v}"));
        }
        Ok(if violations.is_empty() { Answer::Yes } else { Answer::No })
    }

    fn measure(&self, input: &Input, kernel: Option<&Kernel>) -> Result<Vec<Row>, Failure> {
        Ok(input.entries(&self.prog)?.into_iter().map(|entry| row(input, entry, kernel)).collect())
    }

    fn violations(&self, a: &[Row], b: Option<&[Row]>) -> Vec<String> {
        let mut out = Vec::new();
        for condition in &self.fail_on {
            let stat = condition.stat;
            let Some(b) = b else {
                let large = |r: &&Row| match stat {
                    "verdict" => r.text(stat) == "failure",
                    _ => r.number(stat).is_some_and(|n| n as f64 > condition.most),
                };
                out.extend(a.iter().filter(large).map(|r| format!("{}: {stat} is {}", r.program, r.text(stat))));
                continue;
            };
            for (old, new) in pairs(a, b).into_iter().filter_map(|(a, b)| Some((a?, b?))) {
                let worse = match (stat, old.number(stat), new.number(stat)) {
                    ("verdict", ..) => old.text(stat) == "success" && new.text(stat) == "failure",
                    (_, Some(x), Some(y)) if condition.percent => {
                        y > x && (y - x) as f64 > x as f64 * condition.most / 100.0
                    }
                    (_, Some(x), Some(y)) => y > x && (y - x) as f64 > condition.most,
                    _ => false,
                };
                if worse {
                    out.push(format!("{}: {stat} was {} and is {}", old.program, old.text(stat), new.text(stat)));
                }
            }
        }
        out
    }

    fn to_json(&self, a: &[Row], b: Option<&[Row]>, violations: &[String]) -> Value {
        let one = |row: &Row| {
            let mut object = row.values.clone();
            object.insert("prog_name".into(), row.program.clone().into());
            object.insert("note".into(), row.note.clone().into());
            // The same figures under the names that `kara opt --json` has for them.
            object.insert("name".into(), row.program.clone().into());
            object.insert("section".into(), row.section.clone().into());
            object.insert("type".into(), row.kind.clone().into());
            for (ours, stat) in [
                ("slots", "prog_size"),
                ("stack_bytes", "stack"),
                ("jited_bytes", "prog_size_jited"),
                ("verified_insns", "total_insns"),
            ] {
                object.insert(ours.into(), row.values.get(stat).cloned().unwrap_or_default());
            }
            Value::from(object)
        };
        let mut out = json!({
            "schema": "kara/stat/1",
            "ok": violations.is_empty(),
            "exit_code": !violations.is_empty() as u8,
            "file_name": self.a,
            "programs": a.iter().map(one).collect::<Vec<_>>(),
            "violations": violations,
        });
        if let (Some(b), Some(path), Some(object)) = (b, &self.b, out.as_object_mut()) {
            object.insert("file_name_comp".into(), path.clone().into());
            object.insert("programs_comp".into(), b.iter().map(one).collect::<Vec<_>>().into());
        }
        out
    }

    fn to_csv(&self, a: &[Row], b: Option<&[Row]>) -> String {
        let quoted = |text: &str| match text.contains([',', '"', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_string(),
        };
        let mut lines = Vec::new();
        let Some(b) = b else {
            lines.push(format!("file_name,prog_name,{}", STATS.join(",")));
            for row in a {
                let values: Vec<String> = STATS.iter().map(|s| row.text(s)).collect();
                lines.push(format!("{},{},{}", quoted(&self.a), quoted(&row.program), values.join(",")));
            }
            return lines.join("\n") + "\n";
        };
        let names = STATS.iter().map(|s| format!("{s}_base,{s}_comp,{s}_diff")).collect::<Vec<_>>();
        lines.push(format!("file_name,prog_name,{}", names.join(",")));
        for (old, new) in pairs(a, b) {
            let value = |row: Option<&Row>, stat: &str| row.map_or("N/A".to_string(), |r| r.text(stat));
            let name = old.or(new).map_or("", |r| r.program.as_str());
            let values = STATS.iter().map(|stat| {
                let (x, y) = (old.and_then(|r| r.number(stat)), new.and_then(|r| r.number(stat)));
                let diff = match (x, y) {
                    (Some(x), Some(y)) => (y as i128 - x as i128).to_string(),
                    _ if value(old, stat) == value(new, stat) => "MATCH".to_string(),
                    _ => "MISMATCH".to_string(),
                };
                format!("{},{},{diff}", value(old, stat), value(new, stat))
            });
            let values: Vec<String> = values.collect();
            lines.push(format!("{},{},{}", quoted(&self.a), quoted(name), values.join(",")));
        }
        lines.join("\n") + "\n"
    }
}

fn row(input: &Input, entry: FuncId, kernel: Option<&Kernel>) -> Row {
    let program = input.program();
    let mut figures = Figures::of(program, entry);
    let mut values = Map::new();
    let mut note = None;
    let loaded = kernel.map(|kernel| match input.object() {
        Some(object) => kernel.load_object(object, entry),
        None if entry == FuncId(0) => kernel.load_program(program),
        None => Err(Refused::Unchecked("it is not the first function".into())),
    });
    match loaded {
        Some(Ok(loaded)) => {
            figures = figures.with_kernel(program, entry, &loaded);
            let statistics = &loaded.program.statistics;
            values.insert("verdict".into(), "success".into());
            values.insert("total_states".into(), statistics.total_states.into());
            values.insert("peak_states".into(), statistics.peak_states.into());
            values.insert("duration".into(), statistics.verification_time_us.into());
        }
        Some(Err(Refused::Rejected { why, .. })) => {
            values.insert("verdict".into(), "failure".into());
            note = Some(why);
        }
        Some(Err(Refused::Unchecked(why))) => note = Some(why),
        None => {}
    }
    values.insert("prog_size".into(), figures.slots.into());
    values.insert("insns".into(), figures.insns.into());
    values.insert("stack".into(), figures.stack_bytes.into());
    values.insert("total_insns".into(), figures.verified_insns.into());
    values.insert("prog_size_jited".into(), figures.jited_bytes.into());
    let function = program.function(entry);
    Row {
        program: function.name.clone(),
        section: function.section.clone(),
        kind: figures::kind(function),
        values,
        note,
    }
}

/// Programs of the same name side by side.
fn pairs<'a>(a: &'a [Row], b: &'a [Row]) -> Vec<(Option<&'a Row>, Option<&'a Row>)> {
    let mut out: Vec<_> = a.iter().map(|r| (Some(r), b.iter().find(|s| s.program == r.program))).collect();
    out.extend(b.iter().filter(|s| a.iter().all(|r| r.program != s.program)).map(|s| (None, Some(s))));
    out
}

fn to_markdown(a: &[Row], b: Option<&[Row]>) -> String {
    let all = || a.iter().chain(b.into_iter().flatten());
    let stats: Vec<&str> = STATS.into_iter().filter(|s| all().any(|r| !r.text(s).is_empty())).collect();
    let header: Vec<&str> = ["prog_name"].into_iter().chain(stats.iter().copied()).collect();
    let rows: Vec<Vec<String>> = match b {
        None => {
            a.iter().map(|r| [r.program.clone()].into_iter().chain(stats.iter().map(|s| r.text(s))).collect()).collect()
        }
        Some(b) => pairs(a, b)
            .into_iter()
            .map(|(old, new)| {
                let name = old.or(new).map_or(String::new(), |r| r.program.clone());
                let cells = stats.iter().map(|stat| {
                    let text = |row: Option<&Row>| row.map_or("-".to_string(), |r| r.text(stat));
                    let number = |row: Option<&Row>| row.and_then(|r| r.number(stat));
                    match (number(old), number(new)) {
                        (None, None) if text(old) == text(new) => text(old),
                        (None, None) => format!("{} -> {}", text(old), text(new)),
                        (x, y) => table::change(x, y),
                    }
                });
                [name].into_iter().chain(cells).collect()
            })
            .collect(),
    };
    table::markdown(&header, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        assert_eq!(condition("stack>400"), Ok(Condition { stat: "stack", most: 400.0, percent: false }));
        assert_eq!(condition("total_insns>10%"), Ok(Condition { stat: "total_insns", most: 10.0, percent: true }));
        assert_eq!(condition("verdict"), Ok(Condition { stat: "verdict", most: 0.0, percent: false }));
        assert!(condition("speed>1").is_err() && condition("stack>much").is_err());
    }
}
