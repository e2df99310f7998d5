//! Instructions whose results nobody looks at: registers, stack bytes, calls without effect.

use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::helper;
use karakoram_bpf::insn::{Callee, Insn};
use karakoram_proof::facts::StackBytes;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        let rule = match context.insn(p) {
            Insn::Call(Callee::Helper(id)) if helper::contract(*id).is_some_and(|c| c.droppable) => "dead/call",
            Insn::Store { .. } if is_dead_store(context, p) => "dead/store",
            Insn::Alu { .. }
            | Insn::Mov { .. }
            | Insn::MovSx { .. }
            | Insn::Neg { .. }
            | Insn::Endian { .. }
            | Insn::LoadImm { .. }
            | Insn::Load { .. } => "dead/register",
            _ => continue,
        };
        let live = context.live_after(p);
        if context.writes[p].iter().all(|r| !live.contains(r)) {
            out.push(Proposal::new(rule, edits(vec![(p, None)])));
        }
    }
}

/// Whether a store goes to stack bytes that do not matter afterwards.
fn is_dead_store(context: &Context, p: usize) -> bool {
    let Insn::Store { size, base, off, .. } = context.insn(p) else { return false };
    let Some(offset) = context.fact(p, *base).and_then(|f| f.stack_offset()) else { return false };
    let from = offset + *off as i64;
    let written = StackBytes::range(from, from + size.bytes() as i64);
    let live = context.facts.flow.successors[p]
        .iter()
        .fold(StackBytes::NONE, |all, s| all.union(&context.facts.live_stack[*s]));
    written.minus(&live) == written
}
