//! Neighbouring stores as one: of constants, and of what was loaded from neighbouring places.
//!
//! ```text
//! r0 = *(u16 *)(r1 + 0)
//! *(u16 *)(r10 - 4) = r0
//! r0 = *(u16 *)(r1 + 2)       r0 = *(u32 *)(r1 + 0)
//! *(u16 *)(r10 - 2) = r0  =>  *(u32 *)(r10 - 4) = r0
//! ```

use super::numbers::immediate;
use super::wide_load::{is_aligned, single};
use crate::block::{Base, Block, Place};
use crate::context::Context;
use crate::proposal::Proposal;
use karakoram_bpf::insn::*;
use std::collections::HashMap;

/// What was stored at a place.
#[derive(Clone, Copy)]
struct Stored {
    at: usize,
    place: Place,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Constant(u64),
    Loaded(usize, Place),
    /// Bits from there on of what the instruction at that position wrote to that register.
    Part(Option<usize>, Reg, u32),
}

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        let mut stores: HashMap<(Base, i64), Stored> = HashMap::new();
        for p in block.range.clone() {
            let Some(new) = stored(context, &block, p) else { continue };
            let bytes = new.place.size.bytes() as i64;
            for neighbour in [new.place.offset - bytes, new.place.offset + bytes] {
                let old = stores.get(&(new.place.base, neighbour)).filter(|o| o.place.size == new.place.size);
                if let Some(old) = old {
                    let (low, high) = if neighbour < new.place.offset { (old, &new) } else { (&new, old) };
                    out.extend(constants(context, low, high));
                    out.extend(copies(context, &block, low, high));
                    out.extend(parts(context, &block, low, high));
                }
            }
            stores.insert((new.place.base, new.place.offset), new);
        }
    }
}

fn stored(context: &Context, block: &Block, p: usize) -> Option<Stored> {
    let Insn::Store { src, .. } = *context.insn(p) else { return None };
    let place = block.access(p)?;
    let what = match src {
        Operand::Imm(i) => What::Constant(i as i64 as u64),
        Operand::Reg(r) => match context.value(p, r) {
            Some(v) => What::Constant(v),
            None => {
                let load = block.writer(p, r).filter(|q| matches!(context.insn(*q), Insn::Load { .. }));
                match load.and_then(|q| Some((q, block.access(q)?))) {
                    Some((load, from)) if from.size == place.size => What::Loaded(load, from),
                    _ => part(context, block, p, r),
                }
            }
        },
    };
    Some(Stored { at: p, place, what })
}

/// Which part of which value a register holds: follows copies and shifts to the right.
fn part(context: &Context, block: &Block, mut p: usize, mut r: Reg) -> What {
    let mut shift = 0;
    loop {
        let writer = block.writer(p, r);
        match writer.map(|q| (q, *context.insn(q))) {
            Some((q, Insn::Alu { op: AluOp::Rsh, src: Operand::Imm(n @ 0..64), .. })) => {
                shift += n as u32;
                p = q;
            }
            Some((q, Insn::Mov { src: Operand::Reg(from), .. })) => (p, r) = (q, from),
            _ => return What::Part(writer, r, shift),
        }
    }
}

/// Neighbouring parts of one value: the lower one, stored wider.
fn parts(context: &Context, block: &Block, low: &Stored, high: &Stored) -> Option<Proposal> {
    let place = joined(&low.place)?;
    let Insn::Store { src: Operand::Reg(r), .. } = *context.insn(low.at) else { return None };
    let Insn::Store { src: Operand::Reg(q), .. } = *context.insn(high.at) else { return None };
    let (What::Part(a, of_a, from_a), What::Part(b, of_b, from_b)) =
        (part(context, block, low.at, r), part(context, block, high.at, q))
    else {
        return None;
    };
    if (a, of_a) != (b, of_b) || from_b != from_a + low.place.size.bits() {
        return None;
    }
    let wide = store(context, low.at, 0, place.size, Operand::Reg(r))?;
    let first = low.at.min(high.at);
    let since = a.unwrap_or(block.range.start).min(first);
    Some(single(vec![(low.at, Some(context.instead(low.at, wide))), (high.at, None)], "wide_store/part").since(since))
}

/// The place of both together.
fn joined(low: &Place) -> Option<Place> {
    let place = Place { size: Size::from_bytes(2 * low.size.bytes())?, ..*low };
    is_aligned(&place).then_some(place)
}

/// A store with another size and source, `by` bytes further down.
fn store(context: &Context, p: usize, by: i64, size: Size, src: Operand) -> Option<Insn> {
    let Insn::Store { base, off, .. } = *context.insn(p) else { return None };
    Some(Insn::Store { size, base, off: i16::try_from(off as i64 - by).ok()?, src })
}

fn constants(context: &Context, low: &Stored, high: &Stored) -> Vec<Proposal> {
    let (What::Constant(a), What::Constant(b), Some(place)) = (low.what, high.what, joined(&low.place)) else {
        return Vec::new();
    };
    let bits = low.place.size.bits();
    let value = (a & ((1 << bits) - 1)) | b << bits;
    let imm = if place.size == Size::D { immediate(Width::W64, value) } else { Some(value as i32) };
    let Some(imm) = imm else { return Vec::new() };
    let mut spots = [low, high];
    spots.sort_by_key(|s| std::cmp::Reverse(s.at));
    let proposal = |spot: &Stored, other: &Stored| {
        let by = spot.place.offset - low.place.offset;
        let insn = store(context, spot.at, by, place.size, Operand::Imm(imm))?;
        Some(single(vec![(spot.at, Some(context.instead(spot.at, insn))), (other.at, None)], "wide_store/constant"))
    };
    [proposal(spots[0], spots[1]), proposal(spots[1], spots[0])].into_iter().flatten().collect()
}

fn copies(context: &Context, block: &Block, low: &Stored, high: &Stored) -> Vec<Proposal> {
    let (What::Loaded(a, from_a), What::Loaded(b, from_b)) = (low.what, high.what) else { return Vec::new() };
    let adjacent = from_a.base == from_b.base && from_b.offset - from_a.offset == from_a.size.bytes() as i64;
    let (Some(to), Some(from), true) = (joined(&low.place), joined(&from_a), adjacent && a != b) else {
        return Vec::new();
    };
    let (early, late) = (a.min(b), a.max(b));
    let (first, second) = if low.at < high.at { (low, high) } else { (high, low) };
    let mut proposals = Vec::new();
    for (load, store_at) in [(late, second), (early, second), (early, first), (late, first)] {
        let (Insn::Load { dst, .. }, Some((base, off))) = (*context.insn(load), block.reach(load, &from)) else {
            continue;
        };
        let by = store_at.place.offset - low.place.offset;
        let Some(wide) = store(context, store_at.at, by, to.size, Operand::Reg(dst)) else { continue };
        if load > store_at.at {
            continue;
        }
        let read = Insn::Load { size: from.size, signed: false, dst, base, off };
        let other_load = if load == early { late } else { early };
        let other_store = if store_at.at == first.at { second.at } else { first.at };
        let changes = vec![
            (load, Some(context.instead(load, read))),
            (store_at.at, Some(context.instead(store_at.at, wide))),
            (other_load, None),
            (other_store, None),
        ];
        proposals.push(single(changes, "wide_store/copy"));
    }
    proposals
}
