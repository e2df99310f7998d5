//! The same computation on several ways out of some branches: once, before them.
//!
//! ```text
//! if w4 == 0x800 goto four         r1 += r3
//! if w4 != 0x86dd goto other       if w4 == 0x800 goto four
//! r1 += r3                    =>   if w4 != 0x86dd goto other
//! ...                              ...
//! four:                            four:
//! r1 += r3
//! ```
//!
//! Ways on which the result does not matter need not have it. When the branches need the register,
//! another one is taken.

use super::copies::renamed;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;

/// Most branches in a row, and instructions that are looked at on each way.
const MAX_BRANCHES: usize = 8;
const MAX_DEPTH: usize = 16;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        if let Some(tree) = Tree::at(context, p) {
            tree.hoisted(context, out);
        }
    }
}

/// Branches directly behind one another, and the ways out of them.
struct Tree {
    root: usize,
    /// Registers that the branches read.
    read: RegSet,
    leaves: Vec<usize>,
    /// Leaves to which control comes from the tree alone.
    own: Vec<usize>,
}

impl Tree {
    fn at(context: &Context, root: usize) -> Option<Tree> {
        let flow = &context.facts.flow;
        let is_branch = |p: usize| matches!(context.insn(p), Insn::Branch { .. }) && !context.is_patched(p);
        if !is_branch(root) {
            return None;
        }
        let mut inner = BTreeSet::from([root]);
        let mut leaves = BTreeSet::new();
        let mut pending = vec![root];
        while let Some(p) = pending.pop() {
            for &next in &flow.successors[p] {
                if inner.len() < MAX_BRANCHES && is_branch(next) && flow.predecessors[next] == [p] {
                    inner.insert(next);
                    pending.push(next);
                } else {
                    leaves.insert(next);
                }
            }
        }
        let read = inner.iter().fold(RegSet::EMPTY, |all, p| all.union(context.reads[*p]));
        let is_own =
            |l: &usize| *l > 0 && !inner.contains(l) && flow.predecessors[*l].iter().all(|p| inner.contains(p));
        let own = leaves.iter().copied().filter(is_own).collect();
        Some(Tree { root, read, leaves: leaves.into_iter().collect(), own })
    }

    /// Each computation that at least two ways have.
    fn hoisted(&self, context: &Context, out: &mut Vec<Proposal>) {
        let mut found: Vec<(Insn, Vec<usize>)> = Vec::new();
        for leaf in &self.own {
            for p in liftable(context, *leaf) {
                match found.iter_mut().find(|(insn, _)| insn == context.insn(p)) {
                    Some((_, places)) if context.block(places[places.len() - 1]) == context.block(p) => {}
                    Some((_, places)) => places.push(p),
                    None => found.push((*context.insn(p), vec![p])),
                }
            }
        }
        for (insn, places) in found.into_iter().filter(|(_, places)| places.len() > 1) {
            let is_everywhere = places.len() == self.leaves.len();
            if effects::of(&insn).reads_memory && !is_everywhere {
                continue;
            }
            out.extend(self.moved(context, &insn, &places));
        }
    }

    fn moved(&self, context: &Context, insn: &Insn, places: &[usize]) -> Option<Proposal> {
        let dst = context.writes[places[0]].iter().next()?;
        let others = || self.leaves.iter().filter(|l| !places.iter().any(|p| context.block(*p).start == **l));
        let is_free = |r: Reg| !self.read.contains(r) && others().all(|l| !context.facts.live[*l].contains(r));
        if is_free(dst) {
            let mut changes = Changes::default();
            places.iter().for_each(|p| changes.delete(*p));
            self.insert(context, *insn, &mut changes);
            return Some(changes.proposal("hoist"));
        }
        if context.reads[places[0]].contains(dst) {
            return None;
        }
        let to = Reg::all().find(|r| {
            *r != Reg::FP
                && *r != dst
                && is_free(*r)
                && !context.facts.live[self.root].contains(*r)
                && places.iter().all(|p| is_unused(context, *p, dst, *r))
        })?;
        let mut changes = Changes::default();
        for p in places {
            let web = context.webs().defined(*p, dst)?;
            for q in web.definitions.iter().chain(&web.uses) {
                let (defines, uses) = (web.definitions.contains(q), web.uses.contains(q));
                changes.replace(*q, vec![context.instead(*q, renamed(context.insn(*q), dst, to, defines, uses))]);
            }
        }
        places.iter().for_each(|p| changes.delete(*p));
        self.insert(context, renamed(insn, dst, to, true, false), &mut changes);
        Some(changes.proposal("hoist"))
    }

    /// Puts an instruction before the first branch, where jumps to that branch come, too.
    fn insert(&self, context: &Context, insn: Insn, changes: &mut Changes) {
        let p = self.root;
        let branch = &context.function.nodes[p];
        let falls_only = p > 0 && context.facts.flow.predecessors[p] == [p - 1];
        let nodes = match falls_only {
            true => vec![context.node(insn), branch.clone()],
            false => vec![context.instead(p, insn), context.node(branch.insn)],
        };
        changes.replace(p, nodes);
    }
}

/// Whether a register is not needed for anything else where the value defined at `p` is.
fn is_unused(context: &Context, p: usize, dst: Reg, other: Reg) -> bool {
    context.webs().defined(p, dst).is_some_and(|web| {
        !web.fixed
            && web.definitions.iter().all(|d| !context.live_after(*d).contains(other))
            && web.uses.iter().all(|u| !context.facts.live[*u].contains(other))
    })
}

/// Computations that could as well stand at the begin of their block.
fn liftable(context: &Context, start: usize) -> Vec<usize> {
    let (mut read, mut written, mut memory) = (RegSet::EMPTY, RegSet::EMPTY, false);
    let mut found = Vec::new();
    for p in context.block(start).take(MAX_DEPTH) {
        let effects = effects::of(context.insn(p));
        let touches = effects.reads_memory || effects.writes_memory;
        let is_free = context.writes[p].iter().all(|r| !read.contains(r) && !written.contains(r))
            && context.reads[p].iter().all(|r| !written.contains(r));
        if is_free && is_computation(context, p) && !(touches && memory) {
            found.push(p);
        }
        read = read.union(context.reads[p]);
        written = written.union(context.writes[p]);
        memory |= effects.writes_memory;
    }
    found
}

fn is_computation(context: &Context, p: usize) -> bool {
    let is_kind = matches!(
        context.insn(p),
        Insn::Alu { .. }
            | Insn::Mov { .. }
            | Insn::MovSx { .. }
            | Insn::Neg { .. }
            | Insn::Endian { .. }
            | Insn::LoadImm { .. }
            | Insn::Load { .. }
    );
    is_kind && !context.is_patched(p)
}
