//! Copies that are masked for a comparison with zero: the branch tests the bits and, since there is no
//! branch on bits that are all clear, goes around a jump.
//!
//! ```text
//! r3 = r2
//! w3 &= 3                  if w2 & 0x3 goto some
//! if w3 == 0x0 goto out    goto out
//! ..                  =>   some:
//! ```
//!
//! The other direction is a rule.

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        out.extend(tested(context, &block));
    }
}

fn tested(context: &Context, block: &Block) -> Option<Proposal> {
    let p = block.range.end - 1;
    let Insn::Branch { cond: Condition::Eq, dst, src: Operand::Imm(0), target, .. } = *context.insn(p) else {
        return None;
    };
    let mask = block.writer(p, dst)?;
    let copy = block.writer(mask, dst)?;
    let Insn::Alu { width, op: AluOp::And, src, .. } = *context.insn(mask) else { return None };
    let Insn::Mov { src: Operand::Reg(of), .. } = *context.insn(copy) else { return None };
    let is_only_read = |d: usize, reader: usize| block.readers(d, dst).iter().all(|r| *r == reader);
    let is_there = block.writer(copy, of) == block.writer(p, of) && is_only_read(copy, mask) && is_only_read(mask, p);
    let is_patched = [copy, mask, p].into_iter().any(|q| context.is_patched(q));
    if !is_there || is_patched || width == Width::W32 && !context.has_narrow_branches {
        return None;
    }
    let some = context.function.nodes.get(p + 1)?.id;
    let test = Insn::Branch { width, cond: Condition::Set, dst: of, src, target: some };
    let mut changes = Changes::default();
    changes.delete(copy);
    changes.delete(mask);
    changes.replace(p, vec![context.instead(p, test), context.node(Insn::Jump { target, long: false })]);
    Some(changes.proposal("clear_bits"))
}
