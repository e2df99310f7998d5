//! Which rules may apply at an instruction: a discrimination tree over the left-hand sides, read from
//! their last instruction along what it depends on. What it costs to ask depends on how much of the
//! code looks like a rule, not on the number of rules.

use super::template::{self, Role};
use super::{Rule, Variant};
use karakoram_bpf::insn::Insn;
use std::collections::HashMap;

/// A rule and one of its variants, by position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// The rule.
    pub rule: usize,
    /// The variant.
    pub variant: usize,
}

/// The tree.
#[derive(Debug, Default)]
pub struct Index {
    roots: HashMap<Insn, usize>,
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// Rules whose left-hand side has been found whole.
    complete: Vec<Entry>,
    /// What to look at next: the operand of which instruction found so far, and what wrote it.
    branches: Vec<((usize, Role), HashMap<Insn, usize>)>,
}

impl Index {
    /// The index over all variants.
    pub fn of(rules: &[Rule]) -> Index {
        let mut index = Index::default();
        for (rule, r) in rules.iter().enumerate() {
            for (variant, v) in r.variants.iter().enumerate() {
                index.insert(v, Entry { rule, variant });
            }
        }
        index
    }

    fn insert(&mut self, variant: &Variant, entry: Entry) {
        let shape = |step: usize| {
            template::shape(&variant.lhs[step].insn).expect("left-hand sides only have instructions with a shape")
        };
        let fresh = self.nodes.len();
        let mut at = *self.roots.entry(shape(variant.lhs.len() - 1)).or_insert(fresh);
        self.grow(at);
        for link in &variant.links {
            let question = (link.reader, link.role);
            let fresh = self.nodes.len();
            let branches = &mut self.nodes[at].branches;
            let branch = match branches.iter().position(|(q, _)| *q == question) {
                Some(i) => i,
                None => {
                    branches.push((question, HashMap::new()));
                    branches.len() - 1
                }
            };
            at = *branches[branch].1.entry(shape(link.step)).or_insert(fresh);
            self.grow(at);
        }
        self.nodes[at].complete.push(entry);
    }

    fn grow(&mut self, at: usize) {
        if at == self.nodes.len() {
            self.nodes.push(Node::default());
        }
    }

    /// Calls `found` for every variant whose instructions stand where operands lead from `last`.
    /// `insn` is the instruction at a position, `writer` the position that wrote an operand of one.
    /// The positions come in the order of [`Variant`]'s links, the last instruction first.
    pub fn find(
        &self,
        last: usize,
        insn: &dyn Fn(usize) -> Option<Insn>,
        writer: &dyn Fn(usize, Role) -> Option<usize>,
        found: &mut dyn FnMut(Entry, &[usize]),
    ) {
        let root = insn(last).and_then(|i| template::shape(&i)).and_then(|shape| self.roots.get(&shape));
        if let Some(root) = root {
            self.descend(*root, &mut vec![last], insn, writer, found);
        }
    }

    fn descend(
        &self,
        node: usize,
        path: &mut Vec<usize>,
        insn: &dyn Fn(usize) -> Option<Insn>,
        writer: &dyn Fn(usize, Role) -> Option<usize>,
        found: &mut dyn FnMut(Entry, &[usize]),
    ) {
        let node = &self.nodes[node];
        node.complete.iter().for_each(|entry| found(*entry, path));
        for ((reader, role), next) in &node.branches {
            let Some(position) = writer(path[*reader], *role) else { continue };
            let shape = insn(position).and_then(|i| template::shape(&i));
            if let Some(child) = shape.and_then(|s| next.get(&s)) {
                path.push(position);
                self.descend(*child, path, insn, writer, found);
                path.pop();
            }
        }
    }
}
