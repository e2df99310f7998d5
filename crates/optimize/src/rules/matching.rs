//! Whether a rule applies at instructions that have the right shapes, and with which registers and
//! constants.

use super::expression::{Concrete, Expression};
use super::template::{self, Template};
use super::{Known, Variant, flow, limits};
use crate::block::Block;
use crate::context::Context;
use crate::registers;
use karakoram_bpf::insn::*;
use karakoram_proof::facts::Kind;

/// A left-hand side found in a block.
#[derive(Clone, Debug)]
pub struct Match {
    /// Where each instruction of the left-hand side is.
    pub positions: Vec<usize>,
    /// The register that each variable stands for.
    registers: [Option<Reg>; Reg::COUNT],
    /// The number that each constant stands for.
    constants: Vec<Option<u64>>,
    /// Position that wrote each variable which is read from before; `None` when the block did not.
    origins: Vec<(Reg, Option<usize>)>,
    target: Option<InsnId>,
}

/// The match of a variant at those positions, `path` in the order of its links.
pub fn matches(context: &Context, block: &Block, variant: &Variant, path: &[usize]) -> Option<Match> {
    let mut positions = vec![usize::MAX; variant.lhs.len()];
    positions[variant.lhs.len() - 1] = path[0];
    for (link, at) in variant.links.iter().zip(&path[1..]) {
        positions[link.step] = *at;
    }
    let distinct: std::collections::BTreeSet<usize> = positions.iter().copied().collect();
    if distinct.len() < positions.len() || positions.iter().any(|p| context.is_patched(*p)) {
        return None;
    }
    let mut found = Match {
        positions,
        registers: [None; Reg::COUNT],
        constants: vec![None; variant.constants.len()],
        origins: Vec::new(),
        target: context.insn(path[0]).target().copied(),
    };
    found.registers[Reg::FP.index()] = Some(Reg::FP);
    let holds = found.bind_registers(context, variant)
        && found.reads_fit(block, variant)
        && found.bind_constants(context, variant)
        && found.givens_hold(context, variant)
        && found.operands_fit(context, variant)
        && variant.conditions.iter().all(|c| found.value(c).is_some_and(|v| v != 0));
    holds.then_some(found)
}

impl Match {
    /// The register of a variable.
    pub fn register(&self, variable: Reg) -> Option<Reg> {
        self.registers[variable.index()]
    }

    /// Where the variables that are read from before come from.
    pub fn origins(&self) -> &[(Reg, Option<usize>)] {
        &self.origins
    }

    fn value(&self, e: &Expression) -> Option<u64> {
        e.evaluate(&mut Concrete, &self.constants)
    }

    fn bind_registers(&mut self, context: &Context, variant: &Variant) -> bool {
        for (t, p) in variant.lhs.iter().zip(&self.positions) {
            let actual = template::registers(context.insn(*p));
            for (variable, reg) in template::registers(&t.insn).into_iter().zip(actual) {
                let known = &mut self.registers[variable.index()];
                if *known.get_or_insert(reg) != reg {
                    return false;
                }
            }
        }
        let mut classes: Vec<u8> = Vec::new();
        for i in 0..variant.registers.len() {
            let earlier = (0..i).find(|j| self.registers[*j] == self.registers[i]);
            classes.push(earlier.map_or_else(|| classes.iter().max().map_or(0, |m| m + 1), |j| classes[j]));
        }
        flow::may_coincide(variant, &classes)
    }

    /// Whether each operand was written where the rule says, or all reads from before see the same.
    fn reads_fit(&mut self, block: &Block, variant: &Variant) -> bool {
        let insns: Vec<Insn> = variant.lhs.iter().map(|t| t.insn).collect();
        let sources = flow::sources(&insns);
        for (step, reads) in sources.iter().enumerate() {
            let at = self.positions[step];
            let operands = template::reads(&insns[step]);
            for ((_, variable), (_, source)) in operands.into_iter().zip(reads) {
                let Some(reg) = self.register(variable) else { return false };
                let writer = block.writer(at, reg);
                let fits = match source {
                    flow::Source::Step(i) => writer == Some(self.positions[*i]),
                    flow::Source::Before(v) => match self.origins.iter().find(|(known, _)| known == v) {
                        Some((_, origin)) => *origin == writer,
                        None => {
                            self.origins.push((*v, writer));
                            true
                        }
                    },
                };
                if !fits {
                    return false;
                }
            }
        }
        true
    }

