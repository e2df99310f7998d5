//! What passes look at: one function of the program, its facts, and who defines what.

use crate::webs::Webs;
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Function, Node, Program};
use karakoram_proof::call::{CallModel, Known, Signature};
use karakoram_proof::facts::{Fact, Facts, State};
use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;

/// How far up dominating blocks are looked at.
const MAX_BLOCKS_UP: usize = 8;

/// One function and everything known of it.
pub struct Context<'a> {
    /// The program.
    pub program: &'a Program,
    /// Number of the function.
    pub id: FuncId,
    /// The function.
    pub function: &'a Function,
    /// Its facts.
    pub facts: &'a Facts,
    /// Registers each instruction reads; for calls those that the callee has as arguments.
    pub reads: Vec<RegSet>,
    /// Registers each instruction overwrites.
    pub writes: Vec<RegSet>,
    /// Whether the program has comparisons of low halves, which came with version 3.
    pub has_narrow_branches: bool,
    /// Whether the program has instructions of version 4.
    pub has_version_4: bool,
    next: Cell<u32>,
    webs: OnceCell<Webs>,
    dominators: OnceCell<Vec<usize>>,
}

impl<'a> Context<'a> {
    /// The context of a function with the facts of that very code.
    pub fn new(
        program: &'a Program,
        id: FuncId,
        facts: &'a Facts,
        signature: &dyn Fn(FuncId) -> Signature,
    ) -> Context<'a> {
        let function = program.function(id);
        let effects: Vec<_> = function.nodes.iter().map(|n| effects::of(&n.insn)).collect();
        let reads = function.nodes.iter().zip(&effects).map(|(node, e)| match node.insn {
            Insn::Call(callee) => CallModel::of(program, callee, &|_| Known::default(), signature).reads,
            _ => e.reads,
        });
        let insns = || program.functions.iter().flat_map(|f| &f.nodes).map(|n| &n.insn);
        Context {
            program,
            id,
            function,
            facts,
            reads: reads.collect(),
            writes: effects.iter().map(|e| e.writes).collect(),
            has_narrow_branches: insns().any(|i| matches!(i, Insn::Branch { width: Width::W32, .. })),
            has_version_4: insns().any(is_version_4),
            next: Cell::new(function.fresh_id().0),
            webs: OnceCell::new(),
            dominators: OnceCell::new(),
        }
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.function.nodes.len()
    }

    /// Whether there is no instruction.
    pub fn is_empty(&self) -> bool {
        self.function.nodes.is_empty()
    }

    /// The instruction at a position.
    pub fn insn(&self, position: usize) -> &'a Insn {
        &self.function.nodes[position].insn
    }

    /// A new instruction.
    pub fn node(&self, insn: Insn) -> Node {
        let id = self.next.get();
        self.next.set(id + 1);
        Node { id: InsnId(id), insn, patch: None }
    }

    /// An instruction that takes the place and the identity of another.
    pub fn instead(&self, position: usize, insn: Insn) -> Node {
        let old = &self.function.nodes[position];
        let refers = |i: &Insn| matches!(i, Insn::LoadImm { .. } | Insn::Call(_));
        let id = if refers(&old.insn) { self.node(insn).id } else { old.id };
        let patched = Node { id, insn, patch: old.patch };
        if patched.is_patched_like(old) { patched } else { Node { patch: None, ..patched } }
    }

    /// Whether the loader may change it.
    pub fn is_patched(&self, position: usize) -> bool {
        self.function.nodes[position].patch.is_some()
    }

    /// The state before a position.
    pub fn state(&self, position: usize) -> Option<&'a State> {
        self.facts.before[position].as_ref()
    }

    /// What is known of a register before a position.
    pub fn fact(&self, position: usize, reg: Reg) -> Option<&'a Fact> {
        self.state(position).map(|s| &s.regs[reg.index()])
    }

    /// The number in a register before a position.
    pub fn value(&self, position: usize, reg: Reg) -> Option<u64> {
        self.fact(position, reg).and_then(Fact::value)
    }

    /// The state after a position, when just one other follows and only from here.
    pub fn state_after(&self, position: usize) -> Option<&'a State> {
        let [next] = self.facts.flow.successors[position].as_slice() else { return None };
        if self.facts.flow.predecessors[*next].len() != 1 {
            return None;
        }
        self.state(*next)
    }

    /// Registers that matter after a position.
    pub fn live_after(&self, position: usize) -> RegSet {
        let next = &self.facts.flow.successors[position];
        next.iter().fold(RegSet::EMPTY, |all, s| all.union(self.facts.live[*s]))
    }

    /// Positions of the block that a position is in.
    pub fn block(&self, position: usize) -> std::ops::Range<usize> {
        self.facts.flow.blocks[self.facts.flow.block_of[position]].clone()
    }

    /// The nearest position at or above `position`, on every way to it, where a register matters or is
    /// written: from there on the prover knows what it holds.
    pub fn anchor(&self, position: usize, reg: Reg) -> usize {
        let flow = &self.facts.flow;
        let mut at = position;
        for _ in 0..MAX_BLOCKS_UP {
            let block = flow.block_of[at];
            for p in (flow.blocks[block].start..=at).rev() {
                if self.facts.live[p].contains(reg) || p < position && self.writes[p].contains(reg) {
                    return p;
                }
            }
            let above = self.dominators()[block];
            if above == block {
                break;
            }
            at = flow.blocks[above].end - 1;
        }
        position
    }

    /// Positions on the ways from one to another, without the first; `None` when there are ways around it.
    pub fn between(&self, from: usize, to: usize) -> Option<BTreeSet<usize>> {
        let mut seen = BTreeSet::from([to]);
        let mut pending = vec![to];
        while let Some(p) = pending.pop() {
            if p == 0 {
                return None;
            }
            for q in &self.facts.flow.predecessors[p] {
                if *q != from && seen.insert(*q) {
                    pending.push(*q);
                }
            }
        }
        Some(seen)
    }

    /// Definitions and uses that belong to the same value.
    pub fn webs(&self) -> &Webs {
        self.webs.get_or_init(|| Webs::of(self))
    }

    /// Immediate dominator of each block; its own number for the first and for unreachable ones.
    pub fn dominators(&self) -> &[usize] {
        self.dominators.get_or_init(|| dominators(self))
    }
}

