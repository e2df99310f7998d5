//! A function with changes in progress: which instructions the changes make needless.

use crate::context::Context;
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use karakoram_proof::rewrite::Edit;
use std::collections::{BTreeMap, HashMap};

/// Changes by position.
#[derive(Clone)]
pub struct Draft<'c, 'a> {
    context: &'c Context<'a>,
    changes: BTreeMap<usize, Vec<Node>>,
}

/// The code as it would be, with the position that each instruction comes from.
struct Code {
    nodes: Vec<(usize, Node)>,
    next: Vec<Vec<usize>>,
}

impl<'c, 'a> Draft<'c, 'a> {
    /// No change yet.
    pub fn new(context: &'c Context<'a>) -> Draft<'c, 'a> {
        Draft { context, changes: BTreeMap::new() }
    }

    /// Puts instructions in the place of the one at a position.
    pub fn put(&mut self, position: usize, nodes: Vec<Node>) {
        self.changes.insert(position, nodes);
    }

    /// Takes out instructions that only compute what nobody reads any more.
    pub fn drop_needless(&mut self) {
        loop {
            let code = self.code();
            let live = self.live_after(&code);
            let needless = |i: &usize| {
                let node = &code.nodes[*i].1;
                is_pure(&node.insn)
                    && node.patch.is_none()
                    && effects::of(&node.insn).writes.iter().all(|r| !live[*i].contains(r))
            };
            let Some(i) = (0..code.nodes.len()).rev().find(needless) else { return };
            let (position, node) = &code.nodes[i];
            let unchanged = || vec![self.context.function.nodes[*position].clone()];
            let mut nodes = self.changes.get(position).cloned().unwrap_or_else(unchanged);
            nodes.retain(|n| n.id != node.id);
            self.changes.insert(*position, nodes);
        }
    }

    /// The changes as edits, one for each position.
    pub fn edits(self) -> Vec<Edit> {
        self.changes.into_iter().map(|(p, nodes)| Edit { at: p..p + 1, nodes }).collect()
    }

    fn code(&self) -> Code {
        let mut nodes = Vec::with_capacity(self.context.len());
        let mut first = Vec::with_capacity(self.context.len());
        for (p, node) in self.context.function.nodes.iter().enumerate() {
            first.push(nodes.len());
            match self.changes.get(&p) {
                Some(new) => nodes.extend(new.iter().map(|n| (p, n.clone()))),
                None => nodes.push((p, node.clone())),
            }
        }
        // Jumps to what is gone go to what follows it.
        let mut index: HashMap<InsnId, usize> = HashMap::new();
        index.extend(self.context.function.nodes.iter().zip(&first).map(|(node, i)| (node.id, *i)));
        index.extend(nodes.iter().enumerate().map(|(i, (_, node))| (node.id, i)));
        let next = nodes.iter().enumerate().map(|(i, (_, node))| {
            let falls = (!node.insn.ends_block()).then_some(i + 1);
            let jumps = node.insn.target().map(|t| index[t]);
            falls.into_iter().chain(jumps).filter(|s| *s < nodes.len()).collect()
        });
        Code { next: next.collect(), nodes }
    }

    /// Registers that matter after each instruction.
    fn live_after(&self, code: &Code) -> Vec<RegSet> {
        let uses: Vec<(RegSet, RegSet)> = code
            .nodes
            .iter()
            .map(|(p, node)| match node.insn {
                Insn::Call(_) => (self.context.reads[*p], RegSet::CALLER_SAVED),
                _ => (effects::of(&node.insn).reads, effects::of(&node.insn).writes),
            })
            .collect();
        let mut before = vec![RegSet::EMPTY; code.nodes.len()];
        let mut after = before.clone();
        loop {
            let mut is_stable = true;
            for i in (0..code.nodes.len()).rev() {
                after[i] = code.next[i].iter().fold(RegSet::EMPTY, |all, s| all.union(before[*s]));
                let live = after[i].minus(uses[i].1).union(uses[i].0);
                is_stable &= live == before[i];
                before[i] = live;
            }
            if is_stable {
                return after;
            }
        }
    }
}

/// Whether an instruction only computes.
fn is_pure(insn: &Insn) -> bool {
    use Insn::*;
    matches!(insn, Alu { .. } | Mov { .. } | MovSx { .. } | Neg { .. } | Endian { .. } | LoadImm { .. } | Load { .. })
}
