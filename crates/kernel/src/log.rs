//! The verifier's log: text in, what it says out. Follows `kernel/bpf/verifier.c` and
//! `kernel/bpf/log.c` from Linux 5.0 to 6.18, which print one kind of thing per line:
//!
//! ```text
//! ; if (data + 14 > data_end) @ prog.c:12      source
//! 12: (85) call bpf_map_lookup_elem#1 ; R0=... instruction, with the state after it since 5.18
//! 12: R1=ctx() R10=fp0                         state
//! from 3 to 5: R0=... / 5: safe / caller: ...  the walk over the paths
//! R1 offset is outside of the packet           why it failed
//! processed 40 insns (limit 1000000) ...       statistics
//! ```
//!
//! Linux 7.3 adds an explanation in sections between the reason and the statistics ([`Explanation`]).

mod explanation;
mod state;
mod statistics;

pub use explanation::Explanation;
use state::State;
pub use statistics::Statistics;

/// The text of a log buffer: up to its zero byte.
pub(crate) fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|b| *b == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

/// A line of source code in the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceLine {
    /// The code.
    pub text: String,
    /// File, since Linux 6.8.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
}

/// What a log says about a failure.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Analysis {
    /// The instruction that failed, as a slot number of the program as it was loaded.
    pub insn: Option<usize>,
    /// That instruction as the log prints it, `(85) call bpf_map_lookup_elem#1`.
    pub insn_text: Option<String>,
    /// The verifier's reason, one or more of its lines verbatim; the last is usually the one that counts.
    pub reason: Vec<String>,
    /// Registers and stack before the instruction, as the log prints them, `R1=ctx() R10=fp0`.
    pub state: Option<String>,
    /// Source code of the instruction, when the program came with line information.
    pub source: Option<SourceLine>,
    /// The kernel's explanation for people, since Linux 7.3.
    pub explanation: Option<Explanation>,
    /// Effort until the failure.
    pub statistics: Statistics,
}

