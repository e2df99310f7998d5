//! Slots of the input that may be changed, as the code around them moves.

use super::SlotWindow;
use karakoram_bpf::insn::InsnId;
use karakoram_bpf::program::Program;
use std::collections::HashMap;
use std::ops::Range;

/// The instructions around the slots that may be changed.
#[derive(Clone, Copy)]
pub(super) struct Fence {
    before: Option<InsnId>,
    after: Option<InsnId>,
}

impl Fence {
    /// Around a window of a program.
    pub(super) fn around(program: &Program, window: &SlotWindow) -> Fence {
        let function = program.function(window.function);
        let offsets = function.slot_offsets();
        let inside = |i: usize| offsets[i] >= window.first && offsets[i + 1] <= window.last + 1;
        let n = function.nodes.len();
        let first = (0..n).find(|i| inside(*i)).unwrap_or(n);
        let last = (0..n).rev().find(|i| inside(*i)).map_or(first, |i| i + 1);
        let id = |i: usize| function.nodes.get(i).map(|n| n.id);
        Fence { before: first.checked_sub(1).and_then(id), after: id(last) }
    }

    /// What lies within, in a function of that length.
    pub(super) fn within(self, positions: &HashMap<InsnId, usize>, length: usize) -> Range<usize> {
        let at = |id: Option<InsnId>| id.and_then(|id| positions.get(&id).copied());
        at(self.before).map_or(0, |p| p + 1)..at(self.after).unwrap_or(length)
    }
}
