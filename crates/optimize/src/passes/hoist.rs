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
//! Ways on which the result does not matter need not have it; a store to the frame is a computation whose
//! result is in the frame. When the branches need the register, another one is taken, for the result or
//! for what they look at. Ways that have the result in different registers get it in the same one, where all
//! but one of them can have it elsewhere:
//!
//! ```text
//! if r0 == 0x0 goto new            r4 = 1
//! r1 = 1                           if r0 == 0x0 goto new
//! lock *(u32 *)(r0 + 0) += r1  =>  lock *(u32 *)(r0 + 0) += r4
//! ..                               ..
//! new:                             new:
//! r4 = 1
//! call bpf_map_update_elem         call bpf_map_update_elem
//! ```

use super::copies::renamed;
use super::movable::{Passed, frame_bytes, is_computation, place};
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use crate::renaming::{Renaming, Value};
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use karakoram_proof::facts::Root;
use std::collections::BTreeSet;
use std::ops::Range;

/// Most instructions of a tree, instructions that are looked at on each way, and computations before a
/// branch inside the tree.
const MAX_BRANCHES: usize = 8;
const MAX_DEPTH: usize = 16;
const MAX_COMPUTED: usize = 3;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        let bare = Tree::at(context, p, 0);
        let whole = Tree::at(context, p, MAX_COMPUTED).filter(|t| Some(&t.inner) != bare.as_ref().map(|b| &b.inner));
        for tree in [bare, whole].into_iter().flatten() {
            tree.hoisted(context, out);
        }
    }
}

/// Branches behind one another, with what is computed between them, and the ways out of them.
struct Tree {
    root: usize,
    /// Branches, and what is computed for them behind the root.
    inner: BTreeSet<usize>,
    /// Registers that they read, and that they write.
    read: RegSet,
    written: RegSet,
    leaves: Vec<usize>,
    /// Leaves to which control comes from the tree alone.
    own: Vec<usize>,
}

