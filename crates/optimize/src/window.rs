//! Windows for proposals: the smallest that may do, then larger ones.

use crate::context::Context;
use crate::proposal::Proposal;
use karakoram_proof::rewrite::Rewrite;
use std::collections::BTreeSet;
use std::ops::Range;

/// Largest window that is tried, in instructions; more is slow and rarely better.
const MAX_WINDOW: usize = 400;

/// Most paths of a smallest window, and of a larger one that is only a second try: pairs of paths are
/// compared, so time grows with the square.
const MAX_PATHS: usize = 64;
const MAX_PATHS_EXTENDED: usize = 16;

/// Most instructions on all paths of a window together.
const MAX_STEPS: usize = 2_000;

/// How far windows are extended backwards at most, in blocks.
const MAX_EXTENSION: usize = 6;

/// The rewrites to try for a proposal, smallest window first.
pub fn rewrites(context: &Context, proposal: &Proposal, extensions: usize) -> Vec<Rewrite> {
    if proposal.arranges {
        return vec![arrangement(context, proposal)];
    }
    let mut tried: Vec<Rewrite> = Vec::new();
    for start in starts(context, proposal.from, extensions) {
        if let Some(rewrite) = rewrite(context, proposal, start)
            && tried.last() != Some(&rewrite)
        {
            let limit = if start == proposal.from { MAX_PATHS } else { MAX_PATHS_EXTENDED };
            let paths = paths(context, &rewrite);
            if paths > limit * proposal.patience || paths * rewrite.size() > MAX_STEPS * proposal.patience {
                break;
            }
            tried.push(rewrite);
        }
    }
    tried
}

/// Where windows may begin: at the position itself, at its block, at blocks that dominate it.
fn starts(context: &Context, from: usize, extensions: usize) -> Vec<usize> {
    let mut starts = vec![from];
    let mut block = context.facts.flow.block_of[from];
    for _ in 0..extensions.min(MAX_EXTENSION) {
        let start = context.facts.flow.blocks[block].start;
        if starts.last() != Some(&start) {
            starts.push(start);
        }
        let above = context.dominators()[block];
        if above == block {
            break;
        }
        block = above;
    }
    starts.truncate(extensions + 1);
    starts
}

fn rewrite(context: &Context, proposal: &Proposal, start: usize) -> Option<Rewrite> {
    let edits = proposal.edits.iter().map(|e| e.at.clone());
    let mut members: BTreeSet<usize> = edits.clone().flatten().collect();
    let entry = closure(context, &mut members, start)?;
    members.extend(proposal.needs.iter().cloned().flatten());
    (members.len() <= MAX_WINDOW).then(|| of_members(context, proposal, entry, &members))
}

/// The window of code that is only arranged differently: entries and paths do not matter to its proof.
fn arrangement(context: &Context, proposal: &Proposal) -> Rewrite {
    let edits = proposal.edits.iter().flat_map(|e| e.at.clone());
    let members: BTreeSet<usize> = edits.chain(proposal.needs.iter().cloned().flatten()).collect();
    of_members(context, proposal, proposal.from, &members)
}

fn of_members(context: &Context, proposal: &Proposal, entry: usize, members: &BTreeSet<usize>) -> Rewrite {
    Rewrite {
        function: context.id,
        entry,
        window: ranges(members),
        edits: proposal.edits.clone(),
        rule: proposal.rule.to_string(),
    }
}

/// How many ways lead through a window, roughly: jumps backwards count as leaving it.
fn paths(context: &Context, rewrite: &Rewrite) -> usize {
    let mut count: std::collections::HashMap<usize, usize> = std::collections::HashMap::new();
    for p in rewrite.window.iter().rev().flat_map(|r| r.clone().rev()) {
        let next = context.facts.flow.successors[p].iter();
        let sum = next.map(|s| count.get(s).copied().unwrap_or(1)).fold(0usize, usize::saturating_add);
        count.insert(p, sum.max(1));
    }
    count.get(&rewrite.entry).copied().unwrap_or(1)
}

/// Adds everything between `start` and the members, so that control can only come in at the start.
/// Where `start` does not dominate the members, their nearest common dominator takes its place.
fn closure(context: &Context, members: &mut BTreeSet<usize>, start: usize) -> Option<usize> {
    let flow = &context.facts.flow;
    let top = members.iter().map(|p| flow.block_of[*p]).fold(flow.block_of[start], |a, b| common(context, a, b));
    let entry = if flow.block_of[start] == top {
        start.min(members.iter().copied().filter(|p| flow.block_of[*p] == top).min().unwrap_or(start))
    } else {
        // The block's last instruction decides which way to go.
        let last = flow.blocks[top].end - 1;
        members.iter().copied().filter(|p| flow.block_of[*p] == top).min().unwrap_or(last)
    };
    let mut pending: Vec<usize> = members.iter().copied().collect();
    members.insert(entry);
    while let Some(p) = pending.pop() {
        if p == entry {
            continue;
        }
        for q in &flow.predecessors[p] {
            if members.insert(*q) {
                pending.push(*q);
            }
        }
        if p == 0 || members.len() > MAX_WINDOW {
            return None;
        }
    }
    Some(entry)
}

/// The nearest block that dominates both.
fn common(context: &Context, a: usize, b: usize) -> usize {
    if a == b {
        return a;
    }
    let idom = context.dominators();
    let mut above_a = BTreeSet::from([a]);
    let mut at = a;
    while idom[at] != at {
        at = idom[at];
        above_a.insert(at);
    }
    let mut at = b;
    while !above_a.contains(&at) && idom[at] != at {
        at = idom[at];
    }
    at
}

fn ranges(members: &BTreeSet<usize>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for &p in members {
        match ranges.last_mut() {
            Some(last) if last.end == p => last.end += 1,
            _ => ranges.push(p..p + 1),
        }
    }
    ranges
}