    /// Constants that are a whole operand get their numbers.
    fn bind_constants(&mut self, context: &Context, variant: &Variant) -> bool {
        for (t, p) in variant.lhs.iter().zip(&self.positions) {
            let (imm, off) = template::numbers(context.insn(*p));
            for (hole, number) in [(&t.imm, imm), (&t.off, off)] {
                if let (Some(Expression::Constant(i)), Some(v)) = (hole, number)
                    && *self.constants[*i].get_or_insert(v) != v
                {
                    return false;
                }
            }
        }
        true
    }

    /// Whether the numbers that are not just a constant are what the rule says.
    fn operands_fit(&self, context: &Context, variant: &Variant) -> bool {
        variant.lhs.iter().zip(&self.positions).all(|(t, p)| {
            let (imm, off) = template::numbers(context.insn(*p));
            let (own_imm, own_off) = template::numbers(&t.insn);
            let fits = |hole: &Option<Expression>, own: Option<u64>, actual: Option<u64>| match hole {
                Some(e) => self.value(e) == actual,
                None => own == actual,
            };
            fits(&t.imm, own_imm, imm) && fits(&t.off, own_off, off)
        })
    }

    fn givens_hold(&mut self, context: &Context, variant: &Variant) -> bool {
        variant.givens.iter().all(|given| {
            let Some((reg, at)) = self.register(given.reg).zip(self.first_read(variant, given.reg)) else {
                return false;
            };
            let fact = context.fact(at, reg).filter(|f| matches!(f.kind, Kind::Scalar | Kind::Unknown));
            let Some(fact) = fact else { return false };
            match &given.known {
                Known::Is(Expression::Constant(i)) => match (fact.value(), self.constants[*i]) {
                    (Some(v), None) => {
                        self.constants[*i] = Some(v);
                        true
                    }
                    (value, known) => value.is_some() && value == known,
                },
                Known::Is(e) => fact.value().is_some() && fact.value() == self.value(e),
                Known::AtMost(e) => self.value(e).is_some_and(|v| fact.range.max <= v),
                Known::Clear(e) => self.value(e).is_some_and(|mask| mask & !fact.range.zeros == 0),
            }
        })
    }

    /// Where a variable is read from before, first in the code.
    fn first_read(&self, variant: &Variant, variable: Reg) -> Option<usize> {
        let insns: Vec<Insn> = variant.lhs.iter().map(|t| t.insn).collect();
        let sources = flow::sources(&insns);
        let reads = sources.iter().zip(&self.positions);
        let before = reads.filter(|(s, _)| s.iter().any(|(_, s)| *s == flow::Source::Before(variable)));
        before.map(|(_, p)| *p).min()
    }

    /// An instruction of the right-hand side, when its numbers fit.
    pub fn instance(&self, t: &Template) -> Option<Insn> {
        let n = &mut Concrete;
        let mut imm = None;
        if let Some(e) = &t.imm {
            let value = self.value(e)?;
            if limits::imm(n, &t.insn, &value).contains(&0) {
                return None;
            }
            imm = Some(limits::cut(n, &t.insn, &value));
        }
        let mut off = None;
        if let Some(e) = &t.off {
            off = Some(self.value(e)?);
            if off.is_some_and(|v| limits::off(n, &v) == 0) {
                return None;
            }
        }
        let insn = registers::rename_known(&t.insn, |r| self.register(r))?;
        let insn = template::with_numbers(&insn, imm, off);
        Some(insn.map(|to| self.target.unwrap_or(to), |f| f))
    }
}
