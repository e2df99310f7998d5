//! Tries to leave out each instruction, and each pair of neighbours, and lets the prover decide.

use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::Insn;

/// Each instruction.
pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| may_go(context, *p)) {
        out.push(Proposal::new("deletion/one", edits(vec![(p, None)])));
    }
}

/// Each pair.
pub(super) fn propose_pairs(context: &Context, out: &mut Vec<Proposal>) {
    for p in (1..context.len()).filter(|p| may_go(context, *p) && may_go(context, p - 1)) {
        if context.facts.flow.predecessors[p] == [p - 1] {
            out.push(Proposal::new("deletion/two", edits(vec![(p - 1, None), (p, None)])));
        }
    }
}

/// Whether leaving it out is not hopeless from the start.
fn may_go(context: &Context, p: usize) -> bool {
    if !context.facts.is_reachable(p) || context.is_patched(p) {
        return false;
    }
    match context.insn(p) {
        Insn::Call(_) | Insn::Exit | Insn::Jump { .. } | Insn::MayGoto { .. } | Insn::LegacyLoad { .. } => false,
        Insn::Atomic { .. } | Insn::LoadAcquire { .. } | Insn::StoreRelease { .. } => false,
        // Without the first definition of a register its reader has nothing to read.
        Insn::Mov { dst, .. } | Insn::LoadImm { dst, .. } => {
            context.state(p).is_some_and(|s| s.regs[dst.index()].kind != karakoram_proof::facts::Kind::Uninit)
        }
        _ => true,
    }
}