/// Registers behind an instruction.
enum Printed<'a> {
    /// Those it changed.
    Changed(&'a str),
    /// All of them, before the next instruction.
    All(&'a str),
}

/// What one line of the log is.
enum Line<'a> {
    Source(SourceLine),
    Insn { at: usize, text: &'a str, after: Option<Printed<'a>> },
    State(&'a str),
    Walk,
    Statistics,
    Reason(&'a str),
}

impl Analysis {
    /// Reads a whole log. One that holds no failure gives an analysis without a reason.
    pub fn parse(log: &str) -> Analysis {
        let (log, explanation) = Explanation::split(log);
        let mut out = Analysis { statistics: Statistics::parse(&log), explanation, ..Analysis::default() };
        let mut state = State::default();
        let mut source = None;
        for line in log.lines() {
            match classify(line) {
                Line::Source(s) => source = Some(s),
                Line::Insn { at, text, after } => {
                    out.insn = Some(at);
                    out.insn_text = Some(text.to_string());
                    out.state = state.text();
                    out.source = source.clone();
                    out.reason.clear();
                    if text.starts_with("(85) call") {
                        state.after_call();
                    }
                    match after {
                        Some(Printed::Changed(text)) => state.merge(text),
                        Some(Printed::All(text)) => state.replace(text),
                        None => {}
                    }
                }
                Line::State(text) => state.replace(text),
                Line::Walk | Line::Statistics => {}
                Line::Reason(text) => out.reason.push(text.to_string()),
            }
        }
        out.apply_named_insn();
        if let Some(explanation) = &out.explanation {
            out.insn = explanation.insn.or(out.insn);
            if out.reason.is_empty() {
                out.reason.push(explanation.title.clone());
            }
        }
        out
    }

    /// Failures found before or after the walk name their instruction in the reason itself.
    fn apply_named_insn(&mut self) {
        let Some(named) = self.reason.iter().rev().find_map(|r| named_insn(r)) else { return };
        if self.insn != Some(named) {
            self.insn = Some(named);
            self.insn_text = None;
            self.state = None;
            self.source = None;
        }
    }
}

/// The number after `insn` in reasons such as `unreachable insn 3`, `back-edge from insn 2 to 1`,
/// `infinite loop detected at insn 7`, `jump out of range from insn 1 to 9`.
fn named_insn(reason: &str) -> Option<usize> {
    const BEFORE: [&str; 6] = [
        "unreachable insn ",
        "from insn ",
        "at insn ",
        "jump into the middle of ldimm64 insn ",
        "insn #",
        "last insn ",
    ];
    BEFORE.iter().find_map(|before| {
        let rest = &reason[reason.find(before)? + before.len()..];
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    })
}

fn classify(line: &str) -> Line<'_> {
    if let Some(source) = line.strip_prefix("; ") {
        return Line::Source(source_line(source));
    }
    if Statistics::is_statistics(line) {
        return Line::Statistics;
    }
    if is_walk(line) {
        // `from 3 to 5: R0=...` opens another path with the registers it starts from.
        return match line.split_once(": ") {
            Some((head, text)) if head.starts_with("from ") && is_state(text) => Line::State(text),
            _ => Line::Walk,
        };
    }
    if let Some((at, rest)) = numbered(line) {
        if rest.starts_with('(') {
            let (text, after) = split_state(rest);
            return Line::Insn { at, text: text.trim_end(), after };
        }
        return if is_state(rest) { Line::State(rest) } else { Line::Walk };
    }
    match line.trim() {
        "" => Line::Walk,
        text if is_state(text) => Line::State(text),
        text => Line::Reason(text),
    }
}

/// An instruction and the state that may follow it: after `;`, or that of the next path the
/// verifier takes up, `goto pc+1 3: R0=5 R10=fp0`.
fn split_state(text: &str) -> (&str, Option<Printed<'_>>) {
    if let Some((insn, after)) = text.split_once(" ; ") {
        return (insn, Some(Printed::Changed(after.trim())));
    }
    for (at, _) in text.match_indices(": ") {
        let (head, after) = (&text[..at], &text[at + 2..]);
        let insn = head.trim_end_matches(|c: char| c.is_ascii_digit());
        if insn.len() < head.len() && insn.ends_with(' ') && is_state(after) {
            return (insn, Some(Printed::All(after)));
        }
    }
    (text, None)
}

/// `12: rest`.
fn numbered(line: &str) -> Option<(usize, &str)> {
    let (number, rest) = line.trim_start().split_once(':')?;
    Some((number.parse().ok()?, rest.trim()))
}

/// Registers: `R1=ctx()`, `R1_w=0`, ` frame1: R1=...`; before 5.18 `R1=ctx(id=0,off=0,imm=0)`.
fn is_state(text: &str) -> bool {
    let text = text.strip_prefix("frame").and_then(|t| t.split_once(": ")).map_or(text, |(_, t)| t).trim_start();
    let Some(rest) = text.strip_prefix('R') else { return text.starts_with("fp-") };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < text.len() - 1
        && (rest.starts_with('=') || (rest.starts_with('_') && rest[..rest.len().min(6)].contains('=')))
}

/// Lines that tell where the verifier goes, not what it finds.
fn is_walk(line: &str) -> bool {
    const STARTS: [&str; 15] = [
        "from ",
        "caller:",
        "callee:",
        "returning from callee",
        "to caller at",
        "mark_precise:",
        "Validating ",
        "propagating ",
        "last_idx ",
        "regs=",
        "parent ",
        "func#",
        "Live regs before insn",
        "cur state:",
        "old state:",
    ];
    let text = line.trim_start();
    STARTS.iter().any(|s| text.starts_with(s))
        || text.starts_with("Func#") && text.contains("is safe for any args")
        || text.starts_with('(') && text.contains(") frame ")
        || text.contains("live stack update done")
}

/// `code @ file.c:12`, or `code` alone.
fn source_line(text: &str) -> SourceLine {
    let position = text.rsplit_once(" @ ").and_then(|(code, place)| {
        let (file, line) = place.rsplit_once(':')?;
        Some(SourceLine {
            text: code.trim().to_string(),
            file: Some(file.to_string()),
            line: Some(line.trim().parse().ok()?),
        })
    });
    position.unwrap_or_else(|| SourceLine { text: text.trim().to_string(), ..Default::default() })
}
