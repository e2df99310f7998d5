//! Blocks that end the same way: the second one jumps into the first.

use crate::context::Context;
use crate::proposal::Proposal;
use karakoram_bpf::insn::{Insn, InsnId};
use karakoram_proof::rewrite::Edit;
use std::collections::HashMap;

/// Where a block leads, and its last instruction but that.
type Ending = (Option<InsnId>, Insn);

/// Blocks with the same ending that are compared with one another.
const MAX_ALIKE: usize = 24;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let flow = &context.facts.flow;
    let mut alike: HashMap<Ending, Vec<(usize, usize)>> = HashMap::new();
    for block in flow.blocks.iter().filter(|b| context.facts.is_reachable(b.start)) {
        // The end of the common part, without the jump at the end.
        let last = block.end - 1;
        let (ending, end) = match *context.insn(last) {
            Insn::Jump { target, .. } if last > block.start => ((Some(target), *context.insn(last - 1)), last),
            Insn::Exit => ((None, Insn::Exit), block.end),
            insn if insn.target().is_none() && block.end < context.len() => {
                ((Some(context.function.nodes[block.end].id), insn), block.end)
            }
            _ => continue,
        };
        alike.entry(ending).or_default().push((block.start, end));
    }
    let mut groups: Vec<_> = alike.into_values().collect();
    groups.sort();
    for group in groups {
        for (i, a) in group.iter().enumerate().take(MAX_ALIKE) {
            for b in group[i + 1..].iter().take(MAX_ALIKE) {
                // Code that falls through or exits takes no jump of its own away.
                out.extend(merged(context, *a, *b));
                out.extend(merged(context, *b, *a));
            }
        }
    }
}

/// Lets `b` jump into `a` where both go on alike.
fn merged(context: &Context, a: (usize, usize), b: (usize, usize)) -> Option<Proposal> {
    let room = (a.1 - a.0).min(b.1 - b.0);
    let same = |k: &usize| {
        let (p, q) = (a.1 - k, b.1 - k);
        context.insn(p) == context.insn(q) && !context.is_patched(p) && !context.is_patched(q)
    };
    let common = (1..=room).take_while(same).count();
    let ends_with_jump = matches!(context.function.nodes.get(b.1).map(|n| &n.insn), Some(Insn::Jump { .. }))
        && context.facts.flow.block_of[b.1] == context.facts.flow.block_of[b.0];
    let end = b.1 + ends_with_jump as usize;
    let start = b.1 - common;
    if common == 0 || end - start < 2 {
        return None;
    }
    let target = context.function.nodes[a.1 - common].id;
    let jump = context.instead(start, Insn::Jump { target, long: false });
    let mut proposal = Proposal::new("tails", vec![Edit { at: start..end, nodes: vec![jump] }]);
    let a_end = a.1 + matches!(context.function.nodes.get(a.1).map(|n| &n.insn), Some(Insn::Jump { .. })) as usize;
    proposal = proposal.with(a.1 - common..a_end);
    Some(proposal)
}
