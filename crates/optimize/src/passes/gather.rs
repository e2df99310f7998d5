//! What all ways into a join do at some place near their ends: once, behind the join.
//!
//! ```text
//!     r2 = *(u16 *)(r8 + 0)            r2 = *(u16 *)(r8 + 0)
//!     *(u16 *)(r3 + 32) = r2           r8 += 2
//!     r8 += 2                          goto out
//!     goto out                     one:
//! one:                                 r2 = *(u16 *)(r8 + 2)
//!     r2 = *(u16 *)(r8 + 2)        out:
//!     *(u16 *)(r3 + 32) = r2  =>       *(u16 *)(r3 + 32) = r2
//! out:
//! ```

use super::movable::{Passed, is_computation};
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::effects;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

/// Instructions that are looked at on each way.
const MAX_DEPTH: usize = 12;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let flow = &context.facts.flow;
    for join in flow.blocks.iter().map(|b| b.start).filter(|j| flow.predecessors[*j].len() > 1) {
        if context.facts.is_reachable(join) {
            out.extend(gathered(context, join));
        }
    }
}

fn gathered(context: &Context, join: usize) -> Option<Proposal> {
    let flow = &context.facts.flow;
    let ways = &flow.predecessors[join];
    if context.is_patched(join)
        || ways.iter().any(|p| flow.successors[*p] != [join] || context.block(*p).contains(&join))
    {
        return None;
    }
    let candidates: Vec<Vec<usize>> = ways.iter().map(|p| sinkable(context, *p)).collect();
    let node = |p: usize| &context.function.nodes[p];
    let is_same = |p: usize, q: usize| (node(p).insn, node(p).patch) == (node(q).insn, node(q).patch);
    let (one, places) = candidates[0].iter().find_map(|p| {
        let same = |found: &Vec<usize>| found.iter().copied().find(|q| is_same(*p, *q));
        Some((*p, candidates.iter().map(same).collect::<Option<Vec<usize>>>()?))
    })?;
    let mut changes = Changes::default();
    places.iter().for_each(|p| changes.delete(*p));
    let gathered = Node { patch: node(one).patch, ..context.instead(join, *context.insn(one)) };
    changes.replace(join, vec![gathered, context.node(*context.insn(join))]);
    Some(changes.proposal("gather"))
}

/// Computations and stores that could as well stand at the end of the block that ends at `last`.
fn sinkable(context: &Context, last: usize) -> Vec<usize> {
    let start = context.block(last).start.max(last.saturating_sub(MAX_DEPTH));
    let mut below = Passed::default();
    let (mut loads, mut stores) = (false, false);
    let mut found = Vec::new();
    for p in (start..=last).rev() {
        let effects = effects::of(context.insn(p));
        let is_free = below.lets_pass(context, p)
            && !(effects.reads_memory && stores)
            && !(effects.writes_memory && (loads || stores));
        let is_store = matches!(context.insn(p), Insn::Store { .. }) && !context.is_patched(p);
        let is_constant = context.function.nodes[p].patched_constant().is_some();
        if is_free && (is_computation(context, p) || is_store || is_constant) {
            found.push(p);
        }
        below.add(context, p);
        loads |= effects.reads_memory;
        stores |= effects.writes_memory;
    }
    found
}
