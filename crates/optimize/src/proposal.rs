//! Proposals: edits, and how much code around them they need to be shown right.

use crate::context::Context;
use crate::cost::{Cost, Prices};
use karakoram_bpf::program::Node;
use karakoram_proof::rewrite::Edit;
use std::collections::BTreeMap;
use std::ops::Range;

/// Edits that belong together.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// Who proposes it.
    pub rule: &'static str,
    /// The edits, ascending and disjoint.
    pub edits: Vec<Edit>,
    /// The window begins at or before this position.
    pub from: usize,
    /// Positions, besides the edits, that the window contains.
    pub needs: Vec<Range<usize>>,
    /// Set when a jump comes to go directly where it went in two steps. That costs the same and can
    /// only be done finitely often.
    pub shortens: bool,
    /// Set when it may be taken though it makes nothing shorter, as long as it makes nothing longer,
    /// because it lets other passes go on. That can only be done finitely often.
    pub enables: bool,
    /// Set when code is only arranged differently (moved, copied, merged): the window then is the edits
    /// and what was asked for, however many ways lead into it.
    pub arranges: bool,
    /// How much more than usual its window may take to judge. More than 1 only where proposals are few.
    pub patience: usize,
}

impl Proposal {
    /// A proposal whose window need not be larger than its edits span.
    pub fn new(rule: &'static str, mut edits: Vec<Edit>) -> Proposal {
        edits.sort_by_key(|e| e.at.start);
        let from = edits.first().map_or(0, |e| e.at.start);
        Proposal { rule, edits, from, needs: Vec::new(), shortens: false, enables: false, arranges: false, patience: 1 }
    }

    /// The same with a window that begins at or before `position`.
    pub fn since(mut self, position: usize) -> Proposal {
        self.from = self.from.min(position);
        self
    }

    /// The same with a window that contains `positions`.
    pub fn with(mut self, positions: Range<usize>) -> Proposal {
        self.needs.push(positions);
        self
    }

    /// The same with a window that contains each of `positions`.
    pub fn across(self, positions: impl IntoIterator<Item = usize>) -> Proposal {
        positions.into_iter().fold(self, |proposal, p| proposal.with(p..p + 1))
    }

    /// The same, to be proven by its structure alone.
    pub fn arranging(mut self) -> Proposal {
        self.arranges = true;
        self
    }

    /// What it replaces costs, and what it puts there.
    pub fn costs(&self, context: &Context, prices: &Prices) -> (Cost, Cost) {
        prices.of_edits(context.function, &self.edits)
    }

    /// Slots by which the function grows.
    pub fn growth(&self, context: &Context) -> i64 {
        let slots = |nodes: &[Node]| nodes.iter().map(|n| n.insn.slots() as i64).sum::<i64>();
        self.edits.iter().map(|e| slots(&e.nodes) - slots(&context.function.nodes[e.at.clone()])).sum()
    }

    /// Whether it makes the function cheaper.
    pub fn is_gain(&self, context: &Context, prices: &Prices) -> bool {
        let (old, new) = self.costs(context, prices);
        new < old || self.shortens && new == old || self.enables && self.growth(context) <= 0
    }
}

/// The edits that make `nodes` out of the instructions at ascending `positions`: `None` deletes.
pub fn edits(changes: Vec<(usize, Option<Node>)>) -> Vec<Edit> {
    let mut changes = changes;
    changes.sort_by_key(|(p, _)| *p);
    changes.into_iter().map(|(p, node)| Edit { at: p..p + 1, nodes: node.into_iter().collect() }).collect()
}

/// What comes in place of single instructions, collected one by one.
#[derive(Clone, Debug, Default)]
pub struct Changes(BTreeMap<usize, Vec<Node>>);

impl Changes {
    /// Leaves out the instruction at a position.
    pub fn delete(&mut self, position: usize) {
        self.replace(position, Vec::new());
    }

    /// Puts instructions in the place of the one at a position.
    pub fn replace(&mut self, position: usize, nodes: Vec<Node>) {
        self.0.insert(position, nodes);
    }

    /// Whether the instruction at a position is left out.
    pub fn deletes(&self, position: usize) -> bool {
        self.0.get(&position).is_some_and(Vec::is_empty)
    }

    /// Whether something changes at a position.
    pub fn touches(&self, position: usize) -> bool {
        self.0.contains_key(&position)
    }

    /// All of them as edits of one rule.
    pub fn proposal(self, rule: &'static str) -> Proposal {
        Proposal::new(rule, self.0.into_iter().map(|(p, nodes)| Edit { at: p..p + 1, nodes }).collect())
    }
}
