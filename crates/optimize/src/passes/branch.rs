//! Branches that always go one way, and branches around jumps.

use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::Insn;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let flow = &context.facts.flow;
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        let Insn::Branch { width, cond, dst, src, target } = *context.insn(p) else { continue };
        let to = flow.positions[&target];
        if to == p + 1 {
            out.push(Proposal::new("branch/to-next", edits(vec![(p, None)])));
            continue;
        }
        match context.facts.branch_outcome(context.program, context.id, p) {
            Some(true) => {
                let jump = context.instead(p, Insn::Jump { target, long: false });
                out.push(Proposal::new("branch/always", edits(vec![(p, Some(jump))])));
            }
            Some(false) => out.push(Proposal::new("branch/never", edits(vec![(p, None)]))),
            None => {}
        }
        if let (Some(Insn::Jump { target: other, .. }), Some(negated), true) =
            (context.function.nodes.get(p + 1).map(|n| n.insn), cond.negated(), to == p + 2)
            && flow.predecessors[p + 1] == [p]
        {
            let inverted = Insn::Branch { width, cond: negated, dst, src, target: other };
            let changes = vec![(p, Some(context.instead(p, inverted))), (p + 1, None)];
            out.push(Proposal::new("branch/over-jump", edits(changes)));
        }
    }
}
