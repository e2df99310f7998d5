//! Certificates: what was done to a program, in text, so that anyone can go through it again.
//!
//! ```text
//! karakoram-certificate 1
//! before sha256:…                      the input, as canonical assembly
//! after sha256:…                       the result
//! assumes-data sha256:…                only if read-only data was taken to be as in the object
//! inline 7 xdp_main                    the code of what instruction 7 of that function calls in its place
//! remove parse                         a function that nobody calls
//! function xdp_main
//! round 0
//! rewrite store/immediate
//! window 4 4..6                        entry, then ranges of positions (instructions, from 0)
//! edit 4..6                            positions replaced
//!   @4 *(u32 *)(r10 - 4) = 0x5         identity and instruction; targets are identities
//! end
//! ```
//!
//! A certificate claims, it does not prove: [`Certificate::replay`] derives the facts anew, judges
//! every rewrite again with the solver of your choice, applies it, and compares the result.

use crate::apply::{Applied, Proven, Prover};
use crate::refusal::Refusal;
use crate::rewrite::{Edit, Rewrite};
use crate::whole::Change;
use karakoram_bpf::insn::{FuncId, InsnId};
use karakoram_bpf::program::{Node, Patch, Program};
use karakoram_bpf::text::asm;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;

/// The text of a certificate, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    before: String,
    after: String,
    constants: Option<String>,
    changes: Vec<NamedChange>,
    steps: Vec<Step>,
}

/// A change of the program as a whole, by the names of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NamedChange {
    Inline { caller: String, call: u32 },
    Remove { function: String },
}

/// One rewrite as text; instructions are only understood against the program they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    function: String,
    round: usize,
    rule: String,
    entry: usize,
    window: Vec<Range<usize>>,
    edits: Vec<(Range<usize>, Lines)>,
}

/// Identities and instructions of an edit.
type Lines = Vec<(u32, String)>;

/// Why a certificate does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// The text is no certificate.
    Syntax {
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// It is about another program.
    OtherProgram(&'static str),
    /// It was made with other read-only data, or with other assumptions about it.
    OtherData,
    /// A rewrite is not proven.
    Refused {
        /// Which, from 1.
        step: usize,
        /// Its rule.
        rule: String,
        /// Why.
        refusal: Refusal,
    },
    /// A change of the program as a whole cannot be made.
    Unchanged {
        /// Which, from 1.
        change: usize,
        /// Why.
        refusal: Refusal,
    },
    /// The steps are in no order in which they could have been applied.
    Order {
        /// Which, from 1.
        step: usize,
    },
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            CertificateError::Syntax { line, reason } => write!(f, "certificate, line {line}: {reason}"),
            CertificateError::OtherProgram(which) => write!(f, "the certificate is about another {which} program"),
            CertificateError::OtherData => write!(f, "the certificate is about other read-only data"),
            CertificateError::Refused { step, rule, refusal } => {
                write!(f, "rewrite {step} ({rule}) is not proven: {refusal}")
            }
            CertificateError::Unchanged { change, refusal } => {
                write!(f, "change {change} of the program cannot be made: {refusal}")
            }
            CertificateError::Order { step } => write!(f, "rewrite {step} overlaps another of its round"),
        }
    }
}

impl std::error::Error for CertificateError {}

