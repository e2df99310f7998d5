//! Windows whose instructions do not stand side by side: a value and what it is made of, or two
//! stores to neighbouring places, with instructions between them that can be moved out of the way.

use super::window::{Exit, LONGEST, Window, is_plain};
use karakoram_bpf::effects::{self, Effects, RegSet};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Function, Program};
use karakoram_proof::facts::{Facts, Root, StackBytes};
use karakoram_proof::region::Region;
use std::collections::HashSet;
use std::ops::Range;

/// Farthest distance between the first and the last instruction.
const REACH: usize = 24;

/// All slices of a function.
pub fn slices(program: &Program, function: FuncId, facts: &Facts, within: Option<&Range<usize>>) -> Vec<Window> {
    let code = program.function(function);
    let mut found = Vec::new();
    let mut seen: HashSet<Vec<usize>> = HashSet::new();
    for stretch in stretches(code, facts, within) {
        let slicer = Slicer::new(function, code, facts, stretch.clone());
        for last in stretch.clone() {
            let mut chosen = slicer.backward(last, None);
            for partner in slicer.neighbours(last) {
                chosen.extend(slicer.backward(last, Some(partner)));
            }
            for positions in chosen {
                let together = positions.windows(2).all(|w| w[1] == w[0] + 1);
                if !together && seen.insert(positions.clone()) {
                    found.extend(slicer.window(positions));
                }
            }
        }
    }
    found
}

/// Runs of plain instructions inside blocks.
fn stretches(code: &Function, facts: &Facts, within: Option<&Range<usize>>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for block in facts.flow.blocks.iter().filter(|b| facts.is_reachable(b.start)) {
        let mut start = block.start;
        for p in block.clone() {
            let node = &code.nodes[p];
            let inside = within.is_none_or(|w| w.contains(&p));
            if node.patch.is_some() || !is_plain(&node.insn) || !inside {
                found.push(start..p);
                start = p + 1;
            }
        }
        found.push(start..block.end);
    }
    found.retain(|s| s.len() > 2);
    found
}

/// A memory access whose place is known as well as the facts know it.
#[derive(Clone, Copy)]
struct Access {
    region: Region,
    root: Option<Root>,
    start: i64,
    bytes: i64,
    store: bool,
}

impl Access {
    /// Whether the order of both may matter.
    fn conflicts(&self, other: &Access) -> bool {
        if !self.store && !other.store {
            return false;
        }
        if self.root.is_some() && self.root == other.root {
            return self.start < other.start + other.bytes && other.start < self.start + self.bytes;
        }
        self.region.may_alias(other.region)
    }
}

struct Slicer<'a> {
    function: FuncId,
    code: &'a Function,
    facts: &'a Facts,
    stretch: Range<usize>,
    effects: Vec<Effects>,
    accesses: Vec<Option<Access>>,
}

