//! Tests for rules that have none: a program to which the rule applies, and for each side condition one
//! to which it does not because of that condition alone.

use super::cases::{self, Case};
use super::run;
use karakoram_bpf::insn::{Insn, Reg, Width};
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm;
use karakoram_optimize::rules::expression::{Concrete, Expression};
use karakoram_optimize::rules::template::{self, Template};
use karakoram_optimize::rules::{Known, Rule, RuleSet, Variant, limits};
use std::path::PathBuf;

/// Numbers that are tried as constants.
const NUMBERS: [u64; 27] = [
    5,
    3,
    16,
    8,
    24,
    32,
    33,
    40,
    48,
    56,
    1,
    60,
    63,
    255,
    240,
    4096,
    65535,
    0x7fff_ffff,
    0,
    2,
    64,
    128,
    0xff00,
    u64::MAX,
    0xffff_ffff_ffff_ff00,
    0xffff_ffff,
    0xffff_ffff_8000_0000,
];

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/rules"))
}

/// The tests that there are.
pub fn existing() -> Vec<Case> {
    let files = std::fs::read_dir(folder()).into_iter().flatten().map(|e| e.expect("entry").path());
    files.flat_map(|f| cases::parse(&std::fs::read_to_string(f).expect("readable"))).collect()
}

/// Appends tests of rules that have none to the file of their family.
pub fn write_missing() {
    let existing = existing();
    for rule in &RuleSet::shipped().rules {
        let has_test = |c: &Case| c.name == rule.name || c.name.starts_with(&format!("{}:", rule.name));
        if existing.iter().any(has_test) {
            continue;
        }
        let family = rule.name.split('/').next().expect("names have families");
        let path = folder().join(format!("{family}.txt"));
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let text = [before.trim_end().to_string(), examples(rule)].join("\n\n");
        std::fs::write(&path, text.trim_start()).expect("writable");
    }
}

fn examples(rule: &Rule) -> String {
    let mut out = Vec::new();
    for (i, variant) in [&rule.variants[0], &rule.variants[rule.variants.len() - 1]].into_iter().enumerate() {
        if i > 0 && rule.variants.len() == 1 {
            continue;
        }
        let Some(text) = constants(variant, None).and_then(|c| program(variant, &c, None)) else { continue };
        let name = if i == 0 { rule.name.clone() } else { format!("{}:{}", rule.name, i + 1) };
        let case = Case { name, rewrites: true, refusal: String::new(), given: text, expected: String::new() };
        let (result, _) = run(&case).expect("examples parse");
        let code: String = result.lines().filter(|l| !l.starts_with('.')).map(|l| format!("{}\n", l.trim())).collect();
        out.push(format!("test rewrite {}\n{}=>\n{code}", case.name, case.given));
    }
    let variant = &rule.variants[0];
    let conditions = (0..variant.conditions.len()).map(|i| (constants(variant, Some(i)), None));
    let givens = (0..variant.givens.len()).map(|i| (constants(variant, None), Some(i)));
    for (n, (constants, given)) in conditions.chain(givens).enumerate() {
        let Some(text) = constants.and_then(|c| program(variant, &c, given)) else { continue };
        out.push(format!("test refuse {}:no-{}\n; refusal: never proposed\n{text}", rule.name, n + 1));
    }
    out.join("\n")
}

/// Numbers for the constants under which all conditions hold but that one.
fn constants(variant: &Variant, broken: Option<usize>) -> Option<Vec<Option<u64>>> {
    fn search(variant: &Variant, broken: Option<usize>, chosen: &mut Vec<Option<u64>>) -> bool {
        if chosen.len() == variant.constants.len() {
            return fits(variant, broken, chosen);
        }
        let first = chosen.len();
        NUMBERS.iter().cycle().skip(first).take(NUMBERS.len()).any(|v| {
            chosen.push(Some(*v));
            search(variant, broken, chosen) || {
                chosen.pop();
                false
            }
        })
    }
    let mut chosen = Vec::new();
    search(variant, broken, &mut chosen).then_some(chosen)
}

fn fits(variant: &Variant, broken: Option<usize>, constants: &[Option<u64>]) -> bool {
    let value = |e: &Expression| e.evaluate(&mut Concrete, constants);
    let conditions = variant.conditions.iter().enumerate();
    let hold = conditions.clone().all(|(i, c)| match value(c) {
        Some(v) => (v != 0) != (broken == Some(i)),
        None => false,
    });
    let imm_fits = |t: &Template| match &t.imm {
        Some(e) => value(e).is_some_and(|v| !limits::imm(&mut Concrete, &t.insn, &v).contains(&0)),
        None => true,
    };
    let off_fits = |t: &Template| match &t.off {
        Some(e) => value(e).is_some_and(|v| limits::off(&mut Concrete, &v) != 0 && v < 40),
        None => true,
    };
    let stands = |t: &Template| match (&t.imm, &t.insn) {
        (Some(_), Insn::LoadImm { .. }) | (None, _) => true,
        (Some(e), _) => value(e).is_some_and(|v| v as i32 as i64 as u64 == v),
    };
    let sides = variant.lhs.iter().chain(if broken.is_some() { &[] } else { variant.rhs.as_slice() });
    let known = variant.givens.iter().all(|g| match &g.known {
        Known::AtMost(e) => value(e).is_some_and(|v| !(0x8000_0000..0xffff_ffff).contains(&v)),
        _ => true,
    });
    hold && known && sides.clone().all(|t| imm_fits(t) && off_fits(t)) && variant.lhs.iter().all(stands)
}

