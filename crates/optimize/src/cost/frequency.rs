//! How often each instruction runs in a run of its function, from the shape of the code alone:
//! branch heuristics (Ball and Larus, "Branch Prediction for Free"; combined as in Wu and Larus,
//! "Static Branch Frequency and Program Profile Analysis"), then the flow equations.

use karakoram_bpf::insn::*;
use karakoram_bpf::program::Function;
use karakoram_proof::flow::Flow;

/// Probability that a branch stays in its loop.
const LOOP: f64 = 0.88;
/// Probability that a value is the constant it is compared with, and that it is zero.
const EQUAL: f64 = 0.4;
const ZERO: f64 = 0.2;
/// Probability of the side of a branch that leaves at once.
const LEAVES: f64 = 0.15;
/// Instructions after which a way out is no longer short.
const SHORT: usize = 5;
/// Rounds of the flow equations, and the change below which they have converged.
const SWEEPS: usize = 100;
const CONVERGED: f64 = 1e-6;

/// Estimates for one function, by position.
pub(super) struct Frequencies {
    /// Times an instruction runs when the function runs once.
    pub runs: Vec<f64>,
    /// Probability that a branch is taken; 1 for jumps, 0 for all that cannot jump.
    pub taken: Vec<f64>,
}

impl Frequencies {
    pub fn of(function: &Function) -> Frequencies {
        let flow = Flow::of(function);
        let order = flow.reverse_post_order();
        let mut rank = vec![usize::MAX; flow.blocks.len()];
        order.iter().enumerate().for_each(|(i, b)| rank[*b] = i);
        let goes_back = |p: usize, to: usize| rank[flow.block_of[to]] <= rank[flow.block_of[p]];
        let taken: Vec<f64> = (0..function.nodes.len()).map(|p| taken(function, &flow, p, &goes_back)).collect();
        let of_blocks = solve(&flow, &order, &taken, function);
        let runs = flow.block_of.iter().map(|b| of_blocks[*b]).collect();
        Frequencies { runs, taken }
    }
}

/// `goes_back` tells edges of loops by the shape of the graph: how code is laid out says nothing.
fn taken(function: &Function, flow: &Flow, p: usize, goes_back: &dyn Fn(usize, usize) -> bool) -> f64 {
    let Insn::Branch { cond, src, target, .. } = function.nodes[p].insn else {
        return matches!(function.nodes[p].insn, Insn::Jump { .. }) as u8 as f64;
    };
    let to = flow.positions[&target];
    match (goes_back(p, to), p + 1 < function.nodes.len() && goes_back(p, p + 1)) {
        (true, false) => return LOOP,
        (false, true) => return 1.0 - LOOP,
        _ => {}
    }
    let equal = if src == Operand::Imm(0) { ZERO } else { EQUAL };
    let mut probability = match cond {
        Condition::Eq => equal,
        Condition::Ne => 1.0 - equal,
        _ => 0.5,
    };
    match (leaves(function, flow, to), leaves(function, flow, p + 1)) {
        (true, false) => probability = combined(probability, LEAVES),
        (false, true) => probability = combined(probability, 1.0 - LEAVES),
        _ => {}
    }
    probability
}

/// Two independent pieces of evidence as one (Dempster and Shafer).
fn combined(a: f64, b: f64) -> f64 {
    a * b / (a * b + (1.0 - a) * (1.0 - b))
}

/// Whether control leaves the function soon, with nothing done on the way.
fn leaves(function: &Function, flow: &Flow, mut p: usize) -> bool {
    for _ in 0..SHORT {
        let Some(node) = function.nodes.get(p) else { return false };
        p = match node.insn {
            Insn::Exit => return true,
            Insn::Jump { target, .. } => flow.positions[&target],
            Insn::Mov { .. } | Insn::LoadImm { .. } | Insn::Alu { .. } => p + 1,
            _ => return false,
        };
    }
    false
}

/// Runs of each block.
fn solve(flow: &Flow, order: &[usize], taken: &[f64], function: &Function) -> Vec<f64> {
    let mut runs = vec![0.0; flow.blocks.len()];
    for _ in 0..SWEEPS {
        let mut change: f64 = 0.0;
        for &block in order {
            let start = flow.blocks[block].start;
            let into = |p: &usize| runs[flow.block_of[*p]] * share(flow, taken, function, *p, start);
            let sum = (start == 0) as u8 as f64 + flow.predecessors[start].iter().map(into).sum::<f64>();
            change = change.max((sum - runs[block]).abs() / sum.max(1.0));
            runs[block] = sum;
        }
        if change < CONVERGED {
            break;
        }
    }
    runs
}

/// Share of the runs of the instruction at `p` after which control is at `to`.
fn share(flow: &Flow, taken: &[f64], function: &Function, p: usize, to: usize) -> f64 {
    let jumps_there = function.nodes[p].insn.target().is_some_and(|t| flow.positions[t] == to);
    match (flow.successors[p].len(), jumps_there) {
        (1, _) => 1.0,
        (_, true) => taken[p],
        (_, false) => 1.0 - taken[p],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(code: &str) -> Vec<f64> {
        let program = karakoram_bpf::text::asm::parse(&format!(".func main\n.hook xdp\n{code}\n")).unwrap();
        Frequencies::of(&program.functions[0]).runs
    }

    #[test]
    fn straight_code_runs_once() {
        assert_eq!(runs("r0 = 1\nexit"), [1.0, 1.0]);
    }

    #[test]
    fn what_leaves_at_once_is_rare() {
        let runs = runs("r0 = 1\nif r1 > r2 goto out\n*(u64 *)(r10 - 8) = 1\nr0 = 2\nout:\nexit");
        assert!(runs[2] > 0.8 && runs[4] == 1.0, "{runs:?}");
    }

    #[test]
    fn jumping_backwards_is_no_loop() {
        let runs = runs("r0 = 9\ngoto start\nend:\nexit\nstart:\nif r1 s> r2 goto end\ncall 5\nr0 = 2\ngoto end");
        assert!(runs.iter().all(|r| *r <= 1.0), "{runs:?}");
    }

    #[test]
    fn loops_run_often() {
        let runs = runs("r0 = 9\nagain:\nr0 -= 1\nif r0 != 0 goto again\nexit");
        assert!((runs[1] - 1.0 / (1.0 - LOOP)).abs() < 0.01 && (runs[3] - 1.0).abs() < 0.01, "{runs:?}");
    }
}