impl<'a> Slicer<'a> {
    fn new(function: FuncId, code: &'a Function, facts: &'a Facts, stretch: Range<usize>) -> Slicer<'a> {
        let effects = stretch.clone().map(|p| effects::of(&code.nodes[p].insn)).collect();
        let accesses = stretch.clone().map(|p| access(code, facts, p)).collect();
        Slicer { function, code, facts, stretch, effects, accesses }
    }

    fn effects(&self, p: usize) -> &Effects {
        &self.effects[p - self.stretch.start]
    }

    fn access(&self, p: usize) -> Option<&Access> {
        self.accesses[p - self.stretch.start].as_ref()
    }

    /// Stores before this one that its bytes could be stored with.
    fn neighbours(&self, last: usize) -> Vec<usize> {
        let Some(own) = self.access(last).filter(|a| a.store) else { return Vec::new() };
        let beside = |p: &usize| {
            let near =
                |a: &Access| a.store && a.root.is_some() && a.root == own.root && (a.start - own.start).abs() < 8;
            self.access(*p).is_some_and(near)
        };
        (self.stretch.start.max(last.saturating_sub(REACH))..last).rev().filter(beside).take(2).collect()
    }

    /// What an instruction (and a second one) is made of, nearest first: the sets that come about
    /// while walking back.
    fn backward(&self, last: usize, partner: Option<usize>) -> Vec<Vec<usize>> {
        let mut needed = self.effects(last).reads;
        let mut positions = vec![last];
        let mut sets = Vec::new();
        for p in (self.stretch.start.max(last.saturating_sub(REACH))..last).rev() {
            let Effects { reads, writes, .. } = *self.effects(p);
            let gives = writes.iter().any(|r| needed.contains(r));
            if !gives && partner != Some(p) {
                continue;
            }
            needed = needed.minus(writes).union(reads);
            positions.insert(0, p);
            if positions.len() > LONGEST {
                break;
            }
            if partner.is_none_or(|q| p <= q) {
                sets.push(positions.clone());
            }
        }
        sets
    }

    fn independent(&self, a: usize, b: usize) -> bool {
        let (x, y) = (self.effects(a), self.effects(b));
        let meet = |s: RegSet, t: RegSet| s.iter().any(|r| t.contains(r));
        let conflict = match (self.access(a), self.access(b)) {
            (Some(a), Some(b)) => a.conflicts(b),
            _ => false,
        };
        !conflict && !meet(x.writes, y.reads.union(y.writes)) && !meet(x.reads, y.writes)
    }

    /// The window of those positions, when everything between them can be moved out of the way.
    fn window(&self, positions: Vec<usize>) -> Option<Window> {
        let range = *positions.first()?..*positions.last()? + 1;
        if range.end >= self.code.nodes.len() {
            return None;
        }
        let (mut ahead, mut behind) = (Vec::new(), Vec::new());
        for p in range.clone().filter(|p| !positions.contains(p)) {
            let passed = positions.iter().chain(&behind).filter(|q| **q < p);
            if passed.into_iter().all(|q| self.independent(*q, p)) {
                ahead.push(p);
            } else if positions.iter().filter(|q| **q > p).all(|q| self.independent(p, *q)) {
                behind.push(p);
            } else {
                return None;
            }
        }
        let writes = |ps: &[usize]| ps.iter().fold(RegSet::EMPTY, |all, p| all.union(self.effects(*p).writes));
        let mut state = self.facts.before[range.start].clone()?;
        let (before, own) = (writes(&ahead), writes(&positions));
        // Registers that the instructions moved ahead leave for those that are replaced.
        let mut handed = RegSet::EMPTY;
        let mut set = RegSet::EMPTY;
        for p in &positions {
            let new = self.effects(*p).reads.minus(set).minus(handed);
            for r in new.iter().filter(|r| before.contains(*r)) {
                state.regs[r.index()] = self.facts.before[*p].as_ref()?.regs[r.index()];
                handed = handed.with(r);
            }
            set = set.union(self.effects(*p).writes);
        }
        let live_in = self.facts.live[range.start].minus(before).union(handed).with(Reg::FP);
        let mut live = self.facts.live[range.end];
        let mut live_stack = self.facts.live_stack[range.end];
        for p in behind.iter().rev() {
            live = live.minus(self.effects(*p).writes).union(self.effects(*p).reads);
            if self.effects(*p).reads_memory {
                live_stack = StackBytes::ALL;
            }
        }
        let live = live.minus(before.minus(own).minus(handed));
        let insns: Vec<Insn> = positions.iter().map(|p| self.code.nodes[*p].insn).collect();
        Some(Window {
            function: self.function,
            slots: insns.iter().map(Insn::slots).sum(),
            leads: vec![None; insns.len()],
            insns,
            positions,
            ahead,
            behind,
            state,
            live_in,
            next: Exit { live, live_stack },
            branch: None,
            range,
        })
    }
}

fn access(code: &Function, facts: &Facts, p: usize) -> Option<Access> {
    let (base, off, size, store) = match code.nodes[p].insn {
        Insn::Load { base, off, size, .. } => (base, off, size, false),
        Insn::Store { base, off, size, .. } => (base, off, size, true),
        _ => return None,
    };
    let fact = facts.before[p].as_ref()?.regs[base.index()];
    let start = (fact.delta as i64).wrapping_add(off as i64);
    Some(Access { region: fact.region(), root: fact.root, start, bytes: size.bytes() as i64, store })
}
