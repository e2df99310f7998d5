//! Who computes what a rule's instructions read.

use super::template::{self, LABEL, Role, Template};
use super::{Link, Variant};
use crate::registers;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;

/// Where an operand comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// An instruction of the same side.
    Step(usize),
    /// What that register held before.
    Before(Reg),
}

/// Where each operand of each instruction comes from.
pub fn sources(side: &[Insn]) -> Vec<Vec<(Role, Source)>> {
    let mut writer = [None; Reg::COUNT];
    let mut all = Vec::with_capacity(side.len());
    for (i, insn) in side.iter().enumerate() {
        let source = |r: Reg| writer[r.index()].map_or(Source::Before(r), Source::Step);
        all.push(template::reads(insn).into_iter().map(|(role, r)| (role, source(r))).collect());
        for r in karakoram_bpf::effects::of(insn).writes.iter() {
            writer[r.index()] = Some(i);
        }
    }
    all
}

/// The last instruction that writes each register.
fn writers(side: &[Insn]) -> [Option<usize>; Reg::COUNT] {
    let mut last = [None; Reg::COUNT];
    for (i, insn) in side.iter().enumerate() {
        karakoram_bpf::effects::of(insn).writes.iter().for_each(|r| last[r.index()] = Some(i));
    }
    last
}

fn insns(side: &[Template]) -> Vec<Insn> {
    side.iter().map(|t| t.insn).collect()
}

/// Registers whose value before the left-hand side it reads.
pub fn inputs(variant: &Variant) -> RegSet {
    before(&insns(&variant.lhs))
}

fn before(side: &[Insn]) -> RegSet {
    let all = sources(side).into_iter().flatten();
    let inputs = all.filter_map(|(_, s)| if let Source::Before(r) = s { Some(r) } else { None });
    inputs.fold(RegSet::EMPTY, RegSet::with)
}

/// Whether a rule also says something where those of its registers that have the same number in
/// `classes` are the same register: when everything still comes from where it came from.
pub fn may_coincide(variant: &Variant, classes: &[u8]) -> bool {
    let class = |r: Reg| match r {
        Reg::FP => Some(r),
        r => classes.get(r.index()).and_then(|c| Reg::new(*c)),
    };
    let merged = |side: &[Template]| -> Option<Vec<Insn>> {
        side.iter().map(|t| registers::rename_known(&t.insn, class)).collect()
    };
    let same_sources = |side: &[Template]| {
        let Some(new) = merged(side) else { return false };
        let expected = sources(&insns(side)).into_iter().map(|reads| {
            let moved = reads.into_iter().map(|(role, s)| match s {
                Source::Before(r) => (role, Source::Before(class(r).unwrap_or(r))),
                step => (role, step),
            });
            moved.collect::<Vec<_>>()
        });
        sources(&new) == expected.collect::<Vec<_>>()
    };
    let same_results = |side: &[Template]| {
        let Some(new) = merged(side) else { return false };
        let (old, new) = (writers(&insns(side)), writers(&new));
        variant.outputs().union(variant.dead).iter().all(|r| match class(r) {
            Some(c) => old[r.index()].is_none() || old[r.index()] == new[c.index()],
            None => false,
        })
    };
    let sides = [&variant.lhs, &variant.rhs];
    sides.iter().all(|s| same_sources(s) && same_results(s))
}

/// Every way in which register variables may stand for the same register, as the class of each; the
/// first is that all are different.
pub fn partitions(variant: &Variant) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in &variant.registers {
        let extend = |p: &Vec<u8>| {
            let classes = p.iter().max().map_or(0, |m| m + 1);
            (0..=classes).map(|c| [p.as_slice(), &[c]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(extend).collect();
    }
    all.reverse();
    all.retain(|p| may_coincide(variant, p));
    all
}

/// Checks the shape of a rule and finds the way through its left-hand side.
pub fn linked(mut variant: Variant) -> Result<Variant, String> {
    check(&variant)?;
    let sources = sources(&insns(&variant.lhs));
    let mut order = vec![variant.lhs.len() - 1];
    let mut reader = 0;
    while let Some(step) = order.get(reader).copied() {
        for (role, source) in &sources[step] {
            if let Source::Step(found) = *source
                && !order.contains(&found)
            {
                variant.links.push(Link { reader, role: *role, step: found });
                order.push(found);
            }
        }
        reader += 1;
    }
    if order.len() < variant.lhs.len() {
        return Err("the last instruction does not depend on all others, so they would not be found".to_string());
    }
    Ok(variant)
}

fn check(variant: &Variant) -> Result<(), String> {
    let (lhs, rhs) = (&variant.lhs, &variant.rhs);
    let Some((_, body)) = lhs.split_last() else { return Err("there is nothing to replace".to_string()) };
    if lhs.iter().any(|t| !template::is_sayable(&t.insn)) || rhs.iter().any(|t| template::shape(&t.insn).is_none()) {
        return Err("rules are about arithmetic, moves, constants, loads, stores and branches".to_string());
    }
    let jumps = |t: &Template| t.insn.target().is_some();
    if body.iter().any(jumps)
        || rhs.iter().rev().skip(1).any(jumps)
        || !jumps(&lhs[body.len()]) && rhs.iter().any(jumps)
    {
        return Err("a branch can only come last, and only where there was one".to_string());
    }
    if lhs.iter().chain(rhs).any(|t| t.insn.target().is_some_and(|to| *to != LABEL)) {
        return Err("the only target is `L`".to_string());
    }
    let written = lhs.iter().fold(RegSet::EMPTY, |all, t| all.union(t.writes()));
    if !before(&insns(rhs)).minus(inputs(variant)).is_empty() {
        return Err(
            "the right-hand side reads a register that the left-hand side does not have from before".to_string()
        );
    }
    if !variant.outputs().minus(written).is_empty() {
        return Err("the right-hand side writes a register that the left-hand side does not".to_string());
    }
    if rhs.is_empty() && !variant.outputs().minus(inputs(variant)).is_empty() {
        return Err("nothing is left of a register that was not there before".to_string());
    }
    if variant.givens.iter().any(|g| !inputs(variant).contains(g.reg)) {
        return Err("something is given of a register that is not read from before".to_string());
    }
    let named = |e: &Option<super::Expression>| e.clone();
    let bound = bound(variant);
    let used = lhs.iter().chain(rhs).flat_map(|t| [named(&t.imm), named(&t.off)]).flatten();
    let missing =
        used.chain(variant.conditions.iter().cloned()).flat_map(|e| e.constants()).find(|c| !bound.contains(c));
    match missing {
        Some(c) => Err(format!("the constant {} does not occur by itself on the left-hand side", variant.constants[c])),
        None => Ok(()),
    }
}

/// Constants that a match gives a value: those that are a whole operand, or that are given.
fn bound(variant: &Variant) -> Vec<usize> {
    let operands = variant.lhs.iter().flat_map(|t| [t.imm.as_ref(), t.off.as_ref()]).flatten();
    let given = variant.givens.iter().filter_map(|g| match &g.known {
        super::Known::Is(e) => Some(e),
        _ => None,
    });
    let plain = operands.chain(given).filter_map(|e| match e {
        super::Expression::Constant(i) => Some(*i),
        _ => None,
    });
    plain.collect()
}
