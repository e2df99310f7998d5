//! A constant on each way from a comparison, one of which is the number compared with: there the
//! compared register is that number already.
//!
//! ```text
//! r2 = *(u32 *)(r1 + 20)       r2 = *(u32 *)(r1 + 20)
//! w1 = 1                       if w2 == 0 goto next
//! if w2 != 0 goto next         w2 = 1
//! w1 = 0                       next:
//! next:                        *(u32 *)(r10 - 4) = r2
//! *(u32 *)(r10 - 4) = r1  =>
//! ```

use super::numbers;
use crate::block::Block;
use crate::context::Context;
use crate::proposal::Proposal;
use crate::renaming::{Renaming, Value};
use karakoram_bpf::insn::*;

/// Webs that are moved out of the way, at most.
const MAX_RIVALS: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        if matches!(context.insn(p), Insn::Branch { cond: Condition::Eq | Condition::Ne, .. }) {
            out.extend(chosen(context, p));
        }
    }
}

/// A branch at `q` around a constant, with another constant before it.
fn chosen(context: &Context, q: usize) -> Option<Proposal> {
    let Insn::Branch { width, cond, dst: compared, src: Operand::Imm(k), target } = *context.insn(q) else {
        return None;
    };
    let (x, on_fall) = constant(context, q + 1)?;
    let flow = &context.facts.flow;
    let is_diamond =
        flow.positions[&target] == q + 2 && flow.predecessors[q + 1] == [q] && flow.predecessors[q + 2].len() == 2;
    let block = Block::new(context, context.block(q));
    let before = block.writer(q, x).filter(|d| block.readers(*d, x) == [usize::MAX] && !context.is_patched(*d))?;
    let (_, on_jump) = constant(context, before)?;
    let is_free = x != compared && !context.live_after(q).contains(compared);
    if !is_diamond || !is_free {
        return None;
    }
    // The way on which the register holds its constant needs nothing.
    let number = numbers::value(Width::W64, k);
    let (there, other) = if cond == Condition::Ne { (on_fall, on_jump) } else { (on_jump, on_fall) };
    if there != number {
        return None;
    }
    let webs = context.webs();
    let value = Value {
        webs: vec![(webs.id_defined(before, x)?, x), (webs.id_used(q, compared)?, compared)],
        ..Value::default()
    };
    [compared, x].into_iter().find_map(|room| {
        let mut renaming = Renaming::new(context);
        for (web, reg) in value.webs.iter().filter(|(_, reg)| *reg != room) {
            renaming.add(*web, *reg, room)?;
        }
        renaming.make_room(&value, room, MAX_RIVALS)?;
        let mut changes = renaming.changes()?;
        let test = Insn::Branch { width, cond: Condition::Eq, dst: room, src: Operand::Imm(k), target };
        changes.delete(before);
        changes.replace(q, vec![context.instead(q, test)]);
        changes.replace(q + 1, vec![context.instead(q + 1, numbers::load(room, other)?)]);
        Some(changes.proposal("choice"))
    })
}

/// A move of a constant: the register and the number.
fn constant(context: &Context, p: usize) -> Option<(Reg, u64)> {
    match *context.function.nodes.get(p).map(|n| &n.insn)? {
        Insn::Mov { width, dst, src: Operand::Imm(v) } if !context.is_patched(p) => {
            Some((dst, numbers::value(width, v)))
        }
        _ => None,
    }
}
