//! The structural proof: a rewrite that only arranges code differently. Original and edited function
//! are walked in step from every place where control can come to edited code; as long as both are
//! about to execute the same instruction, up to unconditional jumps and to the direction of branches,
//! they stay in the same state. Nothing is executed symbolically, so the size of the window and the
//! number of its paths and entries do not matter: blocks may be reordered, copied and merged.
//!
//! The walk ends where both come to the same unedited instruction. All code it rests on must belong
//! to the window, so that rewrites of disjoint windows can be applied together.

use crate::facts::Facts;
use crate::rewrite::{At, Edited, Original, Rewrite};
use crate::symbolic::Code;
use karakoram_bpf::insn::{Insn, InsnId};
use karakoram_bpf::program::{Function, Node};
use std::collections::HashSet;

/// Whether the rewrite leaves the flow graph as it is.
pub(crate) fn is_same_flow(function: &Function, facts: &Facts, rewrite: &Rewrite) -> bool {
    let old = Original { function, flow: &facts.flow, rewrite };
    let new = Edited::new(function, &facts.flow, rewrite);
    let mut walk = Walk { old, new, facts, rewrite, seen: HashSet::new(), pending: Vec::new() };
    walk.seed() && walk.finish()
}

struct Walk<'a> {
    old: Original<'a>,
    new: Edited<'a>,
    facts: &'a Facts,
    rewrite: &'a Rewrite,
    seen: HashSet<(usize, At)>,
    pending: Vec<(usize, At)>,
}

impl Walk<'_> {
    /// Every way into edited code: by falling into an edit, and by the name of what stood there,
    /// which anything may jump to. A name that is kept means what it meant.
    fn seed(&mut self) -> bool {
        for edit in &self.rewrite.edits {
            for p in edit.at.clone().filter(|p| self.facts.is_reachable(*p)) {
                let id = self.old.function.nodes[p].id;
                let is_kept = self.new.has_new(id);
                let outside = |q: &usize| !edit.at.contains(q);
                let is_entered = p == edit.at.start || self.facts.flow.predecessors[p].iter().any(outside);
                if is_kept || is_entered {
                    let Some(q) = self.new.find(id) else { return false };
                    self.pending.push((p, q));
                }
            }
            if self.is_fallen_into(edit.at.start) {
                let Some(q) = self.new.place(edit.at.start) else { return false };
                self.pending.push((edit.at.start, q));
            }
        }
        true
    }

    /// Whether unedited code, or the start of the function, leads on to a position.
    fn is_fallen_into(&self, position: usize) -> bool {
        let Some(p) = position.checked_sub(1) else { return true };
        !self.is_edited(p) && self.facts.is_reachable(p) && !self.old.function.nodes[p].insn.ends_block()
    }

    fn finish(&mut self) -> bool {
        while let Some((p, q)) = self.pending.pop() {
            if !self.facts.is_reachable(p) || !self.seen.insert((p, q)) {
                continue;
            }
            if !self.is_in_step(p, q) {
                return false;
            }
        }
        true
    }

    /// Takes both sides over jumps, and one instruction further.
    fn is_in_step(&mut self, mut p: usize, mut q: At) -> bool {
        // More jumps in a row than there are instructions lead in a circle.
        for _ in 0..self.old.function.nodes.len() + self.rewrite.size() {
            if q == At::Old(p) && !self.is_edited(p) {
                // The same instruction: from here on the other seeds tell.
                return true;
            }
            let (to, new_to) = (jump(self.old.node(p)), jump(self.new.node(q)));
            let next = match (to, new_to) {
                (Some(to), _) if self.is_inside(At::Old(p)) => self.old.find(to).map(|p| (p, q)),
                (None, Some(to)) if self.is_inside(q) => self.new.find(to).map(|q| (p, q)),
                (None, None) => return self.is_inside(At::Old(p)) && self.is_inside(q) && self.compare(p, q),
                _ => None,
            };
            let Some(next) = next else { return false };
            (p, q) = next;
        }
        false
    }

    /// Whether no other rewrite can change what stands there.
    fn is_inside(&self, at: At) -> bool {
        match at {
            At::Old(p) => self.rewrite.contains(p),
            At::New(..) => true,
        }
    }

    fn is_edited(&self, p: usize) -> bool {
        self.rewrite.edits.iter().any(|e| e.at.contains(&p))
    }

    fn compare(&mut self, p: usize, q: At) -> bool {
        let (a, b) = (self.old.node(p), self.new.node(q));
        if a.patch != b.patch {
            return false;
        }
        let (next, new_next) = (self.old.next(p), self.new.next(q));
        match (a.insn, b.insn) {
            (Insn::Exit, Insn::Exit) => true,
            (
                Insn::Branch { width, cond, dst, src, target },
                Insn::Branch { width: w, cond: c, dst: d, src: s, target: t },
            ) if (width, dst, src) == (w, d, s) => {
                let (taken, new_taken) = (self.old.find(target), self.new.find(t));
                match () {
                    _ if c == cond => self.follow(taken, new_taken) && self.follow(next, new_next),
                    _ if cond.negated() == Some(c) => self.follow(taken, new_next) && self.follow(next, new_taken),
                    _ => false,
                }
            }
            (Insn::MayGoto { target }, Insn::MayGoto { target: t }) => {
                self.follow(self.old.find(target), self.new.find(t)) && self.follow(next, new_next)
            }
            (x, y) => x == y && x.target().is_none() && self.follow(next, new_next),
        }
    }

    fn follow(&mut self, p: Option<usize>, q: Option<At>) -> bool {
        let (Some(p), Some(q)) = (p, q) else { return false };
        self.pending.push((p, q));
        true
    }
}

/// Where an unconditional jump leads.
fn jump(node: &Node) -> Option<InsnId> {
    match node.insn {
        Insn::Jump { target, .. } if node.patch.is_none() => Some(target),
        _ => None,
    }
}
