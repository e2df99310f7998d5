//! How many low bits of a value matter: what looks at it, and at what is made of it.

use crate::context::Context;
use karakoram_bpf::helper::{self, Arg};
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;

/// Instructions looked at for one value.
const MAX_STEPS: usize = 200;

/// How many low bits of a value matter.
pub struct Uses<'c, 'a> {
    context: &'c Context<'a>,
    /// Where the value was found, in which register.
    seen: BTreeSet<(usize, Reg)>,
}

impl<'c, 'a> Uses<'c, 'a> {
    /// Nothing was looked at.
    pub fn new(context: &'c Context<'a>) -> Uses<'c, 'a> {
        Uses { context, seen: BTreeSet::new() }
    }

    /// Positions before which the value, or what was made of it, was alive.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.seen.iter().map(|(p, _)| *p)
    }

    /// Of what a register holds after an instruction. `None`: all, or it takes too long to say.
    pub fn bits_after(&mut self, p: usize, reg: Reg) -> Option<u32> {
        let mut most = 0;
        let mut pending: Vec<usize> = self.context.facts.flow.successors[p].clone();
        while let Some(p) = pending.pop() {
            if !self.context.facts.live[p].contains(reg) || !self.seen.insert((p, reg)) {
                continue;
            }
            if self.seen.len() > MAX_STEPS {
                return None;
            }
            if self.context.reads[p].contains(reg) {
                most = most.max(self.bits_at(p, reg)?);
            }
            if !self.context.writes[p].contains(reg) {
                pending.extend(&self.context.facts.flow.successors[p]);
            }
        }
        Some(most)
    }

    /// What the instruction at a position looks at of a register that it reads.
    fn bits_at(&mut self, p: usize, reg: Reg) -> Option<u32> {
        match *self.context.insn(p) {
            Insn::Mov { width, dst, .. } => self.of_result(p, dst, width),
            Insn::Alu { width, op, dst, src } => match (op, src) {
                (AluOp::And, Operand::Imm(mask)) if mask >= 0 => {
                    Some(self.of_result(p, dst, width).unwrap_or(64).min(32 - mask.leading_zeros()))
                }
                (AluOp::Add | AluOp::Sub | AluOp::Mul | AluOp::And | AluOp::Or | AluOp::Xor, _) => {
                    self.of_result(p, dst, width)
                }
                (AluOp::Lsh, Operand::Imm(by)) => {
                    Some(self.of_result(p, dst, width).unwrap_or(64).saturating_sub(by as u32))
                }
                _ if width == Width::W32 => Some(32),
                _ => None,
            },
            Insn::Neg { width, dst } => self.of_result(p, dst, width),
            Insn::MovSx { bits, .. } => Some(bits as u32),
            Insn::Endian { bits, .. } => Some(bits as u32).filter(|b| *b < 64),
            Insn::Store { size, base, src: Operand::Reg(src), .. } if src == reg && base != reg => {
                Some(size.bytes() * 8).filter(|b| *b < 64)
            }
            Insn::Branch { width: Width::W32, .. } => Some(32),
            Insn::Call(callee) => {
                let contract = helper::contract_of(&callee)?;
                let argument = contract.args.get(reg.index().checked_sub(1)?)?;
                (*argument == Arg::Word).then_some(32)
            }
            Insn::Exit => self.context.facts.returns_32_bits.then_some(32),
            _ => None,
        }
    }

    /// What matters of a result is what matters of the operands.
    fn of_result(&mut self, p: usize, dst: Reg, width: Width) -> Option<u32> {
        let bits = self.bits_after(p, dst);
        if width == Width::W32 { Some(bits.unwrap_or(64).min(32)) } else { bits }
    }
}
