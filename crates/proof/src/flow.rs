//! The control-flow graph of one function: basic blocks over layout positions.

use karakoram_bpf::insn::InsnId;
use karakoram_bpf::program::Function;
use std::collections::HashMap;
use std::ops::Range;

/// Blocks in layout order. Positions count instructions.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Positions of each block.
    pub blocks: Vec<Range<usize>>,
    /// Block of each position.
    pub block_of: Vec<usize>,
    /// Positions control may go to after each position.
    pub successors: Vec<Vec<usize>>,
    /// Positions control may come from before each position.
    pub predecessors: Vec<Vec<usize>>,
    /// Position of each identity.
    pub positions: HashMap<InsnId, usize>,
}

impl Flow {
    /// The graph of a function.
    pub fn of(function: &Function) -> Flow {
        let n = function.nodes.len();
        let positions = function.positions();
        let successors: Vec<Vec<usize>> = (0..n).map(|i| function.successors(i, &positions)).collect();
        let mut predecessors = vec![Vec::new(); n];
        let mut leader = vec![false; n + 1];
        leader[0] = true;
        for (i, next) in successors.iter().enumerate() {
            for s in next {
                predecessors[*s].push(i);
            }
            if function.nodes[i].insn.ends_block() || function.nodes[i].insn.target().is_some() {
                leader[i + 1] = true;
                next.iter().for_each(|s| leader[*s] = true);
            }
        }
        let mut blocks: Vec<Range<usize>> = Vec::new();
        let mut block_of = Vec::with_capacity(n);
        for (i, is_leader) in leader.iter().enumerate().take(n) {
            if *is_leader {
                blocks.push(i..i);
            }
            let last = blocks.len() - 1;
            blocks[last].end = i + 1;
            block_of.push(last);
        }
        Flow { blocks, block_of, successors, predecessors, positions }
    }

    /// Blocks in reverse post-order from the entry; unreachable ones are absent.
    pub fn reverse_post_order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.blocks.len()];
        let mut stack = vec![(0usize, 0usize)];
        if let Some(first) = seen.first_mut() {
            *first = true;
        } else {
            return order;
        }
        while let Some((block, child)) = stack.pop() {
            let next = &self.successors[self.blocks[block].end - 1];
            match next.get(child) {
                Some(s) => {
                    stack.push((block, child + 1));
                    let b = self.block_of[*s];
                    if !seen[b] {
                        seen[b] = true;
                        stack.push((b, 0));
                    }
                }
                None => order.push(block),
            }
        }
        order.reverse();
        order
    }
}
