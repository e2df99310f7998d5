//! Extensions and masks of values whose upper bits nobody looks at: the kernel takes 32 bits of many
//! numbers that helpers are given, narrow stores and narrow arithmetic look at low bits only.
//!
//! ```text
//! r6 <<= 32
//! r6 s>>= 32
//! r1 = map[ports] ll          r1 = map[ports] ll
//! r2 = r6                =>   r2 = r6
//! r3 = 0                      r3 = 0
//! call bpf_redirect_map       call bpf_redirect_map
//! ```

use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::helper::{self, Arg};
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;

/// Instructions looked at for one extension.
const MAX_STEPS: usize = 200;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        out.extend(extension(context, p).and_then(|e| unneeded(context, &e)));
    }
}

/// Instructions that leave the low bits of a register alone, and change nothing else.
struct Extension {
    positions: Vec<usize>,
    reg: Reg,
    kept: u32,
}

fn extension(context: &Context, p: usize) -> Option<Extension> {
    let one = |reg, kept| Some(Extension { positions: vec![p], reg, kept });
    match *context.insn(p) {
        Insn::Mov { width: Width::W32, dst, src: Operand::Reg(src) } if dst == src => one(dst, 32),
        Insn::MovSx { bits, dst, src, .. } if dst == src => one(dst, bits as u32),
        Insn::Alu { op: AluOp::And, dst, src: Operand::Imm(mask), .. } => one(dst, mask.trailing_ones()),
        Insn::Alu { width: Width::W64, op: AluOp::Lsh, dst, src: Operand::Imm(by @ 1..64) } => {
            let back = context.insn(p + 1);
            let is_back = matches!(*back, Insn::Alu { width: Width::W64, op: AluOp::Rsh | AluOp::Arsh, dst: d, src: Operand::Imm(n) } if d == dst && n == by);
            let is_one_way = context.facts.flow.predecessors[p + 1] == [p];
            (is_back && is_one_way).then(|| Extension { positions: vec![p, p + 1], reg: dst, kept: 64 - by as u32 })
        }
        _ => None,
    }
}

fn unneeded(context: &Context, extension: &Extension) -> Option<Proposal> {
    let Extension { ref positions, reg, kept } = *extension;
    if positions.iter().any(|p| context.is_patched(*p)) {
        return None;
    }
    let last = *positions.last()?;
    let mut uses = Uses { context, seen: BTreeSet::new() };
    if uses.bits_after(last, reg)? > kept {
        return None;
    }
    let mut changes = Changes::default();
    positions.iter().for_each(|p| changes.delete(*p));
    let window = uses.seen.iter().map(|(p, _)| *p);
    Some(window.fold(changes.proposal("extensions"), |proposal, p| proposal.with(p..p + 1)))
}

/// How many low bits of a value matter.
struct Uses<'c, 'a> {
    context: &'c Context<'a>,
    /// Where the value was found, in which register.
    seen: BTreeSet<(usize, Reg)>,
}

impl Uses<'_, '_> {
    /// Of what a register holds after an instruction. `None`: all, or it takes too long to say.
    fn bits_after(&mut self, p: usize, reg: Reg) -> Option<u32> {
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
