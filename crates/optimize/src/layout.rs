//! An order of blocks in which as many as possible fall into one that comes behind them: a maximum
//! matching of blocks with blocks that may follow them, loops cut where control goes backwards.
//! (Kuhn's algorithm for the assignment problem, on a graph with at most two choices for each.)

use crate::graph::{End, Graph};

/// Steps of the search for better matches, for each block.
const STEPS_PER_BLOCK: usize = 200;

/// The blocks in their new order. `may_invert` tells whether the branch that ends a block can also jump
/// where it fell through; blocks that fell through to another do so if nothing speaks against it.
pub fn order(graph: &Graph, may_invert: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let back = back_edges(graph);
    let n = graph.blocks.len();
    let choices: Vec<Vec<usize>> = (0..n)
        .map(|b| {
            let all = match graph.blocks[b].end {
                End::Exit => Vec::new(),
                End::Next(s) => vec![s],
                End::Branch { taken, fallen } if may_invert(b) => vec![fallen, taken],
                End::Branch { fallen, .. } => vec![fallen],
            };
            all.into_iter().filter(|s| *s != 0 && !back.contains(&(b, *s))).collect()
        })
        .collect();
    let mut matching = Matching { choices: &choices, before: vec![None; n], tried: vec![usize::MAX; n], steps: 0 };
    for (b, block) in graph.blocks.iter().enumerate() {
        let last = *block.positions.last().expect("no block is empty");
        let beside = |s: &&usize| graph.blocks[**s].positions[0] == last + 1;
        if let Some(s) = choices[b].iter().find(beside) {
            matching.before[*s] = Some(b);
        }
    }
    let mut has_next = vec![false; n];
    matching.before.iter().flatten().for_each(|b| has_next[*b] = true);
    for b in (0..n).filter(|b| !has_next[*b]) {
        matching.steps = n.min(1_000) * STEPS_PER_BLOCK;
        matching.match_up(b, b);
    }
    chained(&matching.before)
}

struct Matching<'a> {
    choices: &'a [Vec<usize>],
    /// The block directly before each.
    before: Vec<Option<usize>>,
    /// The attempt in which a block was looked at last.
    tried: Vec<usize>,
    steps: usize,
}

impl Matching<'_> {
    /// Finds a block to come behind `b`, moving others where they have another choice.
    fn match_up(&mut self, b: usize, attempt: usize) -> bool {
        // Each step is a block that could not stay where it was, and the one it is to be before.
        let mut path: Vec<(usize, usize)> = vec![(b, 0)];
        while let Some((at, choice)) = path.pop() {
            let Some(&s) = self.choices[at].get(choice) else { continue };
            path.push((at, choice + 1));
            self.steps = self.steps.saturating_sub(1);
            if self.steps == 0 {
                return false;
            }
            if std::mem::replace(&mut self.tried[s], attempt) == attempt {
                continue;
            }
            let Some(other) = self.before[s] else {
                path.iter().for_each(|(at, next)| self.before[self.choices[*at][next - 1]] = Some(*at));
                return true;
            };
            path.push((other, 0));
        }
        false
    }
}

/// The blocks of each chain together, chains by their first blocks.
fn chained(before: &[Option<usize>]) -> Vec<usize> {
    let mut behind = vec![None; before.len()];
    before.iter().enumerate().for_each(|(s, b)| _ = b.map(|b| behind[b] = Some(s)));
    let mut order = Vec::with_capacity(before.len());
    for head in (0..before.len()).filter(|b| before[*b].is_none()) {
        order.extend(std::iter::successors(Some(head), |b| behind[*b]));
    }
    order
}

/// Edges that lead back to where a walk through the graph came from.
fn back_edges(graph: &Graph) -> std::collections::HashSet<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Not,
        Open,
        Done,
    }
    let mut visits = vec![Visit::Not; graph.blocks.len()];
    let mut back = std::collections::HashSet::new();
    visits[0] = Visit::Open;
    let mut stack = vec![(0, graph.successors(0))];
    while let Some((b, mut rest)) = stack.pop() {
        let Some(s) = rest.next() else {
            visits[b] = Visit::Done;
            continue;
        };
        stack.push((b, rest));
        match visits[s] {
            Visit::Not => {
                visits[s] = Visit::Open;
                stack.push((s, graph.successors(s)));
            }
            Visit::Open => _ = back.insert((b, s)),
            Visit::Done => {}
        }
    }
    back
}
