//! Jumps to the next instruction, to other jumps, and to an exit.

use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::Insn;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let flow = &context.facts.flow;
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        let insn = context.insn(p);
        let Some(to) = insn.target().map(|t| flow.positions[t]) else { continue };
        if matches!(insn, Insn::Jump { .. }) {
            if to == p + 1 {
                out.push(Proposal::new("jumps/to-next", edits(vec![(p, None)])));
                continue;
            }
            if *context.insn(to) == Insn::Exit {
                let exit = context.instead(p, Insn::Exit);
                out.push(Proposal::new("jumps/to-exit", edits(vec![(p, Some(exit))])).with(to..to + 1));
            }
        }
        if let Insn::Jump { target: further, .. } = context.insn(to)
            && flow.positions[further] != to
            && flow.positions[further] != p
            && !context.is_patched(to)
            && !matches!(insn, Insn::MayGoto { .. })
        {
            let direct = context.instead(p, insn.map(|_| *further, |f| f));
            let mut proposal = Proposal::new("jumps/to-jump", edits(vec![(p, Some(direct))])).with(to..to + 1);
            proposal.shortens = true;
            out.push(proposal);
        }
    }
}
