//! Definitions that only one side of a branch needs, and that stand elsewhere before the same code: the
//! branch goes there.
//!
//! ```text
//! w0 = 0
//! if w1 == 0x0 goto out            if w1 == 0x0 goto other
//! w0 = 1                           w0 = 1
//! ...                         =>   ...
//! other:                           other:
//! w0 = 0                           w0 = 0
//! out:                             out:
//! exit                             exit
//! ```

use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use std::collections::HashMap;

/// Instructions between a definition and the branch.
const MAX_DISTANCE: usize = 8;

/// Places with the same instruction that are looked at.
const MAX_PLACES: usize = 32;

/// Instructions that are compared behind two places.
const MAX_COMPARED: usize = 12;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let mut places: HashMap<Insn, Vec<usize>> = HashMap::new();
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && is_definition(context, *p)) {
        places.entry(*context.insn(p)).or_default().push(p);
    }
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        let Insn::Branch { target, .. } = *context.insn(p) else { continue };
        for d in idle(context, p) {
            let alike = places.get(context.insn(d)).into_iter().flatten().filter(|q| **q != d);
            out.extend(alike.take(MAX_PLACES).find_map(|q| shared(context, d, p, *q, target)));
        }
    }
}

/// Whether an instruction does nothing but to compute one register.
fn is_definition(context: &Context, p: usize) -> bool {
    matches!(context.insn(p), Insn::Mov { .. } | Insn::LoadImm { .. }) && !context.is_patched(p)
}

/// Definitions above the branch at `p` that could as well stand behind it, and that only the taken side needs.
fn idle(context: &Context, p: usize) -> Vec<usize> {
    let start = context.block(p).start.max(p.saturating_sub(MAX_DISTANCE));
    let (mut read, mut written) = (context.reads[p], RegSet::EMPTY);
    let mut found = Vec::new();
    for d in (start..p).rev() {
        let needed = context.facts.live.get(p + 1).copied().unwrap_or_default();
        let is_free =
            context.writes[d].iter().all(|r| !read.contains(r) && !written.contains(r) && !needed.contains(r));
        if is_free && is_definition(context, d) && context.reads[d].iter().all(|r| !written.contains(r)) {
            found.push(d);
        }
        read = read.union(context.reads[d]);
        written = written.union(context.writes[d]);
    }
    found
}

/// Lets the branch at `p` go to `q`, which does what the definition at `d` does, if the same follows there.
fn shared(context: &Context, d: usize, p: usize, q: usize, target: InsnId) -> Option<Proposal> {
    let behind = same_ends(context, q + 1, context.facts.flow.positions[&target])?;
    let mut changes = Changes::default();
    changes.delete(d);
    let place = context.function.nodes[q].id;
    changes.replace(p, vec![context.instead(p, context.insn(p).map(|_| place, |f| f))]);
    let window = std::iter::once(q).chain(behind).map(|p| p..p + 1);
    Some(window.fold(changes.proposal("share"), Proposal::with))
}

/// Positions on two ways that do the same up to the place where they meet, or an exit.
fn same_ends(context: &Context, mut a: usize, mut b: usize) -> Option<Vec<usize>> {
    let mut seen = Vec::new();
    for _ in 0..MAX_COMPARED {
        a = through_jumps(context, a, &mut seen)?;
        b = through_jumps(context, b, &mut seen)?;
        if a == b {
            return Some(seen);
        }
        let is_same = context.insn(a) == context.insn(b) && !context.is_patched(a) && !context.is_patched(b);
        if !is_same || context.insn(a).target().is_some() {
            return None;
        }
        seen.extend([a, b]);
        if *context.insn(a) == Insn::Exit {
            return Some(seen);
        }
        (a, b) = (a + 1, b + 1);
    }
    None
}

/// The first instruction at or behind `p` that is no jump; the jumps are added to what was seen.
pub(super) fn through_jumps(context: &Context, mut p: usize, seen: &mut Vec<usize>) -> Option<usize> {
    for _ in 0..MAX_COMPARED {
        let Insn::Jump { target, .. } = context.function.nodes.get(p)?.insn else { return Some(p) };
        seen.push(p);
        p = context.facts.flow.positions[&target];
    }
    None
}
