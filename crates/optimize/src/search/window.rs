//! Which stretches of a function are worth a search, and what one looks like from outside.

use super::slice;
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Function, Program};
use karakoram_proof::facts::{Facts, StackBytes, State};
use std::ops::Range;

/// A stretch of one block: plain instructions, of which the last may be a branch out of it. The
/// instructions that are searched may have others between them that can be moved out of the way.
#[derive(Clone, Debug)]
pub struct Window {
    /// The function.
    pub function: FuncId,
    /// The layout positions that it spans.
    pub range: Range<usize>,
    /// Positions of the instructions that are to be replaced, ascending.
    pub positions: Vec<usize>,
    /// Positions between them, of instructions that are to come before what replaces them.
    pub ahead: Vec<usize>,
    /// Positions between them, of instructions that are to come after.
    pub behind: Vec<usize>,
    /// The instructions that are to be replaced.
    pub insns: Vec<Insn>,
    /// What is known where they begin.
    pub state: State,
    /// Length in slots.
    pub slots: usize,
    /// Registers that hold something at its entry.
    pub live_in: RegSet,
    /// Where control goes when it falls out at the end.
    pub next: Exit,
    /// The branch at its end, and where control goes when that is taken.
    pub branch: Option<(Insn, Exit)>,
}

/// What matters after a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Registers.
    pub live: RegSet,
    /// Stack bytes.
    pub live_stack: StackBytes,
}

impl Window {
    /// The window at those positions, when it has the right shape.
    pub fn new(program: &Program, function: FuncId, facts: &Facts, range: Range<usize>) -> Option<Window> {
        let code = program.function(function);
        if range.is_empty() || range.end >= code.nodes.len() {
            return None;
        }
        let state = facts.before[range.start].clone()?;
        if facts.flow.block_of[range.start] != facts.flow.block_of[range.end - 1] {
            return None;
        }
        let nodes = &code.nodes[range.clone()];
        let (last, body) = nodes.split_last()?;
        if nodes.iter().any(|n| n.patched_at_load) || !body.iter().all(|n| is_plain(&n.insn)) {
            return None;
        }
        let exit = |p: usize| Exit { live: facts.live[p], live_stack: facts.live_stack[p] };
        let branch = match last.insn {
            Insn::Branch { target, .. } => {
                let to = *facts.flow.positions.get(&target)?;
                if to == range.end || range.contains(&to) {
                    return None;
                }
                Some((last.insn, exit(to)))
            }
            insn if is_plain(&insn) => None,
            _ => return None,
        };
        Some(Window {
            function,
            insns: nodes.iter().map(|n| n.insn).collect(),
            slots: nodes.iter().map(|n| n.insn.slots()).sum(),
            live_in: facts.live[range.start].with(Reg::FP),
            next: exit(range.end),
            branch,
            positions: range.clone().collect(),
            ahead: Vec::new(),
            behind: Vec::new(),
            state,
            range,
        })
    }

    /// Registers that it writes.
    pub fn writes(&self) -> RegSet {
        self.insns.iter().fold(RegSet::EMPTY, |all, i| all.union(effects::of(i).writes))
    }

    /// Registers that it reads.
    pub fn reads(&self) -> RegSet {
        self.insns.iter().fold(RegSet::EMPTY, |all, i| all.union(effects::of(i).reads))
    }

    /// Registers that matter after it, whatever way it is left.
    pub fn live_out(&self) -> RegSet {
        self.branch.map_or(RegSet::EMPTY, |(_, exit)| exit.live).union(self.next.live)
    }

    /// A lower bound on the instructions that any replacement needs: each sets one register at most.
    fn results(&self) -> usize {
        let set = self.writes();
        let registers = self.live_out().iter().filter(|r| set.contains(*r)).count();
        registers + self.insns.iter().any(|i| effects::of(i).writes_memory) as usize + self.branch.is_some() as usize
    }
}

/// Neither control flow nor an effect that others can time.
pub(super) fn is_plain(insn: &Insn) -> bool {
    !effects::of(insn).is_barrier
        && insn.target().is_none()
        && !matches!(insn, Insn::Exit | Insn::AddrCast { .. } | Insn::LoadImm { value: Imm64::Function(_), .. })
}

/// Longest window that is chosen without being asked for, in instructions.
pub const LONGEST: usize = 8;

/// All windows of a function that may be worth it, best first: those whose results need far fewer
/// instructions than they have, and of these the shorter ones.
pub fn choose(program: &Program, function: FuncId, facts: &Facts, within: Option<&Range<usize>>) -> Vec<Window> {
    let mut windows = Vec::new();
    for block in &facts.flow.blocks {
        for start in block.clone() {
            for end in start + 2..=block.end.min(start + LONGEST) {
                if within.is_some_and(|w| start < w.start || end > w.end) {
                    continue;
                }
                windows.extend(Window::new(program, function, facts, start..end));
            }
        }
    }
    windows.extend(slice::slices(program, function, facts, within));
    windows.retain(|w| w.results() < w.insns.len());
    windows.sort_by_key(|w| (w.results(), w.insns.len(), w.range.start));
    windows
}

/// The longest windows of a function, side by side: for a walk rather than an enumeration.
pub fn whole(program: &Program, function: FuncId, facts: &Facts, within: Option<&Range<usize>>) -> Vec<Window> {
    const LONGEST_WALKED: usize = 16;
    let mut windows = Vec::new();
    for block in &facts.flow.blocks {
        let (low, high) = within.map_or((block.start, block.end), |w| (block.start.max(w.start), block.end.min(w.end)));
        let mut start = low;
        while start + 1 < high {
            let ends = (start + 2..=high.min(start + LONGEST_WALKED)).rev();
            match ends.into_iter().find_map(|end| Window::new(program, function, facts, start..end)) {
                Some(window) => {
                    start = window.range.end;
                    windows.push(window);
                }
                None => start += 1,
            }
        }
    }
    windows
}

/// The positions of the instructions that lie in an inclusive range of slots.
pub fn positions_of_slots(function: &Function, first: usize, last: usize) -> Range<usize> {
    let offsets = function.slot_offsets();
    let n = function.nodes.len();
    let start = offsets[..n].partition_point(|o| *o < first);
    let end = offsets[..n].partition_point(|o| *o <= last);
    start..end.max(start)
}