impl Tree {
    /// The tree below the branch at `root`, with at most so many computations before each other branch.
    fn at(context: &Context, root: usize, computed: usize) -> Option<Tree> {
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
                let last = context.block(next).end - 1;
                let is_inner = is_branch(last)
                    && last - next <= computed
                    && flow.predecessors[next] == [p]
                    && (next..last).all(|q| is_computation(context, q));
                if inner.len() < MAX_BRANCHES && is_inner {
                    inner.extend(next..=last);
                    pending.push(last);
                } else {
                    leaves.insert(next);
                }
            }
        }
        let all = |of: &[RegSet]| inner.iter().fold(RegSet::EMPTY, |all, p| all.union(of[*p]));
        let (read, written) = (all(&context.reads), all(&context.writes));
        let is_own =
            |l: &usize| *l > 0 && !inner.contains(l) && flow.predecessors[*l].iter().all(|p| inner.contains(p));
        let own = leaves.iter().copied().filter(is_own).collect();
        Some(Tree { root, inner, read, written, leaves: leaves.into_iter().collect(), own })
    }

    /// Each computation that at least two ways have.
    fn hoisted(&self, context: &Context, out: &mut Vec<Proposal>) {
        for (insn, places) in self.repeated(context, |p| *context.insn(p)) {
            out.extend(self.moved(context, &insn, &places));
        }
        for (_, places) in self.repeated(context, |p| nameless(context, p)) {
            if places.iter().any(|p| context.writes[*p] != context.writes[places[0]]) {
                out.extend(self.with_one_name(context, &places));
            }
        }
    }

    /// Computations that at least two ways have, and where: the same by what `key` says of them.
    fn repeated(&self, context: &Context, key: impl Fn(usize) -> Insn) -> impl Iterator<Item = (Insn, Vec<usize>)> {
        let mut found: Vec<(Insn, Vec<usize>)> = Vec::new();
        let patch = |p: usize| context.function.nodes[p].patch;
        for leaf in &self.own {
            for p in liftable(context, *leaf) {
                let insn = key(p);
                match found.iter_mut().find(|(other, places)| *other == insn && patch(places[0]) == patch(p)) {
                    Some((_, places)) if context.block(places[places.len() - 1]) == context.block(p) => {}
                    Some((_, places)) => places.push(p),
                    None => found.push((insn, vec![p])),
                }
            }
        }
        let ways = self.leaves.len();
        // What the loader patches must not come to ways without it.
        let is_bound = move |insn: &Insn, p: usize| effects::of(insn).reads_memory || patch(p).is_some();
        let may_stand_before = move |insn: &Insn, places: &[usize]| {
            places.len() > 1 && (places.len() == ways || !is_bound(insn, places[0]))
        };
        let found: Vec<_> = found.into_iter().filter(|(insn, places)| may_stand_before(insn, places)).collect();
        found.into_iter()
    }

    fn moved(&self, context: &Context, insn: &Insn, places: &[usize]) -> Option<Proposal> {
        if context.reads[places[0]].iter().any(|r| self.written.contains(r)) {
            return None;
        }
        match context.writes[places[0]].iter().next() {
            Some(dst) => self.moved_up(context, insn, places, dst),
            None => self.stored(context, insn, places),
        }
    }

    /// Ways out of the tree that do not have the computation.
    fn others<'t>(&'t self, context: &'t Context, places: &'t [usize]) -> impl Iterator<Item = &'t usize> {
        self.leaves.iter().filter(|l| !places.iter().any(|p| context.block(*p).start == **l))
    }

    fn stored(&self, context: &Context, insn: &Insn, places: &[usize]) -> Option<Proposal> {
        let bytes = frame_bytes(context, places[0])?;
        let is_needed = |l: &usize| bytes.clone().any(|b| context.facts.live_stack[*l].contains(b));
        if self.others(context, places).any(is_needed) {
            return None;
        }
        Some(self.proposal(context, *insn, places, Changes::default(), *context.insn(self.root)))
    }

    fn moved_up(&self, context: &Context, insn: &Insn, places: &[usize], dst: Reg) -> Option<Proposal> {
        let is_over = |r: Reg| self.others(context, places).all(|l| !context.facts.live[*l].contains(r));
        let is_free = |r: Reg| !self.read.contains(r) && !self.written.contains(r) && is_over(r);
        let root = *context.insn(self.root);
        if is_free(dst) {
            return Some(self.proposal(context, *insn, places, Changes::default(), root));
        }
        if context.reads[places[0]].contains(dst) {
            return None;
        }
        let other = Reg::all().find(|r| {
            *r != Reg::FP
                && *r != dst
                && is_free(*r)
                && !context.facts.live[self.root].contains(*r)
                && places.iter().all(|p| is_unused(context, *p, dst, *r))
        });
        let Some(to) = other else {
            return self.with_other_operand(context, insn, places, dst).filter(|_| is_over(dst));
        };
        let mut changes = Changes::default();
        for p in places {
            let web = context.webs().defined(*p, dst)?;
            for q in web.definitions.iter().chain(&web.uses) {
                let (defines, uses) = (web.definitions.contains(q), web.uses.contains(q));
                changes.replace(*q, vec![context.instead(*q, renamed(context.insn(*q), dst, to, defines, uses))]);
            }
        }
        Some(self.proposal(context, renamed(insn, dst, to, true, false), places, changes, root))
    }

    /// A computation whose result is in different registers: in the same one on all ways.
    fn with_one_name(&self, context: &Context, places: &[usize]) -> Option<Proposal> {
        let (root, webs) = (self.root, context.webs());
        let is_over = |r: Reg| self.others(context, places).all(|l| !context.facts.live[*l].contains(r));
        let is_free = |r: &Reg| {
            let is_used = self.read.contains(*r) || self.written.contains(*r) || context.reads[places[0]].contains(*r);
            !is_used && is_over(*r) && !context.facts.live[root].contains(*r)
        };
        let results: Vec<Reg> = places.iter().filter_map(|p| context.writes[*p].iter().next()).collect();
        let renamed_to = |to: Reg| {
            let mut renaming = Renaming::new(context);
            for (p, reg) in places.iter().zip(&results).filter(|(_, reg)| **reg != to) {
                let web = webs.id_defined(*p, *reg)?;
                // What else writes it changes what was computed.
                let members = webs.get(web)?;
                if members.definitions.iter().any(|d| d != p && members.uses.binary_search(d).is_err()) {
                    return None;
                }
                let value = Value { webs: vec![(web, *reg)], kept: (context.block(*p).start..=*p).collect() };
                renaming.add(web, *reg, to)?;
                if !renaming.conflicts(&value, to).is_empty() {
                    return None;
                }
            }
            let insn = renamed(context.insn(places[0]), results[0], to, true, false);
            Some(self.proposal(context, insn, places, renaming.changes()?, *context.insn(root)))
        };
        results.iter().copied().filter(is_free).find_map(renamed_to)
    }

    /// What the branches look at goes elsewhere, so that they do not need `dst`.
    fn with_other_operand(&self, context: &Context, insn: &Insn, places: &[usize], dst: Reg) -> Option<Proposal> {
        let mut readers = self.inner.iter().filter(|p| context.reads[**p].contains(dst));
        let web = context.webs().id_used(*readers.next()?, dst)?;
        if self.written.contains(dst) || readers.any(|p| context.webs().id_used(*p, dst) != Some(web)) {
            return None;
        }
        let value = Value::of(web, dst);
        let mut renaming = Renaming::new(context);
        let is_free = |r: &Reg| *r != Reg::FP && *r != dst && !context.reads[places[0]].contains(*r);
        let to = Reg::all().filter(is_free).find(|r| renaming.conflicts(&value, *r).is_empty())?;
        renaming.add(web, dst, to)?;
        Some(self.proposal(context, *insn, places, renaming.changes()?, renaming.insn(self.root)))
    }

    /// The computation before the first branch, which may have another operand, where jumps to that branch
    /// come, too.
    fn proposal(&self, context: &Context, insn: Insn, places: &[usize], changes: Changes, root: Insn) -> Proposal {
        let mut changes = changes;
        places.iter().for_each(|p| changes.delete(*p));
        let (p, patch) = (self.root, context.function.nodes[places[0]].patch);
        let falls_only = p > 0 && context.facts.flow.predecessors[p] == [p - 1];
        let nodes = match falls_only {
            true => {
                vec![Node { patch, ..context.node(insn) }, Node { insn: root, ..context.function.nodes[p].clone() }]
            }
            false => vec![Node { patch, ..context.instead(p, insn) }, context.node(root)],
        };
        changes.replace(p, nodes);
        changes.proposal("hoist")
    }
}

