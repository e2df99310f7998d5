//! Plain additions to map values, done at once. It takes fewer slots and more time, so only the goal
//! `slots` asks for it.
//!
//! ```text
//! r1 = *(u64 *)(r0 + 8)
//! r1 += 3                       r1 = 3
//! *(u64 *)(r0 + 8) = r1    =>   lock *(u64 *)(r0 + 8) += r1
//! ```

use crate::block::{Block, Place};
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use karakoram_proof::facts::Kind;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        for p in block.range.clone() {
            out.extend(Sum::of(context, &block, p).into_iter().flat_map(|sum| sum.proposals()));
        }
    }
}

/// A load, an addition and a store of the same place.
struct Sum<'c, 'b, 'a> {
    context: &'c Context<'a>,
    block: &'b Block<'c, 'a>,
    load: usize,
    add: usize,
    store: usize,
    addend: Operand,
}

impl<'c, 'b, 'a> Sum<'c, 'b, 'a> {
    fn of(context: &'c Context<'a>, block: &'b Block<'c, 'a>, store: usize) -> Option<Self> {
        let Insn::Store { size: Size::W | Size::D, base, src: Operand::Reg(sum), .. } = *context.insn(store) else {
            return None;
        };
        let place = block.access(store)?;
        let is_shared = matches!(context.fact(store, base)?.kind,
            Kind::Pointer { region, nullable: false } if region.is_map_value());
        let add = block.writer(store, sum)?;
        let (operand, width) = added(context.insn(add), sum)?;
        if !is_shared || width == Width::W32 && place.size == Size::D || context.is_patched(add) {
            return None;
        }
        let loaded = |r: Reg| block.writer(add, r).filter(|q| is_load(context, block, *q, &place));
        let only_reader = |q: usize, r: Reg, reader: usize| block.readers(q, r) == [reader];
        let (load, addend) = match (loaded(sum), operand) {
            (Some(q), _) if only_reader(q, sum, add) => (q, operand),
            (_, Operand::Reg(r)) => (loaded(r).filter(|q| only_reader(*q, r, add))?, Operand::Reg(sum)),
            _ => return None,
        };
        only_reader(add, sum, store).then_some(Sum { context, block, load, add, store, addend })
    }

    fn proposals(&self) -> Vec<Proposal> {
        let Insn::Store { size, base, off, src: Operand::Reg(sum) } = *self.context.insn(self.store) else {
            return Vec::new();
        };
        let lock = |src: Reg| Insn::Atomic { op: AtomicOp::Add, fetch: false, size, base, off, src };
        let with = |changes: Vec<(usize, Option<Node>)>| {
            let gone = [self.load, self.add].into_iter().filter(|p| changes.iter().all(|(q, _)| p != q));
            let gone: Vec<_> = gone.map(|p| (p, None)).collect();
            Proposal::new("locked_add", edits([gone, changes].concat()))
        };
        let at_once = |src: Reg| (self.store, Some(self.context.instead(self.store, lock(src))));
        match self.addend {
            Operand::Reg(r) => vec![with(vec![at_once(r)])],
            Operand::Imm(i) => {
                let holds = |r: &Reg| self.context.value(self.store, *r) == Some(i as i64 as u64);
                let kept = Reg::all()
                    .filter(|r| *r != sum && holds(r) && self.is_kept(*r))
                    .map(|r| with(vec![at_once(r)]).since(self.context.anchor(self.store, r)));
                let constant = Insn::Mov { width: Width::W64, dst: sum, src: Operand::Imm(i) };
                let made = self.context.instead(self.add, constant);
                kept.chain([with(vec![(self.add, Some(made)), at_once(sum)])]).collect()
            }
        }
    }

    /// Whether a register is not lost to what the addition computes.
    fn is_kept(&self, r: Reg) -> bool {
        self.block.writer(self.store, r) != Some(self.add)
    }
}

/// The other operand and the width of an addition.
fn added(insn: &Insn, sum: Reg) -> Option<(Operand, Width)> {
    match *insn {
        Insn::Alu { width, op: AluOp::Add, dst, src } if dst == sum && src != Operand::Reg(sum) => Some((src, width)),
        Insn::Alu { width, op: AluOp::Sub, dst, src: Operand::Imm(i) } if dst == sum => {
            Some((Operand::Imm(i.checked_neg()?), width))
        }
        _ => None,
    }
}

fn is_load(context: &Context, block: &Block, q: usize, place: &Place) -> bool {
    matches!(context.insn(q), Insn::Load { .. }) && block.access(q).as_ref() == Some(place)
}
