//! Where every byte of the code sections goes.

use crate::code::SLOT_BYTES;
use crate::object::Object;
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use std::collections::BTreeMap;
use std::ops::Range;

/// A function or opaque stretch.
pub(super) struct Piece {
    /// Its function; `None` for code that is kept.
    pub function: Option<FuncId>,
    /// Bytes of the input's section.
    pub old: Range<u64>,
    /// Bytes of the new section.
    pub new: Range<u64>,
    /// Old and new offset of every instruction of the input; of deleted ones the new offset of the
    /// next that is left. Empty for code that is kept.
    steps: Vec<(u64, u64)>,
}

/// Old and new places of all code.
pub(super) struct Layout {
    sections: BTreeMap<usize, Vec<Piece>>,
    /// By function.
    starts: Vec<u64>,
}

impl Layout {
    pub fn new(object: &Object, program: &Program) -> Layout {
        let mut places: Vec<(usize, Range<u64>, Option<FuncId>)> = Vec::new();
        for (i, origin) in object.origins.iter().enumerate() {
            places.push((origin.section, origin.range.clone(), Some(FuncId(i as u32))));
        }
        places.extend(object.opaque.iter().map(|o| (o.section, o.range.clone(), None)));
        places.sort_by_key(|(section, range, _)| (*section, range.start));
        let mut layout = Layout { sections: BTreeMap::new(), starts: vec![0; object.origins.len()] };
        for (section, old, function) in places {
            let pieces = layout.sections.entry(section).or_default();
            let start = pieces.last().map_or(0, |p| p.new.end);
            let piece = match function {
                None => Piece { function, new: start..start + (old.end - old.start), old, steps: Vec::new() },
                Some(id) => {
                    layout.starts[id.0 as usize] = start;
                    function_piece(object, program, id, old, start)
                }
            };
            pieces.push(piece);
        }
        layout
    }

    /// The code sections.
    pub fn sections(&self) -> impl Iterator<Item = usize> + '_ {
        self.sections.keys().copied()
    }

    /// Whether it is a code section.
    pub fn contains(&self, section: usize) -> bool {
        self.sections.contains_key(&section)
    }

    /// The parts of a code section, in order.
    pub fn pieces(&self, section: usize) -> &[Piece] {
        self.sections.get(&section).map_or(&[], Vec::as_slice)
    }

    /// New offset of a function in its section.
    pub fn start(&self, function: FuncId) -> u64 {
        self.starts[function.0 as usize]
    }

    /// New place of an offset of the input.
    pub fn moved(&self, section: usize, offset: u64) -> u64 {
        let pieces = self.pieces(section);
        let n = pieces.partition_point(|p| p.old.end <= offset);
        match pieces.get(n) {
            Some(piece) => piece.moved(offset),
            // Ends of sections, and what lies outside of them.
            None => match pieces.last() {
                Some(last) => offset.wrapping_sub(last.old.end).wrapping_add(last.new.end),
                None => offset,
            },
        }
    }
}

impl Piece {
    fn moved(&self, offset: u64) -> u64 {
        let step = self.steps.partition_point(|(old, _)| *old <= offset);
        match step.checked_sub(1) {
            // The function begins where it begins, whatever became of its first instruction.
            Some(0) | None if offset == self.old.start => self.new.start,
            Some(n) => self.steps[n].1,
            None => offset - self.old.start + self.new.start,
        }
    }
}

fn function_piece(object: &Object, program: &Program, id: FuncId, old: Range<u64>, start: u64) -> Piece {
    let (before, after) = (object.program.function(id), program.function(id));
    let offsets = after.slot_offsets();
    let positions = after.positions();
    let end = start + after.slots() as u64 * SLOT_BYTES;
    let mut steps = Vec::with_capacity(before.nodes.len());
    let mut next = end;
    for (node, slot) in before.nodes.iter().zip(before.slot_offsets()).rev() {
        if let Some(position) = positions.get(&node.id) {
            next = start + offsets[*position] as u64 * SLOT_BYTES;
        }
        steps.push((old.start + slot as u64 * SLOT_BYTES, next));
    }
    steps.reverse();
    Piece { function: Some(id), old, new: start..end, steps }
}
