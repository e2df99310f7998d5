//! Rewrites: edits of one function inside a window.

use crate::flow::Flow;
use crate::refusal::Refusal;
use crate::symbolic::Code;
use karakoram_bpf::insn::{FuncId, InsnId};
use karakoram_bpf::program::{Function, Node};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Replaces the instructions at some positions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// Layout positions that are replaced; not empty.
    pub at: Range<usize>,
    /// What comes there. Identities of replaced instructions may be kept (with what hangs on them);
    /// new ones must not occur in the function.
    pub nodes: Vec<Node>,
}

/// A proposal: edits, and the window within which they are to be shown right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// The function.
    pub function: FuncId,
    /// Position where control enters the window.
    pub entry: usize,
    /// Positions that belong to the window, ascending and disjoint; they contain all edits.
    pub window: Vec<Range<usize>>,
    /// The edits, ascending and disjoint.
    pub edits: Vec<Edit>,
    /// Who proposes it: a rule or pass, for reports and `--skip-rule`.
    pub rule: String,
}

impl Rewrite {
    /// A rewrite of one contiguous stretch, which is its own window.
    pub fn of_range(function: FuncId, at: Range<usize>, nodes: Vec<Node>, rule: &str) -> Rewrite {
        Rewrite {
            function,
            entry: at.start,
            window: vec![at.clone()],
            edits: vec![Edit { at, nodes }],
            rule: rule.to_string(),
        }
    }

    /// Slots saved; negative when it grows the function.
    pub fn saved_slots(&self, function: &Function) -> i64 {
        let count = |nodes: &[Node]| nodes.iter().map(|n| n.insn.slots() as i64).sum::<i64>();
        self.edits.iter().map(|e| count(&function.nodes[e.at.clone()]) - count(&e.nodes)).sum()
    }

    /// Whether a position belongs to the window.
    pub fn contains(&self, position: usize) -> bool {
        self.window.iter().any(|r| r.contains(&position))
    }

    /// Instructions that the window executes at most, in both versions.
    pub fn size(&self) -> usize {
        self.window.iter().map(|r| r.len()).sum::<usize>() + self.edits.iter().map(|e| e.nodes.len()).sum::<usize>()
    }

    /// Checks the shape: everything that does not need to know what instructions mean.
    pub(crate) fn validate(&self, function: &Function, flow: &Flow) -> Result<(), Refusal> {
        let n = function.nodes.len();
        let ascending = |ranges: &[&Range<usize>]| {
            ranges.iter().all(|r| r.start < r.end && r.end <= n) && ranges.windows(2).all(|w| w[0].end <= w[1].start)
        };
        let window: Vec<&Range<usize>> = self.window.iter().collect();
        let edits: Vec<&Range<usize>> = self.edits.iter().map(|e| &e.at).collect();
        if !ascending(&window) || !ascending(&edits) || !self.contains(self.entry) {
            return Err(Refusal::Malformed("ranges are empty, out of order, or miss the entry"));
        }
        if !edits.iter().all(|e| window.iter().any(|w| w.start <= e.start && e.end <= w.end)) {
            return Err(Refusal::Malformed("an edit lies outside the window"));
        }
        let mut seen = HashSet::new();
        for node in self.edits.iter().flat_map(|e| &e.nodes) {
            let kept = flow.positions.get(&node.id).map(|p| (*p, edits.iter().any(|e| e.contains(p))));
            if !seen.insert(node.id) || matches!(kept, Some((_, false))) {
                return Err(Refusal::Malformed("an identity occurs twice"));
            }
            // The loader compares what it replaces with what the compiler put there.
            let mut window = self.window.iter().flat_map(|w| &function.nodes[w.clone()]);
            if node.patch.is_some() && !window.any(|n| n.is_patched_like(node)) {
                return Err(Refusal::Malformed("an instruction that the loader changes was altered"));
            }
        }
        Ok(())
    }

    /// Checks that control enters the window at one place, as far as edited code is concerned.
    pub(crate) fn validate_entry(&self, function: &Function, flow: &Flow) -> Result<(), Refusal> {
        let entry = &function.nodes[self.entry];
        let jumps_to_entry =
            flow.predecessors[self.entry].iter().any(|q| function.nodes[*q].insn.target() == Some(&entry.id));
        let moved = self
            .edits
            .iter()
            .any(|e| e.nodes.iter().enumerate().any(|(i, n)| n.id == entry.id && (i > 0 || e.at.start != self.entry)));
        if moved && jumps_to_entry {
            return Err(Refusal::Malformed("the target of a jump into the window was moved"));
        }
        if self.entry > 0 && self.contains(self.entry - 1) && !function.nodes[self.entry - 1].insn.ends_block() {
            return Err(Refusal::Malformed("the window falls through into its entry"));
        }
        self.check_single_entry(function, flow)
    }

    /// Edited code must only be reached through the window's entry: members from which control can
    /// come to an edit within the window (without passing the entry) have no other predecessors.
    fn check_single_entry(&self, function: &Function, flow: &Flow) -> Result<(), Refusal> {
        let mut affected: HashSet<usize> = self.edits.iter().flat_map(|e| e.at.clone()).collect();
        let mut pending: Vec<usize> = affected.iter().copied().collect();
        while let Some(p) = pending.pop() {
            if p == self.entry {
                continue;
            }
            if p == 0 {
                return Err(Refusal::SideEntry(function.nodes[p].id));
            }
            for q in &flow.predecessors[p] {
                if !self.contains(*q) {
                    return Err(Refusal::SideEntry(function.nodes[p].id));
                }
                if affected.insert(*q) {
                    pending.push(*q);
                }
            }
        }
        Ok(())
    }
}

