//! Which stretches of a function are worth a search, and what one looks like from outside.

use super::{pointers, slice};
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Function, Node, Program};
use karakoram_proof::facts::{Facts, StackBytes, State};
use std::ops::Range;

/// Instructions that follow each other: plain ones, branches out of the stretch, all to one place, and
/// forward jumps inside it. Control enters at the first only. Where the stretch lies in one block, its
/// instructions may have others between them that can be moved out of the way.
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
    /// For those that jump, which of the instructions is next then: one past the last is where control
    /// falls out at the end, two past it is where the branch goes.
    pub leads: Vec<Option<usize>>,
    /// What is known where they begin.
    pub state: State,
    /// Length in slots.
    pub slots: usize,
    /// Registers that hold something at its entry.
    pub live_in: RegSet,
    /// Where control goes when it falls out at the end.
    pub next: Exit,
    /// Its last branch out of it, and where control goes when that is taken.
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
        if range.is_empty() || range.end >= code.nodes.len() || !is_entered_at_first(facts, &range) {
            return None;
        }
        let nodes = &code.nodes[range.clone()];
        let fits = |n: &Node| n.patch.is_none() && (is_plain(&n.insn) || is_jump(&n.insn));
        if !nodes.iter().all(fits) || !facts.before[range.clone()].iter().all(Option::is_some) {
            return None;
        }
        let insns: Vec<Insn> = nodes.iter().map(|n| n.insn).collect();
        let (leads, outside) = leads(facts, &range, &insns)?;
        let exit = |p: usize| Exit { live: facts.live[p], live_stack: facts.live_stack[p] };
        let leaves = |i: usize| leads[i] == Some(insns.len() + 1) && matches!(insns[i], Insn::Branch { .. });
        let branch = match outside {
            Some(to) => Some((insns[(0..insns.len()).rev().find(|i| leaves(*i))?], exit(to))),
            None => None,
        };
        Some(Window {
            function,
            slots: insns.iter().map(Insn::slots).sum(),
            insns,
            leads,
            live_in: facts.live[range.start].with(Reg::FP),
            next: exit(range.end),
            branch,
            positions: range.clone().collect(),
            ahead: Vec::new(),
            behind: Vec::new(),
            state: facts.before[range.start].clone()?,
            range,
        })
    }

    /// Runs the original: the branches that are taken, one bit each, and whether the last way out is
    /// that of the branch.
    pub fn run<E>(&self, mut step: impl FnMut(&Insn) -> Result<bool, E>) -> Result<(u32, bool), E> {
        let (mut at, mut path) = (0, 0);
        while let Some(insn) = self.insns.get(at) {
            let jumps = step(insn)?;
            path |= (jumps as u32) << at;
            at = if jumps { self.leads[at].unwrap_or(at + 1) } else { at + 1 };
        }
        Ok((path, at > self.insns.len()))
    }

    /// Branches in it.
    pub fn branches(&self) -> usize {
        self.insns.iter().filter(|i| matches!(i, Insn::Branch { .. })).count()
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

/// Whether control comes to a stretch at its first instruction only.
fn is_entered_at_first(facts: &Facts, range: &Range<usize>) -> bool {
    let inside = |p: usize| facts.flow.predecessors[p].iter().all(|q| range.contains(q));
    (range.start + 1..range.end).all(inside)
}

/// Where the jumps of a stretch lead, see [`Window::leads`], and the only place outside that they lead
/// to besides its end; `None` when there are several, when one leads back, or when they hang on more
/// than numbers, from which the kernel would learn.
fn leads(facts: &Facts, range: &Range<usize>, insns: &[Insn]) -> Option<(Vec<Option<usize>>, Option<usize>)> {
    let (mut leads, mut outside) = (vec![None; insns.len()], None);
    let last = insns.len() - 1;
    for (i, insn) in insns.iter().enumerate() {
        let Some(target) = insn.target() else { continue };
        let to = *facts.flow.positions.get(target)?;
        let is_alone = i == last && insns[..last].iter().all(|i| i.target().is_none());
        if !is_alone && !compares_numbers(facts, range.start + i, insn) || to == range.end && is_alone {
            return None;
        }
        leads[i] = Some(if to == range.end || range.contains(&to) {
            if to <= range.start + i {
                return None;
            }
            to - range.start
        } else if *outside.get_or_insert(to) == to {
            insns.len() + 1
        } else {
            return None;
        });
    }
    Some((leads, outside))
}

fn compares_numbers(facts: &Facts, p: usize, insn: &Insn) -> bool {
    let is_number = |r: Reg| facts.before[p].as_ref().is_some_and(|s| pointers::is_number(&s.regs[r.index()]));
    effects::of(insn).reads.iter().all(is_number)
}

fn is_jump(insn: &Insn) -> bool {
    matches!(insn, Insn::Branch { .. } | Insn::Jump { .. })
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
            for end in start + 2..=facts.before.len().min(start + LONGEST) {
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
