//! What is computed before a branch and undone on one way from it: computed on the other way only.
//!
//! ```text
//! r4 = r3                    r4 = r3
//! w4 += -16                  if r5 >= r1 goto next
//! if r5 < r1 goto next  =>   w4 += -16
//! r4 = r3                    next:
//! next:
//! ```

use super::movable::is_computation;
use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::effects;
use karakoram_bpf::insn::*;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let reachable = (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p));
    out.extend(reachable.filter_map(|p| sunk(context, p)));
}

/// The branch at `p` goes around one instruction, which repeats an earlier one.
fn sunk(context: &Context, p: usize) -> Option<Proposal> {
    let Insn::Branch { width, cond, dst, src, target } = *context.insn(p) else { return None };
    let flow = &context.facts.flow;
    if flow.positions[&target] != p + 2 || flow.predecessors[p + 1] != [p] || !is_movable(context, p + 1) {
        return None;
    }
    let (first, chain) = computed(context, p)?;
    let negated = Insn::Branch { width, cond: cond.negated()?, dst, src, target };
    let mut changes = Changes::default();
    chain.iter().for_each(|q| changes.delete(*q));
    changes.replace(p, vec![context.instead(p, negated)]);
    changes.replace(p + 1, chain.iter().map(|q| context.node(*context.insn(*q))).collect());
    Some(changes.proposal("sink").since(first))
}

/// Where what `p + 1` does was done before the branch at `p`, and what was made of it until there, for
/// nobody but the code after the branch.
fn computed(context: &Context, p: usize) -> Option<(usize, Vec<usize>)> {
    let again = context.insn(p + 1);
    let result = context.writes[p + 1].iter().next()?;
    let block = Block::new(context, context.block(p));
    let is_kept = |q: usize| {
        let mut others = context.reads[q].iter().filter(|r| *r != result);
        others.all(|r| block.writer(q, r) == block.writer(p, r))
    };
    let mut chain = Vec::new();
    let (mut at, mut reader) = (block.writer(p, result)?, usize::MAX);
    while context.insn(at) != again {
        if !is_movable(context, at) || !is_kept(at) || block.readers(at, result) != [reader] {
            return None;
        }
        chain.push(at);
        (reader, at) = (at, block.writer(at, result)?);
    }
    chain.reverse();
    let is_whole = !chain.is_empty() && !context.reads[p + 1].contains(result) && is_kept(at);
    (is_whole && block.readers(at, result) == [reader]).then_some((at, chain))
}

fn is_movable(context: &Context, p: usize) -> bool {
    is_computation(context, p) && !effects::of(context.insn(p)).reads_memory
}
