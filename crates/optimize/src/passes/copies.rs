//! Moves between registers: the value is computed in the target at once, or used where it is.

use crate::context::Context;
use crate::proposal::{Proposal, edits};
use crate::renaming::mapped;
use crate::webs::Web;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use std::collections::BTreeMap;

/// Webs with more members are left alone.
const MAX_MEMBERS: usize = 48;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        let Insn::Mov { dst, src: Operand::Reg(src), .. } = *context.insn(p) else { continue };
        if dst == src {
            continue;
        }
        if let Some(web) = context.webs().defined(p, dst) {
            out.extend(rename(context, p, web, dst, src, "copies/use-source"));
        }
        if let Some(web) = context.webs().used(p, src) {
            out.extend(rename(context, p, web, src, dst, "copies/compute-in-target"));
        }
    }
}

/// Moves a web to another register and drops the move at `p`.
fn rename(context: &Context, p: usize, web: &Web, from: Reg, to: Reg, rule: &'static str) -> Option<Proposal> {
    if web.fixed || web.definitions.len() + web.uses.len() > MAX_MEMBERS || to == Reg::FP && web.definitions.len() > 1 {
        return None;
    }
    if interferes(context, p, web, from, to) {
        return None;
    }
    let mut changes: BTreeMap<usize, Option<Node>> = BTreeMap::new();
    for &q in web.definitions.iter().chain(&web.uses) {
        let (is_definition, is_use) = (web.definitions.binary_search(&q).is_ok(), web.uses.binary_search(&q).is_ok());
        let insn = renamed(context.insn(q), from, to, is_definition, is_use);
        let is_copy = matches!(insn, Insn::Mov { dst, src: Operand::Reg(src), .. } if dst == src);
        changes.insert(q, (!is_copy).then(|| context.instead(q, insn)));
    }
    changes.insert(p, None);
    let first = *changes.keys().next()?;
    Some(Proposal::new(rule, edits(changes.into_iter().collect())).since(first.min(p)))
}

/// Whether the other register is needed for something else where the web is.
fn interferes(context: &Context, p: usize, web: &Web, from: Reg, to: Reg) -> bool {
    let differs = |q: usize| match (context.fact(q, from), context.fact(q, to)) {
        (Some(a), Some(b)) => !a.is_same(b),
        _ => true,
    };
    web.definitions.iter().any(|d| *d != p && to != Reg::FP && context.live_after(*d).contains(to))
        || web.uses.iter().any(|u| *u != p && context.facts.live[*u].contains(to) && differs(*u))
}

/// An instruction with its reads or writes of one register moved to another.
pub(super) fn renamed(insn: &Insn, from: Reg, to: Reg, definition: bool, used: bool) -> Insn {
    let moved = |r: Reg, yes: bool| if r == from && yes { to } else { r };
    mapped(insn, &|r| moved(r, definition), &|r| moved(r, used))
}
