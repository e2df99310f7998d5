//! Two tests of the same in a row, each around some code: one test around both.
//!
//! ```text
//!     if r5 >= r1 goto one            r0 = r6
//!     w3 += -16                       if r5 >= r1 goto two
//! one:                                w3 += -16
//!     r0 = r6                         r0 <<= 16
//!     if r5 >= r1 goto two    =>  two:
//!     r0 <<= 16
//! two:
//! ```

use super::movable::{frame_bytes, is_computation};
use super::thread::anonymous;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use std::ops::Range;

/// Instructions between the two tests, at most.
const MAX_BETWEEN: usize = 6;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let reachable = (0..context.len()).filter(|p| context.facts.is_reachable(*p));
    out.extend(reachable.filter_map(|p| merged(context, p)));
}

/// The first test stands at `p`.
fn merged(context: &Context, p: usize) -> Option<Proposal> {
    let (test, to) = branch(context, p)?;
    let flow = &context.facts.flow;
    let around = p + 1..to;
    let is_alone = around.clone().all(|q| flow.predecessors[q] == [q - 1] && flow.successors[q] == [q + 1]);
    if around.is_empty() || !is_alone || flow.predecessors[to].len() != 2 {
        return None;
    }
    let second = context.block(to).end - 1;
    let between = to..second;
    let (other, behind) = branch(context, second)?;
    let is_same = other == test && behind > second && between.len() <= MAX_BETWEEN;
    if !is_same || !may_go_first(context, p, &around, &between) {
        return None;
    }
    let mut nodes: Vec<_> = between.clone().map(|q| context.node(*context.insn(q))).collect();
    nodes.push(context.node(*context.insn(second)));
    let mut changes = Changes::default();
    changes.replace(p, nodes);
    between.for_each(|q| changes.delete(q));
    changes.delete(second);
    Some(changes.proposal("again"))
}

/// What a branch down looks at, and where it goes.
fn branch(context: &Context, p: usize) -> Option<(Insn<(), ()>, usize)> {
    let to = match context.insn(p) {
        Insn::Branch { target, .. } if !context.is_patched(p) => context.facts.flow.positions[target],
        _ => return None,
    };
    (to > p).then(|| (anonymous(context.insn(p)), to))
}

/// Whether the code between the tests has nothing to do with that between the first test and it, and
/// neither changes what the tests look at.
fn may_go_first(context: &Context, test: usize, around: &Range<usize>, between: &Range<usize>) -> bool {
    let all = |of: &[RegSet], range: &Range<usize>| range.clone().fold(RegSet::EMPTY, |all, p| all.union(of[p]));
    let (read, written) = (all(&context.reads, around), all(&context.writes, around));
    let (moved_reads, moved_writes) = (all(&context.reads, between), all(&context.writes, between));
    let is_disjoint = |a: RegSet, b: RegSet| a.iter().all(|r| !b.contains(r));
    let touches = |p: usize| effects::of(context.insn(p)).reads_memory || effects::of(context.insn(p)).writes_memory;
    let is_simple = |p: usize| is_computation(context, p) || frame_bytes(context, p).is_some();
    between.clone().all(is_simple)
        && !(between.clone().any(touches) && around.clone().any(touches))
        && is_disjoint(moved_reads, written)
        && is_disjoint(moved_writes, written.union(read))
        && is_disjoint(context.reads[test], written.union(moved_writes))
}