/// The digest of a program's code: SHA-256 of its canonical assembly, in hexadecimal.
pub fn digest(program: &Program) -> String {
    let text = asm::print_with(program, asm::Targets::Relative);
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

/// The digest of what a program takes to be constant: numbers and contents of its maps; `None` when it is
/// nothing.
fn constants(program: &Program) -> Option<String> {
    let mut hash = Sha256::new();
    for map in &program.constants {
        let contents = program.maps.get(*map)?.initial.as_deref().unwrap_or_default();
        hash.update((*map as u64).to_le_bytes());
        hash.update((contents.len() as u64).to_le_bytes());
        hash.update(contents);
    }
    (!program.constants.is_empty()).then(|| hexadecimal(&hash.finalize()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, b| {
        let _ = write!(hex, "{b:02x}");
        hex
    })
}

/// What a replay found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Rewrites judged and found right.
    pub rewrites: usize,
    /// Questions that went to the solver.
    pub queries: u64,
}

impl Certificate {
    /// The certificate of what was done to `input`.
    pub fn of(input: &Program, proven: &Proven) -> Certificate {
        let name = |f: FuncId| proven.program().function(f).name.clone();
        let steps = proven.applied().iter().map(|Applied { rewrite, round }| Step {
            function: name(rewrite.function),
            round: *round,
            rule: rewrite.rule.clone(),
            entry: rewrite.entry,
            window: rewrite.window.clone(),
            edits: rewrite
                .edits
                .iter()
                .map(|e| {
                    let line = |n: &Node| {
                        let patched = n.patch.map_or(String::new(), |Patch(n)| format!(" @patched {n}"));
                        (n.id.0, format!("{}{patched}", asm::print_insn(&n.insn, proven.base())))
                    };
                    (e.at.clone(), e.nodes.iter().map(line).collect())
                })
                .collect(),
        });
        Certificate {
            before: digest(input),
            after: digest(proven.program()),
            constants: constants(input),
            changes: proven
                .changes()
                .iter()
                .map(|change| match change {
                    Change::Inline { caller, call } => NamedChange::Inline { caller: name(*caller), call: call.0 },
                    Change::Remove { function } => NamedChange::Remove { function: name(*function) },
                })
                .collect(),
            steps: steps.collect(),
        }
    }

    /// Reads the text form. Memory and time are linear in the text.
    pub fn parse(text: &str) -> Result<Certificate, CertificateError> {
        let mut parser = Parser { lines: text.lines().enumerate().peekable(), line: 0 };
        parser.certificate()
    }

    /// Rewrites it lists.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it lists none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether it only holds when nobody sets read-only data before loading: the programs must then be
    /// given with [`Program::constants`].
    pub fn assumes_constant_data(&self) -> bool {
        self.constants.is_some()
    }

    /// Goes through all steps from `input` with `prover` and compares the result with `output`.
    pub fn replay(&self, input: &Program, output: &Program, prover: &Prover) -> Result<Replayed, CertificateError> {
        self.replay_watched(input, output, prover, &mut |_, _| {})
    }

    /// The same; `watch` is told how many rewrites are behind and the rule of the next one.
    pub fn replay_watched(
        &self,
        input: &Program,
        output: &Program,
        prover: &Prover,
        watch: &mut dyn FnMut(usize, &str),
    ) -> Result<Replayed, CertificateError> {
        if digest(input) != self.before {
            return Err(CertificateError::OtherProgram("original"));
        }
        if digest(output) != self.after {
            return Err(CertificateError::OtherProgram("optimized"));
        }
        if constants(input) != self.constants || constants(output) != self.constants {
            return Err(CertificateError::OtherData);
        }
        let mut proven = Proven::input(input.clone());
        let named = |name: &str| match input.functions.iter().position(|f| f.name == name) {
            Some(place) => Ok(FuncId(place as u32)),
            None => Err(CertificateError::OtherProgram("original")),
        };
        for (i, change) in self.changes.iter().enumerate() {
            let change = match change {
                NamedChange::Inline { caller, call } => Change::Inline { caller: named(caller)?, call: InsnId(*call) },
                NamedChange::Remove { function } => Change::Remove { function: named(function)? },
            };
            proven.change(change).map_err(|refusal| CertificateError::Unchanged { change: i + 1, refusal })?;
        }
        let changed = (!self.changes.is_empty()).then(|| prover.about(proven.base()));
        let prover = changed.as_ref().unwrap_or(prover);
        let mut replayed = Replayed::default();
        let mut at = 0;
        while at < self.steps.len() {
            let first = &self.steps[at];
            let count =
                self.steps[at..].iter().take_while(|s| s.function == first.function && s.round == first.round).count();
            let function = named(&first.function)?;
            let mut batch = Vec::with_capacity(count);
            for (i, step) in self.steps[at..at + count].iter().enumerate() {
                batch.push(step.understand(function, proven.program(), at + i + 1)?);
            }
            let facts = prover.facts(proven.program(), function);
            let mut next = at..at + count;
            let mut go_on = || {
                next.next().into_iter().for_each(|step| watch(step, &self.steps[step].rule));
                true
            };
            let verdicts = prover.apply(&mut proven, function, &facts, batch, &mut go_on);
            for (i, verdict) in verdicts.into_iter().enumerate() {
                let step = at + i + 1;
                match verdict {
                    Some(Ok(effort)) => {
                        replayed.rewrites += 1;
                        replayed.queries += effort.queries;
                    }
                    Some(Err(refusal)) => {
                        let rule = self.steps[at + i].rule.clone();
                        return Err(CertificateError::Refused { step, rule, refusal });
                    }
                    None => return Err(CertificateError::Order { step }),
                }
            }
            at += count;
        }
        if digest(proven.program()) != self.after {
            return Err(CertificateError::OtherProgram("optimized"));
        }
        Ok(replayed)
    }
}

impl Step {
    fn understand(&self, function: FuncId, program: &Program, step: usize) -> Result<Rewrite, CertificateError> {
        let syntax = |reason: String| CertificateError::Syntax { line: 0, reason: format!("rewrite {step}: {reason}") };
        let originals = &program.function(function).nodes;
        let mut edits = Vec::with_capacity(self.edits.len());
        for (at, lines) in &self.edits {
            let mut nodes = Vec::with_capacity(lines.len());
            for (id, text) in lines {
                let (text, patch) = match text.split_once(" @patched ") {
                    Some((text, n)) => {
                        (text, Some(Patch(n.parse().map_err(|_| syntax(format!("`{n}` is no number")))?)))
                    }
                    None => (text.as_str(), None),
                };
                let insn = asm::parse_insn(text, program).map_err(|e| syntax(format!("`{text}`: {e}")))?;
                nodes.push(Node { id: InsnId(*id), insn, patch });
            }
            if at.end > originals.len() {
                return Err(syntax("an edit past the end of the function".to_string()));
            }
            edits.push(Edit { at: at.clone(), nodes });
        }
        if self.window.iter().any(|w| w.end > originals.len()) {
            return Err(syntax("a window past the end of the function".to_string()));
        }
        Ok(Rewrite { function, entry: self.entry, window: self.window.clone(), edits, rule: self.rule.clone() })
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "karakoram-certificate 1\nbefore sha256:{}\nafter sha256:{}", self.before, self.after)?;
        if let Some(digest) = &self.constants {
            writeln!(f, "assumes-data sha256:{digest}")?;
        }
        for change in &self.changes {
            match change {
                NamedChange::Inline { caller, call } => writeln!(f, "inline {call} {caller}")?,
                NamedChange::Remove { function } => writeln!(f, "remove {function}")?,
            }
        }
        let (mut function, mut round) = (None, None);
        for step in &self.steps {
            if function != Some(&step.function) {
                writeln!(f, "function {}", step.function)?;
                (function, round) = (Some(&step.function), None);
            }
            if round != Some(step.round) {
                writeln!(f, "round {}", step.round)?;
                round = Some(step.round);
            }
            write!(f, "rewrite {}\nwindow {}", step.rule, step.entry)?;
            for r in &step.window {
                write!(f, " {}..{}", r.start, r.end)?;
            }
            writeln!(f)?;
            for (at, lines) in &step.edits {
                writeln!(f, "edit {}..{}", at.start, at.end)?;
                for (id, text) in lines {
                    writeln!(f, "  @{id} {text}")?;
                }
            }
        }
        writeln!(f, "end")
    }
}

