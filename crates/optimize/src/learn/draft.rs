//! A rule while it is being generalized: the instructions of a sample, and what stands in place of each
//! of their numbers.

use super::Sample;
use crate::registers;
use crate::rules::Variant;
use crate::rules::template;
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm;

/// Where a number stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hole {
    /// The constant operand.
    Imm,
    /// The distance of a memory access.
    Off,
}

/// A number of one side.
#[derive(Clone, Debug)]
pub struct Number {
    /// Which instruction.
    step: usize,
    /// Where in it.
    hole: Hole,
    /// What it is, 64 bits.
    pub value: u64,
    /// What stands there instead; `None`: the number itself.
    pub text: Option<String>,
}

/// The rule so far.
#[derive(Clone, Debug)]
pub struct Draft {
    old: Vec<Insn>,
    new: Vec<Insn>,
    dead: RegSet,
    /// Numbers of what is replaced.
    pub lhs: Vec<Number>,
    /// Numbers of what comes in its place.
    pub rhs: Vec<Number>,
    /// Side conditions.
    pub conditions: Vec<String>,
    /// What must be known of registers.
    pub givens: Vec<String>,
    /// The constants so far, with their numbers in the sample.
    pub constants: Vec<(String, u64)>,
    /// Whether it is said of both widths.
    pub is_any_width: bool,
}

/// Numbers that mark the holes while an instruction is printed.
const IMM: u64 = 7_654_321;
const OFF: u64 = 12_345;

impl Draft {
    /// The sample as it is; `None` when a rule cannot say it.
    pub fn of(sample: &Sample) -> Option<Draft> {
        let sayable = |i: &Insn| template::is_sayable(i);
        if !sample.old.iter().chain(&sample.new).all(sayable) {
            return None;
        }
        let written = |side: &[Insn]| side.iter().fold(RegSet::EMPTY, |all, i| all.union(effects::of(i).writes));
        let (old, new) = (written(&sample.old), written(&sample.new));
        let is_lost = |r: Reg| sample.live.contains(r) && !new.contains(r);
        if !sample.new.is_empty() && old.iter().any(is_lost) {
            // That the register keeps its value is nothing that a rule can say besides something else.
            return None;
        }
        let names = names(&sample.old);
        let renamed = |side: &[Insn]| -> Option<Vec<Insn>> {
            let rename =
                |i: &Insn| registers::rename_known(i, |r| names[r.index()]).map(|i| i.map(|_| template::LABEL, |f| f));
            side.iter().map(rename).collect()
        };
        let (lhs, rhs) = (renamed(&sample.old)?, renamed(&sample.new)?);
        let dead = new.iter().filter(|r| !sample.live.contains(*r)).filter_map(|r| names[r.index()]).collect();
        Some(Draft {
            lhs: numbers(&lhs),
            rhs: numbers(&rhs),
            old: lhs,
            new: rhs,
            dead,
            conditions: Vec::new(),
            givens: Vec::new(),
            constants: Vec::new(),
            is_any_width: false,
        })
    }

    /// The letter of a register of the sample.
    pub fn letter(sample: &Sample, reg: Reg) -> Option<String> {
        names(&sample.old)[reg.index()].filter(|r| *r != Reg::FP).map(|r| format!("r{}", letter(r)))
    }

    /// The same for both widths, where it is about one width throughout.
    pub fn for_any_width(&self) -> Option<Draft> {
        let wanted = width(&self.old[0])?;
        let is_same = self.old.iter().chain(&self.new).all(|i| width(i) == Some(wanted));
        is_same.then(|| Draft { is_any_width: true, ..self.clone() })
    }

    /// Its text, for the parser of rules.
    pub fn text(&self) -> String {
        let text = self.text_of_width();
        match (self.is_any_width, width(&self.old[0])) {
            (true, Some(width)) => for_any_width(&text, width),
            _ => text,
        }
    }

    fn text_of_width(&self) -> String {
        let mut lines = vec!["rule learned/draft".to_string()];
        let side = |insns: &[Insn], numbers: &[Number]| -> Vec<String> {
            insns.iter().enumerate().map(|(i, insn)| format!("  {}", print(insn, i, numbers))).collect()
        };
        lines.extend(side(&self.old, &self.lhs));
        lines.extend(self.givens.iter().map(|g| format!("given {g}")));
        lines.extend(self.conditions.iter().map(|c| format!("where {c}")));
        if !self.dead.is_empty() {
            let names: Vec<String> = self.dead.iter().map(|r| format!("r{}", letter(r))).collect();
            lines.push(format!("dead {}", names.join(" ")));
        }
        lines.push("=>".to_string());
        lines.extend(side(&self.new, &self.rhs));
        lines.join("\n") + "\n"
    }
}

