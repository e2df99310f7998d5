//! Branches to a common end of the function with a constant to return: each goes to a place that
//! returns the constant, so that nothing sets it in front of the branch.
//!
//! ```text
//! w0 = 1
//! if w1 != w2 goto L1        if w1 != w2 goto L2
//! ..                         ..
//! L1:                        L1:
//! exit                       exit
//! L2:                        L2:
//! w0 = 1                     w0 = 1
//! exit                  =>   exit
//! ```

use super::exits::{self, Arrival, End};
use super::numbers;
use crate::context::Context;
use crate::draft::Draft;
use crate::proposal::Proposal;
use karakoram_bpf::insn::*;
use std::collections::BTreeMap;

/// Branches that are turned together, at most.
const MAX_TOGETHER: usize = 6;

/// Branches to one end that are looked at.
const MAX_BRANCHES: usize = 200;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for end in exits::all(context) {
        let tails = exits::tails(context, &end);
        let mut groups: BTreeMap<u64, Vec<Arrival>> = BTreeMap::new();
        for arrival in exits::arrivals(context, &end).into_iter().take(MAX_BRANCHES) {
            let is_branch = matches!(context.insn(arrival.from), Insn::Branch { .. });
            if let Some(c) =
                arrival.constant.filter(|_| is_branch && !arrival.falls && !context.is_patched(arrival.from))
            {
                groups.entry(c).or_default().push(arrival);
            }
        }
        for (c, mut arrivals) in groups {
            arrivals.sort_by_key(|a| a.from);
            for n in 1..=MAX_TOGETHER {
                let turned = arrivals.windows(n).filter_map(|some| match tails.get(&c) {
                    Some(tail) => Some(turned(context, &end, some, *tail)),
                    None => opened(context, &end, some, c),
                });
                out.extend(turned.filter(|p| p.growth(context) < p.enables as i64));
            }
        }
    }
}

/// The branches go to an existing place.
fn turned(context: &Context, end: &End, arrivals: &[Arrival], tail: usize) -> Proposal {
    let mut draft = Draft::new(context);
    turn(context, &mut draft, arrivals, context.function.nodes[tail].id);
    draft.drop_needless();
    let mut proposal = Proposal::new("returns/there", draft.edits());
    proposal.needs = exits::extent(context, tail);
    proposal.with(end.first..end.exit + 1)
}

/// The constant is returned right after the first branch, and the others go there.
fn opened(context: &Context, end: &End, arrivals: &[Arrival], c: u64) -> Option<Proposal> {
    let (first, others) = arrivals.split_first()?;
    let Insn::Branch { width, cond, dst, src, .. } = *context.insn(first.from) else { return None };
    let target = context.function.nodes.get(first.from + 1)?.id;
    let inverted = Insn::Branch { width, cond: cond.negated()?, dst, src, target };
    let set = context.node(numbers::load(Reg::R0, c)?);
    let mut draft = Draft::new(context);
    turn(context, &mut draft, others, set.id);
    draft.put(first.from, vec![context.instead(first.from, inverted), set, context.node(Insn::Exit)]);
    draft.drop_needless();
    let mut proposal = Proposal::new("returns/here", draft.edits()).with(end.first..end.exit + 1);
    // Branches to a common end never become more.
    proposal.enables = true;
    Some(proposal)
}

fn turn(context: &Context, draft: &mut Draft, arrivals: &[Arrival], target: InsnId) {
    for arrival in arrivals {
        let insn = context.insn(arrival.from).map(|_| target, |f| f);
        draft.put(arrival.from, vec![context.instead(arrival.from, insn)]);
    }
}