struct Parser<'a, I: Iterator<Item = (usize, &'a str)>> {
    lines: std::iter::Peekable<I>,
    line: usize,
}

impl<'a, I: Iterator<Item = (usize, &'a str)>> Parser<'a, I> {
    fn error(&self, reason: impl Into<String>) -> CertificateError {
        CertificateError::Syntax { line: self.line, reason: reason.into() }
    }

    fn next(&mut self) -> Result<&'a str, CertificateError> {
        match self.lines.next() {
            Some((n, text)) => {
                self.line = n + 1;
                Ok(text)
            }
            None => Err(self.error("the text ends before `end`")),
        }
    }

    fn expect(&mut self, prefix: &str) -> Result<&'a str, CertificateError> {
        let text = self.next()?;
        text.strip_prefix(prefix).ok_or_else(|| self.error(format!("expected `{}`", prefix.trim())))
    }

    fn range(&self, text: &str) -> Result<Range<usize>, CertificateError> {
        let parts = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match parts {
            // Positions beyond this are in no program, and ranges are walked position by position.
            Some((a, b)) if a < b && b <= 1 << 24 => Ok(a..b),
            _ => Err(self.error(format!("`{text}` is no range of positions"))),
        }
    }

    fn certificate(&mut self) -> Result<Certificate, CertificateError> {
        self.expect("karakoram-certificate 1")?;
        let before = self.expect("before sha256:")?.to_string();
        let after = self.expect("after sha256:")?.to_string();
        let mut constants = None;
        let mut changes = Vec::new();
        let mut steps: Vec<Step> = Vec::new();
        let (mut function, mut round) = (None, None);
        loop {
            let text = self.next()?;
            let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
            match word {
                "end" => return Ok(Certificate { before, after, constants, changes, steps }),
                "assumes-data" if steps.is_empty() => {
                    let digest = rest.strip_prefix("sha256:").ok_or_else(|| self.error("expected `sha256:`"))?;
                    constants = Some(digest.to_string());
                }
                "inline" if steps.is_empty() => {
                    let (call, caller) = rest.split_once(' ').unwrap_or((rest, ""));
                    let call = call.parse().map_err(|_| self.error(format!("`{call}` is no identity")))?;
                    changes.push(NamedChange::Inline { caller: caller.to_string(), call });
                }
                "remove" if steps.is_empty() => changes.push(NamedChange::Remove { function: rest.to_string() }),
                "function" => (function, round) = (Some(rest.to_string()), None),
                "round" => round = Some(rest.parse().map_err(|_| self.error("a round is a number"))?),
                "rewrite" => {
                    let (Some(function), Some(round)) = (function.clone(), round) else {
                        return Err(self.error("a rewrite before its function and round"));
                    };
                    let (entry, window) = self.window()?;
                    steps.push(Step { function, round, rule: rest.to_string(), entry, window, edits: Vec::new() });
                }
                "edit" => {
                    let at = self.range(rest)?;
                    let nodes = self.nodes()?;
                    match steps.last_mut() {
                        Some(step) => step.edits.push((at, nodes)),
                        None => return Err(self.error("an edit before its rewrite")),
                    }
                }
                _ => return Err(self.error(format!("`{word}` is not known here"))),
            }
        }
    }

    fn window(&mut self) -> Result<(usize, Vec<Range<usize>>), CertificateError> {
        let rest = self.expect("window ")?;
        let mut words = rest.split(' ');
        let entry =
            words.next().and_then(|w| w.parse().ok()).ok_or_else(|| self.error("a window starts with its entry"))?;
        let window = words.map(|w| self.range(w)).collect::<Result<_, _>>()?;
        Ok((entry, window))
    }

    fn nodes(&mut self) -> Result<Lines, CertificateError> {
        let mut nodes = Vec::new();
        while self.lines.peek().is_some_and(|(_, l)| l.starts_with("  @")) {
            let text = self.expect("  @")?;
            let parsed = text.split_once(' ').and_then(|(id, insn)| Some((id.parse().ok()?, insn.to_string())));
            nodes.push(parsed.ok_or_else(|| self.error("expected `@identity instruction`"))?);
        }
        Ok(nodes)
    }
}
