//! The function in the order that needs the fewest jumps, with the same code only once: blocks that do
//! the same are merged, however long they are, and branches are inverted where that saves a jump.

use crate::context::Context;
use crate::graph::{Block, End, Graph};
use crate::layout;
use crate::proposal::Proposal;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use karakoram_proof::rewrite::Edit;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let Some(graph) = Graph::of(context) else { return };
    let order = layout::order(&graph, &|b| inverted(context, &graph.blocks[b]).is_some());
    let nodes = Arrangement { context, graph: &graph, repeated: repeated(&graph) }.nodes(&order);
    if !fits(&nodes) {
        return;
    }
    let old = &context.function.nodes;
    let prefix = old.iter().zip(&nodes).take_while(|(a, b)| a == b).count();
    let most = old.len().min(nodes.len()) - prefix;
    let suffix = old.iter().rev().zip(nodes.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (at, nodes) = (prefix..old.len() - suffix, nodes[prefix..nodes.len() - suffix].to_vec());
    if !at.is_empty() {
        // Merged code may lie outside of what changes.
        out.push(Proposal::new("arrange", vec![Edit { at, nodes }]).with(0..old.len()).arranging());
    }
}

/// The branch at the end of a block with the opposite condition.
fn inverted(context: &Context, block: &Block) -> Option<Insn> {
    let last = *block.positions.last()?;
    match *context.insn(last) {
        Insn::Branch { width, cond, dst, src, target } if !context.is_patched(last) => {
            Some(Insn::Branch { width, cond: cond.negated()?, dst, src, target })
        }
        _ => None,
    }
}

/// Whether no jump is too far for 16 bits.
fn fits(nodes: &[Node]) -> bool {
    let mut offset = 0i64;
    let mut offsets = std::collections::HashMap::new();
    for node in nodes {
        offsets.insert(node.id, offset);
        offset += node.insn.slots() as i64;
    }
    offset <= i16::MAX as i64
        || nodes.iter().all(|n| n.insn.target().is_none_or(|t| (offsets[t] - offsets[&n.id]).abs() < i16::MAX as i64))
}

/// Blocks that are a mere exit and that no branch needs: an exit does as well as a jump there.
fn repeated(graph: &Graph) -> Vec<bool> {
    let mut repeated: Vec<bool> = graph.blocks.iter().map(is_exit).collect();
    repeated[0] = false;
    for block in &graph.blocks {
        if let End::Branch { taken, fallen } = block.end {
            (repeated[taken], repeated[fallen]) = (false, false);
        }
    }
    repeated
}

fn is_exit(block: &Block) -> bool {
    block.end == End::Exit && block.positions.len() == 1
}

/// The code for blocks in an order.
struct Arrangement<'a> {
    context: &'a Context<'a>,
    graph: &'a Graph,
    repeated: Vec<bool>,
}

impl Arrangement<'_> {
    fn nodes(&self, order: &[usize]) -> Vec<Node> {
        let falls = |b: usize, next: usize| self.graph.successors(b).any(|s| s == next);
        let is_kept = |i: usize| !self.repeated[order[i]] || i > 0 && falls(order[i - 1], order[i]);
        let kept: Vec<usize> = (0..order.len()).filter(|i| is_kept(*i)).map(|i| order[i]).collect();
        let mut nodes = Vec::with_capacity(self.context.len());
        for (i, b) in kept.iter().enumerate() {
            self.block(*b, kept.get(i + 1).copied(), &mut nodes);
        }
        nodes
    }

    fn block(&self, b: usize, following: Option<usize>, nodes: &mut Vec<Node>) {
        let block = &self.graph.blocks[b];
        nodes.extend(block.positions.iter().map(|p| self.context.function.nodes[*p].clone()));
        let go_on = |s: usize| (following != Some(s)).then(|| self.jump(s));
        match block.end {
            End::Exit => {}
            End::Next(s) => nodes.extend(go_on(s)),
            End::Branch { taken, fallen } => {
                let last = nodes.last_mut().expect("a branch is an instruction");
                let is_better = following == Some(taken) && following != Some(fallen);
                match inverted(self.context, block).filter(|_| is_better) {
                    Some(insn) => last.insn = insn.map(|_| self.first(fallen), |f| f),
                    None => {
                        last.insn = last.insn.map(|_| self.first(taken), |f| f);
                        nodes.extend(go_on(fallen));
                    }
                }
            }
        }
    }

    /// What leads to a block that is elsewhere.
    fn jump(&self, b: usize) -> Node {
        match is_exit(&self.graph.blocks[b]) {
            true => self.context.node(Insn::Exit),
            false => self.context.node(Insn::Jump { target: self.first(b), long: false }),
        }
    }

    fn first(&self, b: usize) -> InsnId {
        self.context.function.nodes[self.graph.blocks[b].positions[0]].id
    }
}
