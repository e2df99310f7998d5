//! A walk through one block that knows which instruction of the block wrote each register.

use crate::context::Context;
use karakoram_bpf::insn::{Insn, Reg, Size};
use karakoram_proof::facts::{Kind, Root};
use std::collections::HashMap;
use std::ops::Range;

/// What an address is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Base {
    /// A quantity that the facts have a name for.
    Root(Root),
    /// What a register held since that position (`None`: since the block began).
    Held(Reg, Option<usize>),
}

/// An address and how many bytes are accessed there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// What it is relative to.
    pub base: Base,
    /// Distance.
    pub offset: i64,
    /// How much.
    pub size: Size,
}

/// Who writes and who reads what inside a block.
pub struct Block<'c, 'a> {
    context: &'c Context<'a>,
    /// Its positions.
    pub range: Range<usize>,
    /// For each position, who wrote each register before it.
    writers: Vec<[Option<usize>; Reg::COUNT]>,
    readers: HashMap<(usize, Reg), Vec<usize>>,
}

impl<'c, 'a> Block<'c, 'a> {
    /// Walks through a block.
    pub fn new(context: &'c Context<'a>, range: Range<usize>) -> Block<'c, 'a> {
        let mut writers = Vec::with_capacity(range.len());
        let mut current = [None; Reg::COUNT];
        let mut readers: HashMap<(usize, Reg), Vec<usize>> = HashMap::new();
        for p in range.clone() {
            writers.push(current);
            for r in context.reads[p].iter() {
                if let Some(w) = current[r.index()] {
                    readers.entry((w, r)).or_default().push(p);
                }
            }
            context.writes[p].iter().for_each(|r| current[r.index()] = Some(p));
        }
        for r in context.live_after(range.end - 1).iter() {
            if let Some(w) = current[r.index()] {
                // Read somewhere after the block.
                readers.entry((w, r)).or_default().push(usize::MAX);
            }
        }
        Block { context, range, writers, readers }
    }

    /// All blocks that executions come to.
    pub fn all(context: &'c Context<'a>) -> impl Iterator<Item = Block<'c, 'a>> {
        let blocks = context.facts.flow.blocks.iter().filter(|b| context.facts.is_reachable(b.start));
        blocks.map(move |b| Block::new(context, b.clone()))
    }

    /// Which instruction of the block wrote a register last, before a position.
    pub fn writer(&self, position: usize, reg: Reg) -> Option<usize> {
        self.writers[position - self.range.start][reg.index()]
    }

    /// Who reads what the instruction at a position wrote; `usize::MAX` for code after the block.
    pub fn readers(&self, position: usize, reg: Reg) -> &[usize] {
        self.readers.get(&(position, reg)).map_or(&[], Vec::as_slice)
    }

    /// The address `reg + off` as seen at a position.
    pub fn place(&self, position: usize, reg: Reg, off: i16, size: Size) -> Place {
        match self.context.fact(position, reg) {
            Some(fact) if fact.root.is_some() && matches!(fact.kind, Kind::Pointer { .. }) => Place {
                base: Base::Root(fact.root.expect("asked above")),
                offset: (fact.delta as i64).wrapping_add(off as i64),
                size,
            },
            _ => Place { base: Base::Held(reg, self.writer(position, reg)), offset: off as i64, size },
        }
    }

    /// Where a plain load or store goes.
    pub fn access(&self, position: usize) -> Option<Place> {
        match *self.context.insn(position) {
            _ if self.context.is_patched(position) => None,
            Insn::Load { base, off, size, signed: false, .. } => Some(self.place(position, base, off, size)),
            Insn::Store { base, off, size, .. } => Some(self.place(position, base, off, size)),
            _ => None,
        }
    }

    /// A register and distance that reach a place from a position.
    pub fn reach(&self, position: usize, place: &Place) -> Option<(Reg, i16)> {
        let live = self.context.facts.live[position];
        self.reach_through(position, place, |r| live.contains(r) || r == Reg::FP)
    }

    /// The same with any register but one, also with one that does not matter there any more.
    pub fn reach_without(&self, position: usize, place: &Place, not: Reg) -> Option<(Reg, i16)> {
        self.reach_through(position, place, |r| r != not)
    }

    fn reach_through(&self, position: usize, place: &Place, may: impl Fn(Reg) -> bool) -> Option<(Reg, i16)> {
        // The frame pointer is always there.
        std::iter::once(Reg::FP).chain(Reg::all()).filter(|r| may(*r)).find_map(|r| {
            let here = self.place(position, r, 0, place.size);
            let distance = place.offset.wrapping_sub(here.offset);
            (here.base == place.base).then(|| i16::try_from(distance).ok()).flatten().map(|off| (r, off))
        })
    }
}
