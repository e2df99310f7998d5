//! Code that no execution reaches, and that no reachable code leads to any more.

use crate::context::Context;
use crate::proposal::Proposal;
use karakoram_proof::rewrite::Edit;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let flow = &context.facts.flow;
    let mut reached = vec![false; context.len()];
    let mut pending = vec![0];
    while let Some(p) = pending.pop() {
        if !std::mem::replace(&mut reached[p], true) {
            pending.extend(flow.successors[p].iter().copied().filter(|s| !reached[*s]));
        }
    }
    let mut edits: Vec<Edit> = Vec::new();
    for p in (0..context.len()).filter(|p| !reached[*p]) {
        match edits.last_mut() {
            Some(edit) if edit.at.end == p => edit.at.end += 1,
            _ => edits.push(Edit { at: p..p + 1, nodes: Vec::new() }),
        }
    }
    if !edits.is_empty() {
        out.push(Proposal::new("unreachable", edits));
    }
}