/// The original inside a window.
pub(crate) struct Original<'a> {
    pub(crate) function: &'a Function,
    pub(crate) flow: &'a Flow,
    pub(crate) rewrite: &'a Rewrite,
}

impl Code for Original<'_> {
    type At = usize;

    fn node(&self, at: usize) -> &Node {
        &self.function.nodes[at]
    }
    fn next(&self, at: usize) -> Option<usize> {
        (at + 1 < self.function.nodes.len()).then_some(at + 1)
    }
    fn find(&self, id: InsnId) -> Option<usize> {
        self.flow.positions.get(&id).copied()
    }
    fn leaves(&self, at: usize) -> Option<InsnId> {
        (at == self.rewrite.entry || !self.rewrite.contains(at)).then(|| self.function.nodes[at].id)
    }
}

/// The function with the edits of one rewrite, without building it.
pub(crate) struct Edited<'a> {
    original: Original<'a>,
    new: HashMap<InsnId, (usize, usize)>,
}

/// A place in edited code: an original position, or an index into an edit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum At {
    Old(usize),
    New(usize, usize),
}

impl<'a> Edited<'a> {
    pub(crate) fn new(function: &'a Function, flow: &'a Flow, rewrite: &'a Rewrite) -> Edited<'a> {
        let mut new = HashMap::new();
        for (e, edit) in rewrite.edits.iter().enumerate() {
            for (i, node) in edit.nodes.iter().enumerate() {
                new.insert(node.id, (e, i));
            }
        }
        Edited { original: Original { function, flow, rewrite }, new }
    }

    /// Whether an identity occurs in an edit's new code.
    pub(crate) fn has_new(&self, id: InsnId) -> bool {
        self.new.contains_key(&id)
    }

    /// The place that takes the role of an original position.
    pub(crate) fn place(&self, mut position: usize) -> Option<At> {
        for (e, edit) in self.original.rewrite.edits.iter().enumerate() {
            if edit.at.start == position {
                if !edit.nodes.is_empty() {
                    return Some(At::New(e, 0));
                }
                position = edit.at.end;
            } else if edit.at.contains(&position) {
                return None;
            }
        }
        (position < self.original.function.nodes.len()).then_some(At::Old(position))
    }
}

impl Code for Edited<'_> {
    type At = At;

    fn node(&self, at: At) -> &Node {
        match at {
            At::Old(p) => &self.original.function.nodes[p],
            At::New(e, i) => &self.original.rewrite.edits[e].nodes[i],
        }
    }
    fn next(&self, at: At) -> Option<At> {
        match at {
            At::Old(p) => self.place(p + 1),
            At::New(e, i) if i + 1 < self.original.rewrite.edits[e].nodes.len() => Some(At::New(e, i + 1)),
            At::New(e, _) => self.place(self.original.rewrite.edits[e].at.end),
        }
    }
    fn find(&self, id: InsnId) -> Option<At> {
        match self.new.get(&id) {
            Some((e, i)) => Some(At::New(*e, *i)),
            None => self.place(*self.original.flow.positions.get(&id)?),
        }
    }
    fn leaves(&self, at: At) -> Option<InsnId> {
        let entry = self.original.rewrite.entry;
        match at {
            At::Old(p) => self.original.leaves(p),
            At::New(e, 0) if self.original.rewrite.edits[e].at.start == entry => {
                Some(self.original.function.nodes[entry].id)
            }
            At::New(..) => None,
        }
    }
}

/// The function with all edits of disjoint rewrites made. Jumps to removed instructions go to what
/// took their place.
pub fn splice(function: &Function, rewrites: &[&Rewrite]) -> Function {
    let mut edits: Vec<&Edit> = rewrites.iter().flat_map(|r| &r.edits).collect();
    edits.sort_by_key(|e| e.at.start);
    let mut nodes: Vec<Node> = Vec::with_capacity(function.nodes.len());
    // Removed identities, and the index in `nodes` of what follows them.
    let mut moved: HashMap<InsnId, usize> = HashMap::new();
    let mut position = 0;
    for edit in edits {
        nodes.extend_from_slice(&function.nodes[position..edit.at.start]);
        moved.insert(function.nodes[edit.at.start].id, nodes.len());
        nodes.extend(edit.nodes.iter().cloned());
        position = edit.at.end;
    }
    nodes.extend_from_slice(&function.nodes[position..]);
    let present: HashSet<InsnId> = nodes.iter().map(|n| n.id).collect();
    let targets: HashMap<InsnId, InsnId> = moved
        .into_iter()
        .filter(|(id, _)| !present.contains(id))
        .filter_map(|(id, at)| Some((id, nodes.get(at)?.id)))
        .collect();
    for node in &mut nodes {
        node.insn = node.insn.map(|t| targets.get(&t).copied().unwrap_or(t), |f| f);
    }
    Function { nodes, ..function.clone() }
}
