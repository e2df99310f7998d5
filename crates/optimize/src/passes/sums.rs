//! Sums of a register and a number that some register holds already.
//!
//! ```text
//! r3 = r1                  r3 = r1
//! r3 += 14                 r3 += 14
//! if r3 > r2 goto out      if r3 > r2 goto out
//! ..                       ..
//! r4 = r1                  r4 = r3
//! r4 += 14            =>
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::*;
use karakoram_proof::facts::Fact;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        for add in block.range.clone().filter(|p| !context.is_patched(*p)) {
            let Insn::Alu { width: Width::W64, op: AluOp::Add, dst, src: Operand::Imm(by) } = *context.insn(add) else {
                continue;
            };
            let copy = block.writer(add, dst).filter(|q| !context.is_patched(*q) && block.readers(*q, dst) == [add]);
            if let Some(copy) = copy.filter(|q| matches!(context.insn(*q), Insn::Mov { width: Width::W64, .. })) {
                out.extend(held(context, (copy, add), dst, by));
            }
        }
    }
}

/// The sum made by two instructions, from a register that holds it.
fn held(context: &Context, (copy, add): (usize, usize), dst: Reg, by: i32) -> Option<Proposal> {
    let before = context.fact(add, dst)?;
    let sum = Fact { delta: before.delta.wrapping_add(by as i64 as u64), ..*before };
    let holds = |p: usize, r: Reg| {
        context.fact(p, r).is_some_and(|f| sum.root.is_some() && f.kind == sum.kind && f.is_same(&sum))
    };
    if holds(copy, dst) {
        return Some(
            Proposal::new("sums/unchanged", edits(vec![(copy, None), (add, None)])).since(context.anchor(copy, dst)),
        );
    }
    let from = Reg::all().find(|r| *r != dst && holds(add, *r))?;
    let node = context.instead(add, Insn::Mov { width: Width::W64, dst, src: Operand::Reg(from) });
    Some(Proposal::new("sums/held", edits(vec![(copy, None), (add, Some(node))])).since(context.anchor(add, from)))
}