/// Whether an instruction came with version 4 of the instruction set.
pub(crate) fn is_version_4(insn: &Insn) -> bool {
    match insn {
        Insn::MovSx { .. } | Insn::Endian { order: Endian::Swap, .. } | Insn::Jump { long: true, .. } => true,
        Insn::Load { signed, .. } => *signed,
        Insn::Alu { op, .. } => matches!(op, AluOp::SDiv | AluOp::SMod),
        _ => false,
    }
}

/// Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
fn dominators(context: &Context) -> Vec<usize> {
    let flow = &context.facts.flow;
    let order = flow.reverse_post_order();
    let mut rank = vec![usize::MAX; flow.blocks.len()];
    order.iter().enumerate().for_each(|(i, b)| rank[*b] = i);
    let mut idom: Vec<Option<usize>> = vec![None; flow.blocks.len()];
    if let Some(first) = order.first() {
        idom[*first] = Some(*first);
    }
    let mut changed = true;
    while changed {
        changed = false;
        for &block in order.iter().skip(1) {
            let mut new: Option<usize> = None;
            for p in &flow.predecessors[flow.blocks[block].start] {
                let p = flow.block_of[*p];
                if idom[p].is_none() {
                    continue;
                }
                new = Some(match new {
                    None => p,
                    Some(other) => meet(&idom, &rank, p, other),
                });
            }
            if new.is_some() && idom[block] != new {
                idom[block] = new;
                changed = true;
            }
        }
    }
    idom.iter().enumerate().map(|(b, d)| d.unwrap_or(b)).collect()
}

fn meet(idom: &[Option<usize>], rank: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while rank[a] > rank[b] {
            a = idom[a].unwrap_or(b);
        }
        while rank[b] > rank[a] {
            b = idom[b].unwrap_or(a);
        }
    }
    a
}