/// New names for registers, in the order in which they occur; the frame pointer keeps its own.
fn names(code: &[Insn]) -> [Option<Reg>; Reg::COUNT] {
    let mut names = [None; Reg::COUNT];
    names[Reg::FP.index()] = Some(Reg::FP);
    let mut next = 0;
    for r in code.iter().flat_map(template::registers) {
        if names[r.index()].is_none() {
            names[r.index()] = Reg::new(next);
            next += 1;
        }
    }
    names
}

fn letter(reg: Reg) -> char {
    (b'A' + reg.index() as u8) as char
}

fn numbers(side: &[Insn]) -> Vec<Number> {
    let of = |(step, insn): (usize, &Insn)| {
        let (imm, off) = template::numbers(insn);
        let number = |hole, value| Number { step, hole, value, text: None };
        [imm.map(|v| number(Hole::Imm, v)), off.map(|v| number(Hole::Off, v))]
    };
    side.iter().enumerate().flat_map(of).flatten().collect()
}

fn print(insn: &Insn, step: usize, numbers: &[Number]) -> String {
    let text = |hole| {
        let here = numbers.iter().find(|n| n.step == step && n.hole == hole);
        here.and_then(|n| n.text.clone())
    };
    let (imm, off) = (text(Hole::Imm), text(Hole::Off));
    let marked = template::with_numbers(insn, imm.as_ref().map(|_| IMM), off.as_ref().map(|_| OFF));
    let mut line = asm::print_insn(&marked, &Program::default());
    if let Some(imm) = imm {
        line = line.replace(&format!("{IMM:#x}"), &imm).replace(&IMM.to_string(), &imm);
    }
    if let Some(off) = off {
        line = line.replace(&OFF.to_string(), &off);
    }
    line = line.replace("goto @0", "goto L");
    for r in Reg::all().filter(|r| *r != Reg::FP) {
        for kind in ['r', 'w'] {
            line = replace_word(&line, &format!("{kind}{}", r.index()), &format!("{kind}{}", letter(r)));
        }
    }
    line
}

/// The width of an operation that rules can say of both.
fn width(insn: &Insn) -> Option<Width> {
    match insn {
        Insn::Alu { width, .. } | Insn::Mov { width, .. } | Insn::Neg { width, .. } | Insn::Branch { width, .. } => {
            Some(*width)
        }
        _ => None,
    }
}

/// A rule about one width said of both: registers without a width, and its bits by name. What is given
/// and dead is said of whole registers.
fn for_any_width(text: &str, width: Width) -> String {
    let (kind, bits) = match width {
        Width::W64 => ('r', "64"),
        Width::W32 => ('w', "32"),
    };
    let line = |line: &str| {
        if line.starts_with("given") || line.starts_with("dead") {
            return line.to_string();
        }
        let letters = (b'A'..=b'K').map(char::from);
        letters.fold(replace_word(line, bits, "BITS"), |line, l| {
            replace_word(&line, &format!("{kind}{l}"), &format!("x{l}"))
        })
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

fn replace_word(line: &str, word: &str, by: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(word) {
        let after = &rest[at + word.len()..];
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let inside = is_part(rest[..at].chars().next_back()) || is_part(after.chars().next());
        out += &rest[..at];
        out += if inside { word } else { by };
        rest = after;
    }
    out + rest
}

/// A name for a learned rule: what it replaces, and by what.
pub fn name(variant: &Variant) -> String {
    let side = |side: &[template::Template]| -> String {
        let words: Vec<&str> = side.iter().map(|t| word(&t.insn)).collect();
        if words.is_empty() { "nothing".to_string() } else { words.join("-") }
    };
    format!("learned/{}-to-{}", side(&variant.lhs), side(&variant.rhs))
}

fn word(insn: &Insn) -> &'static str {
    match insn {
        Insn::Alu { op, .. } => match op {
            AluOp::Add => "add",
            AluOp::Sub => "sub",
            AluOp::Mul => "mul",
            AluOp::Div | AluOp::SDiv => "div",
            AluOp::Mod | AluOp::SMod => "mod",
            AluOp::Or => "or",
            AluOp::And => "and",
            AluOp::Xor => "xor",
            AluOp::Lsh => "lsh",
            AluOp::Rsh => "rsh",
            AluOp::Arsh => "arsh",
        },
        Insn::Mov { .. } | Insn::MovSx { .. } => "mov",
        Insn::Neg { .. } => "neg",
        Insn::Endian { .. } => "swap",
        Insn::LoadImm { .. } => "wide",
        Insn::Load { .. } => "load",
        Insn::Store { .. } => "store",
        Insn::Branch { .. } => "if",
        _ => "other",
    }
}
