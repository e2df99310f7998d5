//! Proposals: edits, and how much code around them they need to be shown right.

use crate::context::Context;
use crate::cost::{Cost, Prices};
use karakoram_proof::rewrite::Edit;
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
    /// Set when code is only arranged differently (moved, copied, merged): the window then is the edits
    /// and what was asked for, however many ways lead into it.
    pub arranges: bool,
}

impl Proposal {
    /// A proposal whose window need not be larger than its edits span.
    pub fn new(rule: &'static str, mut edits: Vec<Edit>) -> Proposal {
        edits.sort_by_key(|e| e.at.start);
        let from = edits.first().map_or(0, |e| e.at.start);
        Proposal { rule, edits, from, needs: Vec::new(), shortens: false, arranges: false }
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

    /// The same, to be proven by its structure alone.
    pub fn arranging(mut self) -> Proposal {
        self.arranges = true;
        self
    }

    /// What it replaces costs, and what it puts there.
    pub fn costs(&self, context: &Context, prices: &Prices) -> (Cost, Cost) {
        prices.of_edits(context.function, &self.edits)
    }

    /// Whether it makes the function cheaper.
    pub fn is_gain(&self, context: &Context, prices: &Prices) -> bool {
        let (old, new) = self.costs(context, prices);
        new < old || self.shortens && new == old
    }
}

/// The edits that make `nodes` out of the instructions at ascending `positions`: `None` deletes.
pub fn edits(changes: Vec<(usize, Option<karakoram_bpf::program::Node>)>) -> Vec<Edit> {
    let mut changes = changes;
    changes.sort_by_key(|(p, _)| *p);
    changes.into_iter().map(|(p, node)| Edit { at: p..p + 1, nodes: node.into_iter().collect() }).collect()
}