/// What the instruction at `p` computes, whichever register it puts that in.
fn nameless(context: &Context, p: usize) -> Insn {
    let insn = context.insn(p);
    match context.writes[p].iter().next() {
        Some(dst) if !context.reads[p].contains(dst) => renamed(insn, dst, Reg::R0, true, false),
        _ => *insn,
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

/// Computations and stores to the frame that could as well stand at the begin of their block.
fn liftable(context: &Context, start: usize) -> Vec<usize> {
    let (mut above, mut memory) = (Passed::default(), Touched::default());
    let mut found = Vec::new();
    for p in context.block(start).take(MAX_DEPTH) {
        let is_store = frame_bytes(context, p).is_some();
        let may_pass = above.lets_pass(context, p) && !memory.is_in_the_way(context, p);
        let is_constant = context.function.nodes[p].patched_constant().is_some();
        if may_pass && (is_computation(context, p) || is_store || is_constant) {
            found.push(p);
        }
        above.add(context, p);
        memory.add(context, p);
    }
    found
}

/// Memory that the code above touched.
#[derive(Default)]
struct Touched {
    /// Bytes of the frame, relative to its end.
    frame: Vec<Range<i64>>,
    /// Something that may be the frame.
    anything: bool,
    /// Whether some memory was written.
    written: bool,
}

impl Touched {
    fn add(&mut self, context: &Context, p: usize) {
        let effects = effects::of(context.insn(p));
        self.written |= effects.writes_memory;
        if !effects.reads_memory && !effects.writes_memory {
            return;
        }
        match place(context, p) {
            Some((Root::Frame, bytes)) => self.frame.push(bytes),
            Some(_) => {}
            None => self.anything = true,
        }
    }

    /// Whether the access at `p` may have to do with what was touched.
    fn is_in_the_way(&self, context: &Context, p: usize) -> bool {
        let effects = effects::of(context.insn(p));
        match frame_bytes(context, p) {
            Some(bytes) => self.anything || self.frame.iter().any(|b| b.start < bytes.end && bytes.start < b.end),
            None => (effects.reads_memory || effects.writes_memory) && self.written,
        }
    }
}
