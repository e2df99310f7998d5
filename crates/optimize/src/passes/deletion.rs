//! Tries to leave out each instruction, and each pair of neighbours, and lets the prover decide.
//! What certainly changes something is only tried at the highest level: a window ends where its edit
//! ends, so it can only go for reasons that lie further up than its block.

use crate::context::Context;
use crate::proposal::{Proposal, edits};
use crate::trial;
use karakoram_bpf::insn::Insn;

/// Each instruction that nothing speaks for.
pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend(singles(context, false));
}

/// Each other instruction.
pub(super) fn propose_all(context: &Context, out: &mut Vec<Proposal>) {
    out.extend(singles(context, true));
}

fn singles<'c>(context: &'c Context, effective: bool) -> impl Iterator<Item = Proposal> + 'c {
    let needed = trial::effective(context);
    let is_needed = move |p: usize| needed[p] || matches!(context.insn(p), Insn::Branch { .. });
    let chosen = (0..context.len()).filter(move |p| is_needed(*p) == effective && may_go(context, *p));
    chosen.map(|p| Proposal::new("deletion/one", edits(vec![(p, None)])))
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