/// A program with the left-hand side in it; without what is `unknown` of a register.
fn program(variant: &Variant, constants: &[Option<u64>], unknown: Option<usize>) -> Option<String> {
    let value = |e: &Expression| e.evaluate(&mut Concrete, constants);
    // r1 is the buffer, so variables begin at r2; r0 is the result.
    let register = |r: Reg| if r == Reg::FP { Some(r) } else { Reg::new(r.index() as u8 + 2) };
    let mut text = vec![".hook buffer=64".to_string()];
    let lhs: Option<Vec<Insn>> = variant
        .lhs
        .iter()
        .map(|t| {
            let (imm, off) = template::numbers(&t.insn);
            let imm = t.imm.as_ref().map_or(imm, value);
            let off = t.off.as_ref().map_or(off, value);
            Some(template::with_numbers(&karakoram_optimize::registers::rename_known(&t.insn, register)?, imm, off))
        })
        .collect();
    let lhs = lhs?;
    for (i, reg) in inputs(&lhs).into_iter().enumerate() {
        let given = variant.givens.iter().enumerate().find(|(_, g)| register(g.reg) == Some(reg));
        let load = |size: &str| format!("{reg} = *({size} *)(r1 + {})", 8 * i);
        let given = given.filter(|(n, _)| Some(*n) != unknown).map(|(_, g)| &g.known);
        match given {
            _ if is_base(&lhs, reg) => text.push(format!("{reg} = r1")),
            Some(Known::Is(e)) => text.push(format!("{reg} = {}{}", value(e)? as i64, wide(value(e)?))),
            Some(Known::AtMost(e)) if value(e)? >= 0xffff_ffff => text.push(load("u32")),
            Some(Known::AtMost(e)) => text.extend([load("u64"), format!("{reg} &= {}", value(e)?)]),
            Some(Known::Clear(e)) => text.extend([load("u64"), format!("{reg} &= {}", !value(e)? as i64)]),
            None => text.push(load("u64")),
        }
    }
    let print = |i: &Insn| asm::print_insn(i, &Program::default()).replace("@0", "out");
    text.extend(lhs.iter().map(print));
    let outputs = variant.lhs.iter().flat_map(|t| t.writes().iter().collect::<Vec<_>>());
    let mut kept: Vec<Reg> = outputs.filter(|r| variant.rhs.iter().any(|t| t.writes().contains(*r))).collect();
    if variant.rhs.is_empty() {
        // Nothing is left to do: what it was about matters.
        kept.extend(variant.lhs.iter().flat_map(|t| t.writes().iter().collect::<Vec<_>>()));
    }
    kept.sort_unstable();
    kept.dedup();
    text.extend(
        kept.into_iter().filter_map(register).enumerate().map(|(i, r)| format!("*(u64 *)(r1 + {}) = {r}", 40 + 8 * i)),
    );
    text.push("r0 = 0".to_string());
    let is_narrow = |t: &Template| matches!(t.insn, Insn::Branch { width: Width::W32, .. });
    if variant.rhs.iter().any(is_narrow) {
        text.push("if w0 != 0 goto out".to_string());
    }
    let is_new = |t: &Template| matches!(t.insn, Insn::MovSx { .. } | Insn::Load { signed: true, .. });
    if variant.rhs.iter().any(is_new) {
        text.push("r0 = (s32)r0".to_string());
    }
    text.push("exit".to_string());
    if text.iter().any(|l| l.contains("goto out")) {
        text.extend(["out:".to_string(), "r0 = 1".to_string(), "exit".to_string()]);
    }
    Some(text.join("\n") + "\n")
}

fn wide(v: u64) -> &'static str {
    if v as i32 as i64 as u64 == v { "" } else { " ll" }
}

/// Registers that are read before they are written.
fn inputs(code: &[Insn]) -> Vec<Reg> {
    let (mut written, mut inputs) = (Vec::new(), Vec::new());
    for insn in code {
        let effects = karakoram_bpf::effects::of(insn);
        inputs.extend(effects.reads.iter().filter(|r| !written.contains(r) && *r != Reg::FP));
        written.extend(effects.writes.iter());
    }
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

/// Whether memory is accessed through what a register held before.
fn is_base(code: &[Insn], reg: Reg) -> bool {
    let mut same = vec![reg];
    code.iter().any(|insn| {
        if let Insn::Mov { dst, src: karakoram_bpf::insn::Operand::Reg(src), .. } = insn
            && same.contains(src)
        {
            same.push(*dst);
        }
        matches!(insn, Insn::Load { base, .. } | Insn::Store { base, .. } if same.contains(base))
    })
}
