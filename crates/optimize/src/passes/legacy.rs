//! Sums that are only an index of a legacy packet load: the load adds a constant by itself.
//!
//! ```text
//! r1 = r7
//! r1 += 12
//! r0 = *(u32 *)skb[r1]   =>   r0 = *(u32 *)skb[r7 + 12]
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        for p in block.range.clone().filter(|p| !context.is_patched(*p)) {
            if let Insn::LegacyLoad { size, index: Some(index), off } = *context.insn(p) {
                out.extend(known(context, &block, p, (size, index, off)));
                out.extend(shorter(context, &block, p, (size, index, off)));
            }
        }
    }
}

/// The index is a number: the form without one.
fn known(context: &Context, block: &Block, p: usize, (size, index, off): (Size, Reg, i32)) -> Option<Proposal> {
    let off = off.wrapping_add(context.value(p, index)? as i32);
    let mut changes = vec![(p, Some(context.instead(p, Insn::LegacyLoad { size, index: None, off })))];
    let maker = block.writer(p, index).filter(|q| is_only_for(context, block, *q, index, p))?;
    changes.push((maker, None));
    Some(Proposal::new("legacy/known", edits(changes)))
}

/// The index is a sum of a register and a number.
fn shorter(context: &Context, block: &Block, p: usize, (size, index, off): (Size, Reg, i32)) -> Option<Proposal> {
    let add = block.writer(p, index).filter(|q| is_only_for(context, block, *q, index, p))?;
    let by = match *context.insn(add) {
        Insn::Alu { op: AluOp::Add, src: Operand::Imm(by), .. } => by,
        Insn::Alu { op: AluOp::Sub, src: Operand::Imm(by), .. } => by.wrapping_neg(),
        _ => return None,
    };
    let mut changes: Vec<(usize, Option<Node>)> = vec![(add, None)];
    let mut from = index;
    if let Some(copy) = block.writer(add, index)
        && let Insn::Mov { src: Operand::Reg(src), .. } = *context.insn(copy)
        && is_only_for(context, block, copy, index, add)
        && block.writer(p, src) == block.writer(copy, src)
    {
        changes.push((copy, None));
        from = src;
    }
    let load = Insn::LegacyLoad { size, index: Some(from), off: off.wrapping_add(by) };
    changes.push((p, Some(context.instead(p, load))));
    Some(Proposal::new("legacy/sum", edits(changes)))
}

/// Whether what is computed at `maker` is only read at `reader`.
fn is_only_for(context: &Context, block: &Block, maker: usize, reg: Reg, reader: usize) -> bool {
    !context.is_patched(maker) && block.readers(maker, reg) == [reader]
}
