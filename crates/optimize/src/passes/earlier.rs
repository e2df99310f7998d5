//! What was computed before, all the way from the same values, and from memory that nobody wrote to since:
//! taken from the register that holds it, or kept where none does.
//!
//! ```text
//! r4 = *(u64 *)(r1 + 40)           r4 = *(u64 *)(r1 + 40)
//! r5 = *(u32 *)(r4 + 0)            r5 = *(u32 *)(r4 + 0)
//! if r0 != r5 goto out             if r0 != r5 goto out
//! r4 = map[m] ll                   r4 = map[m] ll
//! ..                               ..
//! r5 = *(u64 *)(r1 + 40)
//! r5 = *(u32 *)(r5 + 0)
//! *(u32 *)(r10 - 24) = r5     =>   *(u32 *)(r10 - 24) = r0
//! ```

use super::copies::renamed;
use crate::context::Context;
use crate::numbering::Numbering;
use crate::proposal::{Changes, Proposal};
use crate::renaming::{Renaming, Value};
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;

/// Most instructions over which a value is kept.
const MAX_KEPT: usize = 120;

/// Places at which it was computed that are looked at.
const MAX_PLACES: usize = 4;

/// Uses of a value that are changed, at most.
const MAX_USES: usize = 16;

/// Most values that make room for one.
const MAX_RIVALS: usize = 4;

/// How much larger than usual windows may be: they begin where the value was computed first.
const PATIENCE: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let numbering = Numbering::of(context);
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && numbering.is_repeated(*p)) {
        if let Some(proposal) = shared(context, &numbering, p) {
            out.push(proposal);
            continue;
        }
        let is_constant = matches!(context.insn(p), Insn::Mov { src: Operand::Imm(_), .. });
        if !is_constant || context.is_patched(p) {
            out.extend(held(context, &numbering, p).or_else(|| kept(context, &numbering, p)));
        }
    }
}

/// A register holds the value wherever it is used.
fn shared(context: &Context, numbering: &Numbering, p: usize) -> Option<Proposal> {
    let dst = context.writes[p].iter().next()?;
    let number = numbering.computed(p)?;
    let web = context.webs().defined(p, dst)?;
    if web.definitions != [p] || web.fixed || web.uses.len() > MAX_USES {
        return None;
    }
    let is_held = |r: &Reg| web.uses.iter().all(|u| numbering.holders(*u, number).any(|h| h == *r));
    let mut holders = numbering.holders(p, number).filter(|r| *r != dst && *r != Reg::FP);
    let holder = holders.find(is_held)?;
    let mut changes = Changes::default();
    for u in &web.uses {
        changes.replace(*u, vec![context.instead(*u, renamed(context.insn(*u), dst, holder, false, true))]);
    }
    changes.delete(p);
    let is_constant = context.value(p, holder).is_some();
    let first = numbering.places(number).first().filter(|_| !is_constant).copied();
    let since = first.into_iter().chain([context.anchor(p, holder)]).min()?;
    let mut proposal = changes.proposal("earlier/shared").since(since);
    proposal.patience = PATIENCE;
    Some(proposal)
}

/// A register holds the value.
fn held(context: &Context, numbering: &Numbering, p: usize) -> Option<Proposal> {
    let dst = context.writes[p].iter().next()?;
    let number = numbering.computed(p)?;
    let holders: Vec<Reg> = numbering.holders(p, number).filter(|r| *r != Reg::FP).collect();
    let holder = holders.iter().copied().find(|r| *r == dst).or(holders.first().copied())?;
    let copy = Insn::Mov { width: Width::W64, dst, src: Operand::Reg(holder) };
    let mut gone = BTreeSet::from([p]);
    only_for(context, numbering, p, &mut gone);
    let first = gone.iter().filter_map(|q| numbering.places(numbering.computed(*q)?).first().copied()).min()?;
    let mut changes = Changes::default();
    gone.into_iter().for_each(|q| changes.delete(q));
    if holder != dst {
        changes.replace(p, vec![context.instead(p, copy)]);
    }
    let mut proposal = changes.proposal("earlier/held").since(first);
    proposal.patience = PATIENCE;
    Some(proposal)
}

/// Adds what was computed for nothing but the instruction at `p`.
fn only_for(context: &Context, numbering: &Numbering, p: usize, gone: &mut BTreeSet<usize>) {
    for r in context.reads[p].iter() {
        let Some(web) = context.webs().used(p, r) else { continue };
        if let ([made], [_], false) = (&web.definitions[..], &web.uses[..], web.fixed)
            && numbering.is_repeated(*made)
            && gone.insert(*made)
        {
            only_for(context, numbering, *made, gone);
        }
    }
}

/// No register holds the value any more: the one in which it was computed last is kept for it.
fn kept(context: &Context, numbering: &Numbering, p: usize) -> Option<Proposal> {
    let (webs, dst) = (context.webs(), context.writes[p].iter().next()?);
    let places = numbering.places(numbering.computed(p)?);
    let near = |q: &&usize| **q < p && p - **q <= MAX_KEPT;
    let nearest = places.iter().rev().filter(near).take(MAX_PLACES);
    let (q, ways) = nearest.filter_map(|q| Some((*q, between(context, *q, p)?))).next()?;
    let before = context.writes[q].iter().next()?;
    let (first, second) = (webs.id_defined(q, before)?, webs.id_defined(p, dst)?);
    let second_web = webs.get(second)?;
    let is_changed_later = |d: &usize| *d == p || second_web.uses.binary_search(d).is_ok();
    if first == second || webs.get(first)?.definitions != [q] || !second_web.definitions.iter().all(is_changed_later) {
        return None;
    }
    let value = Value { webs: vec![(first, before), (second, dst)], kept: ways };
    let moved = |to: Reg, most: usize| {
        let mut renaming = Renaming::new(context);
        for (web, reg) in value.webs.iter().filter(|(_, reg)| *reg != to) {
            renaming.add(*web, *reg, to)?;
        }
        renaming.make_room(&value, to, most)?;
        let mut changes = renaming.changes()?;
        changes.delete(p);
        let mut proposal = changes.proposal("earlier/kept").since(q).across(value.kept.iter().copied());
        proposal.patience = PATIENCE;
        Some(proposal)
    };
    let free = Reg::all().filter(|r| *r != Reg::FP).find_map(|r| moved(r, 0));
    free.or_else(|| [before, dst].into_iter().find_map(|r| moved(r, MAX_RIVALS)))
}

/// The positions on the ways from one to another below it, without the first, when there are only a few and
/// none leads back.
fn between(context: &Context, from: usize, to: usize) -> Option<BTreeSet<usize>> {
    let mut seen = BTreeSet::from([to]);
    let mut pending = vec![to];
    while let Some(p) = pending.pop() {
        for q in &context.facts.flow.predecessors[p] {
            if *q < from || *q >= p || seen.len() > MAX_KEPT {
                return None;
            }
            if *q != from && seen.insert(*q) {
                pending.push(*q);
            }
        }
    }
    Some(seen)
}
