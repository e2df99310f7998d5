//! Rules as a pass: what they say about each block of a function.

use super::index::Entry;
use super::matching::{self, Match};
use super::template::{Role, Template};
use super::{RuleSet, Variant};
use crate::block::Block;
use crate::context::Context;
use crate::proposal::Proposal;
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::{Insn, Reg};
use karakoram_bpf::program::Node;
use karakoram_proof::rewrite::Edit;
use std::collections::BTreeSet;

/// What the rules that come with the program propose, but for those of [`propose_branches`].
pub fn propose(context: &Context, out: &mut Vec<Proposal>) {
    propose_from(RuleSet::shipped(), context, &|variant| !is_folded_into_branch(variant), out);
}

/// What the rules propose that put a computation into the branch behind it. What is known of the result
/// is lost then, so they come after those that may use it.
pub fn propose_branches(context: &Context, out: &mut Vec<Proposal>) {
    propose_from(RuleSet::shipped(), context, &is_folded_into_branch, out);
}

fn is_folded_into_branch(variant: &Variant) -> bool {
    variant.lhs.len() > 1 && variant.lhs.iter().any(|t| t.insn.target().is_some())
}

fn propose_from(set: &'static RuleSet, context: &Context, wanted: &dyn Fn(&Variant) -> bool, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        for last in block.range.clone() {
            at(set, context, &block, last, wanted, out);
        }
    }
}

fn at(
    set: &'static RuleSet,
    context: &Context,
    block: &Block,
    last: usize,
    wanted: &dyn Fn(&Variant) -> bool,
    out: &mut Vec<Proposal>,
) {
    let insn = |p: usize| (!context.is_patched(p)).then(|| *context.insn(p));
    let writer = |p: usize, role: Role| {
        let reads = super::template::reads(context.insn(p));
        reads.iter().find(|(r, _)| *r == role).and_then(|(_, reg)| block.writer(p, *reg))
    };
    set.index.find(last, &insn, &writer, &mut |Entry { rule, variant }, path| {
        let rule = &set.rules[rule];
        let variant = &rule.variants[variant];
        let allowed = wanted(variant)
            && (context.has_narrow_branches || !variant.brings_narrow_branch())
            && (context.has_version_4 || !variant.brings_version_4());
        if allowed && let Some(found) = matching::matches(context, block, variant, path) {
            out.extend(proposal(context, block, variant, &found, &rule.name));
        }
    });
}

/// The edits that put the right-hand side in the place of the left-hand side, and take away what nothing
/// else reads.
fn proposal(
    context: &Context,
    block: &Block,
    variant: &Variant,
    found: &Match,
    rule: &'static str,
) -> Option<Proposal> {
    let last = *found.positions.iter().max()?;
    let removed = removed(block, variant, found, last);
    let place = place(context, block, variant, found, &removed)?;
    let insns: Option<Vec<Insn>> = variant.rhs.iter().map(|t| found.instance(t)).collect();
    let insns = insns?;
    let node = |(i, insn): (usize, &Insn)| match i + 1 == insns.len() {
        true => context.instead(place, *insn),
        false => context.node(*insn),
    };
    let nodes: Vec<Node> = insns.iter().enumerate().map(node).collect();
    let edits =
        removed.iter().map(|p| Edit { at: *p..*p + 1, nodes: if *p == place { nodes.clone() } else { Vec::new() } });
    let first = *found.positions.iter().min()?;
    Some(Proposal::new(rule, edits.collect()).since(first))
}

/// Instructions of the left-hand side that are not needed any more.
fn removed(block: &Block, variant: &Variant, found: &Match, place: usize) -> BTreeSet<usize> {
    let mut removed = BTreeSet::new();
    let mut steps: Vec<usize> = (0..variant.lhs.len()).collect();
    steps.sort_by_key(|s| std::cmp::Reverse(found.positions[*s]));
    for step in steps {
        let (p, t) = (found.positions[step], &variant.lhs[step]);
        let is_unread = t.writes().iter().all(|variable| {
            let Some(reg) = found.register(variable) else { return false };
            let is_result = variant.outputs().contains(variable)
                && variant.lhs[step + 1..].iter().all(|later| !later.writes().contains(variable));
            block.readers(p, reg).iter().all(|r| removed.contains(r) || is_result && *r > place)
        });
        if t.has_effect() || is_unread {
            removed.insert(p);
        }
    }
    removed
}

/// Where the right-hand side may come: where the last instruction of the left-hand side is, or, when
/// something has overwritten an input by then and only registers are concerned, where an earlier one is.
fn place(
    context: &Context,
    block: &Block,
    variant: &Variant,
    found: &Match,
    removed: &BTreeSet<usize>,
) -> Option<usize> {
    let last = *found.positions.iter().max()?;
    let is_pure = |t: &Template| !t.has_effect() && !effects::of(&t.insn).reads_memory;
    let may_move = !variant.rhs.is_empty() && variant.lhs.iter().chain(&variant.rhs).all(is_pure);
    let places = removed.iter().rev().copied().filter(|p| *p == last || may_move && removed.contains(&last));
    places.into_iter().find(|place| is_undisturbed(context, block, variant, found, removed, *place))
}

/// Whether, where the right-hand side comes, registers hold what it reads, and nothing else wants what
/// it overwrites.
fn is_undisturbed(
    context: &Context,
    block: &Block,
    variant: &Variant,
    found: &Match,
    removed: &BTreeSet<usize>,
    place: usize,
) -> bool {
    let end = *removed.last().unwrap_or(&place);
    let kept_writer = |reg: Reg| {
        let mut at = place;
        loop {
            match block.writer(at, reg) {
                Some(w) if removed.contains(&w) => at = w,
                other => return other,
            }
        }
    };
    let written = variant.rhs.iter().fold(RegSet::EMPTY, |all, t| all.union(t.writes()));
    let reads = variant.rhs.iter().fold(variant.outputs().minus(written), |all, t| all.union(t.reads()));
    let mut inputs = reads.iter().filter_map(|v| found.origins().iter().find(|(known, _)| *known == v));
    let has_inputs = inputs.all(|(v, origin)| found.register(*v).is_some_and(|r| kept_writer(r) == *origin));
    let passes = |reg: Reg| {
        let mut between = (place + 1..end).filter(|p| !removed.contains(p)).map(|p| effects::of(context.insn(p)));
        between.all(|e| !e.reads.contains(reg) && !e.writes.contains(reg))
    };
    has_inputs
        && written.iter().all(|variable| {
            let Some(reg) = found.register(variable) else { return false };
            let last = (0..variant.lhs.len()).rev().find(|s| variant.lhs[*s].writes().contains(variable));
            let Some(last) = last.map(|s| found.positions[s]) else { return false };
            let is_last = last == end || block.writer(end, reg) == Some(last);
            let is_dead = !variant.dead.contains(variable) || !context.live_after(end).contains(reg);
            is_last && is_dead && passes(reg)
        })
}
