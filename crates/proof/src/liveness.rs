//! Liveness: which registers and stack bytes still matter at each point.

use crate::bytes::{PacketBytes, StackBytes};
use crate::call::{CallModel, Known, Mode, Signature};
use crate::facts::Touched;
use crate::flow::Flow;
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Program;

/// For every function of a program, the argument registers it reads before writing them.
pub fn arguments(program: &Program) -> Vec<RegSet> {
    let mut known = vec![RegSet::ARGUMENTS; program.functions.len()];
    // Calls nest at most eight deep in programs that the kernel accepts; stopping early is safe.
    for _ in 0..8 {
        let next: Vec<RegSet> = (0..program.functions.len())
            .map(|i| {
                let function = FuncId(i as u32);
                let flow = Flow::of(program.function(function));
                let live = registers(program, function, &flow, &|f: FuncId| Signature {
                    reads: known[f.0 as usize],
                    returns: None,
                });
                live.first().map_or(RegSet::EMPTY, |l| l.minus(l.minus(RegSet::ARGUMENTS)))
            })
            .collect();
        if next == known {
            break;
        }
        known = next;
    }
    known
}

/// Registers that matter before each position.
pub(crate) fn registers(
    program: &Program,
    function: FuncId,
    flow: &Flow,
    signature: &dyn Fn(FuncId) -> Signature,
) -> Vec<RegSet> {
    let nodes = &program.function(function).nodes;
    let uses: Vec<(RegSet, RegSet)> = nodes
        .iter()
        .map(|node| {
            let e = effects::of(&node.insn);
            match node.insn {
                Insn::Call(callee) => {
                    let model = CallModel::of(program, callee, &|_| Known::default(), signature);
                    (model.reads, e.writes)
                }
                _ => (e.reads, e.writes),
            }
        })
        .collect();
    backward(flow, RegSet::EMPTY, RegSet::EMPTY, |i, after| after.minus(uses[i].1).union(uses[i].0), |a, b| a.union(*b))
}

/// Stack bytes that matter before each position.
pub(crate) fn stack(flow: &Flow, touched: &[Vec<Touched>]) -> Vec<StackBytes> {
    bytes(flow, touched, false, StackBytes::NONE)
}

/// Packet bytes that matter before each position. Where the function ends all do.
pub(crate) fn packet(flow: &Flow, touched: &[Vec<Touched>]) -> Vec<PacketBytes> {
    bytes(flow, touched, true, StackBytes::ALL).into_iter().map(PacketBytes).collect()
}

/// Bytes of the packet or else the stack; `end` are those that matter where the function ends.
fn bytes(flow: &Flow, touched: &[Vec<Touched>], in_packet: bool, end: StackBytes) -> Vec<StackBytes> {
    let base = if in_packet { PacketBytes::BASE } else { 0 };
    let uses: Vec<(StackBytes, StackBytes)> = touched
        .iter()
        .map(|accesses| {
            let (mut reads, mut writes) = (StackBytes::NONE, StackBytes::NONE);
            for t in accesses.iter().filter(|t| t.in_packet == in_packet) {
                let place = |at: i64| at.saturating_add(base);
                let bytes = t.range.map(|(from, to)| StackBytes::range(place(from), place(to)));
                match (t.mode, bytes) {
                    (Mode::Write, b) => writes = writes.union(&b.unwrap_or_default()),
                    (_, b) => reads = reads.union(&b.unwrap_or(StackBytes::ALL)),
                }
            }
            (reads, writes)
        })
        .collect();
    let transfer = |i: usize, after: StackBytes| after.minus(&uses[i].1).union(&uses[i].0);
    backward(flow, StackBytes::NONE, end, transfer, |a, b| a.union(b))
}

/// Solves a backward data-flow problem over positions: `before = transfer(position, after)`; `end` is
/// what holds after instructions that nothing follows.
fn backward<T: Clone + PartialEq>(
    flow: &Flow,
    empty: T,
    end: T,
    transfer: impl Fn(usize, T) -> T,
    union: impl Fn(&T, &T) -> T,
) -> Vec<T> {
    let n = flow.successors.len();
    let mut before = vec![empty.clone(); n];
    let mut pending: std::collections::BTreeSet<usize> = (0..flow.blocks.len()).collect();
    while let Some(block) = pending.pop_last() {
        let range = flow.blocks[block].clone();
        let old = before[range.start].clone();
        for i in range.clone().rev() {
            let next = &flow.successors[i];
            let start = if next.is_empty() { end.clone() } else { empty.clone() };
            let after = next.iter().fold(start, |all, s| union(&all, &before[*s]));
            before[i] = transfer(i, after);
        }
        if before[range.start] != old {
            pending.extend(flow.predecessors[range.start].iter().map(|p| flow.block_of[*p]));
        }
    }
    before
}
