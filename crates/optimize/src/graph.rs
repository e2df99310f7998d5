//! A function without its layout: what it does in which order, and the same code only once. Unconditional
//! jumps are gone, and instructions that are the same with the same code behind them are one.

use crate::context::Context;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Patch;
use std::collections::HashMap;

/// Straight-line code, and what comes behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Positions of its instructions; a branch or an exit is the last of them.
    pub positions: Vec<usize>,
    /// Where control goes then.
    pub end: End,
}

/// How a block ends; blocks by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With an exit.
    Exit,
    /// In the code that follows.
    Next(usize),
    /// With a branch.
    Branch {
        /// Where it jumps to.
        taken: usize,
        /// Where it goes when it does not jump.
        fallen: usize,
    },
}

/// Blocks; the function begins with the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// All of them, by their first positions.
    pub blocks: Vec<Block>,
}

/// What makes two instructions the same: what they do, and the code behind them.
#[derive(PartialEq, Eq, Hash)]
enum Sort {
    /// Not the same as any other.
    Alone(usize),
    Alike(Insn<(), FuncId>, Option<Patch>, Vec<Successor>),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Successor {
    Class(usize),
    /// Control goes backwards to that position.
    Back(usize),
}

impl Graph {
    /// The graph of a function; nothing for one that jumps in circles or runs past its end.
    pub fn of(context: &Context) -> Option<Graph> {
        let successors = successors(context)?;
        let start = through_jumps(context, 0)?;
        let chosen = chosen(context, &successors, start);
        let next = |p: usize| successors[p].iter().map(|s| chosen[s]).collect::<Vec<usize>>();
        let mut members: Vec<usize> = chosen.values().copied().collect();
        members.sort_unstable();
        members.dedup();
        let mut entered = HashMap::from([(chosen[&start], 2)]);
        members.iter().for_each(|p| next(*p).into_iter().for_each(|s| *entered.entry(s).or_insert(0) += 1));
        let begins = |p: &usize| entered[p] != 1;
        let ends = |p: usize| match next(p).as_slice() {
            [s] => begins(s),
            _ => true,
        };
        // What a branch leads to begins a block, too.
        let behind = members.iter().filter(|p| next(**p).len() > 1).flat_map(|p| next(*p));
        let mut firsts: Vec<usize> = members.iter().copied().filter(begins).chain(behind).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let first = firsts.iter().position(|p| *p == chosen[&start])?;
        firsts.swap(0, first);
        firsts[1..].sort_unstable();
        let number: HashMap<usize, usize> = firsts.iter().enumerate().map(|(i, p)| (*p, i)).collect();
        let blocks = firsts.iter().map(|first| {
            let mut positions = vec![*first];
            let mut last = *first;
            while !ends(last) {
                last = next(last)[0];
                positions.push(last);
            }
            let end = match next(last).as_slice() {
                [] => End::Exit,
                [s] => End::Next(number[s]),
                [taken, fallen, ..] => End::Branch { taken: number[taken], fallen: number[fallen] },
            };
            Block { positions, end }
        });
        Some(Graph { blocks: blocks.collect() })
    }

    /// Where control may go from a block.
    pub fn successors(&self, block: usize) -> impl Iterator<Item = usize> + use<> {
        let (a, b) = match self.blocks[block].end {
            End::Exit => (None, None),
            End::Next(s) => (Some(s), None),
            End::Branch { taken, fallen } => (Some(fallen), Some(taken)),
        };
        a.into_iter().chain(b)
    }
}

/// Where control goes from each position: of branches first where they jump to.
fn successors(context: &Context) -> Option<Vec<Vec<usize>>> {
    let of = |p: usize| {
        let insn = context.insn(p);
        let target = insn.target().map(|t| through_jumps(context, context.facts.flow.positions[t]));
        let next = (!insn.ends_block()).then(|| through_jumps(context, p + 1));
        target.into_iter().chain(next).collect::<Option<Vec<usize>>>()
    };
    (0..context.len()).map(of).collect()
}

/// The first instruction at or behind a position that is no jump.
fn through_jumps(context: &Context, mut p: usize) -> Option<usize> {
    for _ in 0..=context.len() {
        match context.function.nodes.get(p)?.insn {
            Insn::Jump { target, .. } if !context.is_patched(p) => p = context.facts.flow.positions[&target],
            _ => return Some(p),
        }
    }
    None
}

/// For each position that control can come to, the first one that does the same from there on.
fn chosen(context: &Context, successors: &[Vec<usize>], start: usize) -> HashMap<usize, usize> {
    let mut classes: HashMap<Sort, usize> = HashMap::new();
    let mut class_of: HashMap<usize, usize> = HashMap::new();
    let mut first: Vec<usize> = Vec::new();
    for p in post_order(successors, start) {
        let sort = sort(context, p, &successors[p], &class_of);
        let class = *classes.entry(sort).or_insert(first.len());
        if class == first.len() {
            first.push(p);
        }
        first[class] = first[class].min(p);
        class_of.insert(p, class);
    }
    class_of.into_iter().map(|(p, class)| (p, first[class])).collect()
}

fn sort(context: &Context, p: usize, successors: &[usize], class_of: &HashMap<usize, usize>) -> Sort {
    let successor = |s: &usize| class_of.get(s).map_or(Successor::Back(*s), |c| Successor::Class(*c));
    let mut behind: Vec<Successor> = successors.iter().map(successor).collect();
    let mut insn = context.insn(p).map(|_| (), |f| f);
    let patch = context.function.nodes[p].patch;
    if patch.is_some() && insn.target().is_some() || matches!(insn, Insn::Jump { .. }) {
        return Sort::Alone(p);
    }
    if let Insn::Branch { cond, .. } = &mut insn
        && let Some(negated) = cond.negated().filter(|n| n < cond)
    {
        *cond = negated;
        behind.reverse();
    }
    Sort::Alike(insn, patch, behind)
}

/// Positions that control can come to, each after those behind it, but for loops.
fn post_order(successors: &[Vec<usize>], start: usize) -> Vec<usize> {
    let (mut order, mut seen) = (Vec::new(), vec![false; successors.len()]);
    seen[start] = true;
    let mut stack = vec![(start, 0)];
    while let Some((p, child)) = stack.pop() {
        let Some(&s) = successors[p].get(child) else {
            order.push(p);
            continue;
        };
        stack.push((p, child + 1));
        if !std::mem::replace(&mut seen[s], true) {
            stack.push((s, 0));
        }
    }
    order
}
