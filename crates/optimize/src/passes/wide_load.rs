//! Neighbouring bytes that are loaded one by one and put together: one wider load.
//!
//! ```text
//! r1 = *(u8 *)(r7 + 12)
//! r3 = *(u8 *)(r7 + 13)
//! r3 <<= 8
//! r3 |= r1               =>   r3 = *(u16 *)(r7 + 12)
//! ```

use crate::block::{Base, Block, Place};
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use std::collections::{BTreeMap, BTreeSet};

/// Loaded bytes inside a value.
#[derive(Clone, Copy)]
struct Piece {
    place: Place,
    /// Bit where they begin.
    shift: u32,
    /// The load.
    load: usize,
}

/// A value made of loaded bytes, and the instructions that made it.
#[derive(Clone, Default)]
struct Value {
    pieces: Vec<Piece>,
    makers: BTreeSet<usize>,
}

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        let mut values: [Option<Value>; Reg::COUNT] = Default::default();
        for p in block.range.clone() {
            let made = step(context, &block, &values, p);
            context.writes[p].iter().for_each(|r| values[r.index()] = None);
            let Some((dst, value)) = made else { continue };
            if value.pieces.len() > 1 {
                combined(context, &block, &value, dst, p, out);
            }
            values[dst.index()] = Some(value);
        }
    }
}

/// What an instruction makes out of loaded bytes.
fn step(context: &Context, block: &Block, values: &[Option<Value>], p: usize) -> Option<(Reg, Value)> {
    let value = |r: Reg| values[r.index()].clone();
    let (dst, mut value) = match *context.insn(p) {
        _ if context.is_patched(p) => return None,
        Insn::Load { dst, .. } => {
            let place = block.access(p)?;
            (dst, Value { pieces: vec![Piece { place, shift: 0, load: p }], makers: BTreeSet::new() })
        }
        Insn::Mov { dst, src: Operand::Reg(r), .. } => (dst, value(r)?),
        Insn::Alu { op: AluOp::Lsh, dst, src: Operand::Imm(n @ 0..64), .. } => {
            let mut v = value(dst)?;
            v.pieces.iter_mut().for_each(|piece| piece.shift += n as u32);
            (dst, v)
        }
        Insn::Alu { op: AluOp::And, dst, src: Operand::Imm(0xff | 0xffff), .. } => (dst, value(dst)?),
        Insn::Alu { op: AluOp::Or | AluOp::Add | AluOp::Xor, dst, src: Operand::Reg(r), .. } => {
            let (mut a, b) = (value(dst)?, value(r)?);
            a.pieces.extend(b.pieces);
            a.makers.extend(b.makers);
            (dst, a)
        }
        _ => return None,
    };
    value.makers.insert(p);
    (value.pieces.len() <= 8).then_some((dst, value))
}

/// Proposes the load that yields the whole value at once.
fn combined(context: &Context, block: &Block, value: &Value, dst: Reg, p: usize, out: &mut Vec<Proposal>) {
    let Some((place, swapped)) = whole(&value.pieces) else { return };
    let last = value.pieces.iter().map(|piece| piece.load).max().expect("not empty");
    // At the end, where some register still reaches the place; and where the last part was loaded.
    let mut spots = vec![(last, true)];
    if let Some(at) = block.reach(p, &place) {
        spots.push((p, at.0 == dst));
    }
    for (spot, _) in spots {
        let Some((base, off)) = block.reach(spot, &place) else { continue };
        let load = Insn::Load { size: place.size, signed: false, dst, base, off };
        let mut nodes = vec![context.instead(spot, load)];
        if swapped {
            nodes.push(context.node(Insn::Endian { order: Endian::Big, bits: place.size.bits() as u8, dst }));
        }
        let gone = removable(context, block, &value.makers, p);
        let mut changes: BTreeMap<usize, Vec<Node>> = gone.into_iter().map(|q| (q, Vec::new())).collect();
        changes.insert(p, Vec::new());
        changes.insert(spot, nodes);
        let first = *value.makers.first().expect("not empty");
        let edits =
            changes.into_iter().map(|(q, nodes)| karakoram_proof::rewrite::Edit { at: q..q + 1, nodes }).collect();
        out.push(Proposal::new("wide_load", edits).since(first).with(p..p + 1));
    }
}

/// Makers that nobody needs once the value at `p` comes from elsewhere.
fn removable(context: &Context, block: &Block, makers: &BTreeSet<usize>, p: usize) -> BTreeSet<usize> {
    let mut gone: BTreeSet<usize> = BTreeSet::from([p]);
    for &q in makers.iter().rev().filter(|q| **q != p) {
        let mut readers = context.writes[q].iter().flat_map(|r| block.readers(q, r));
        if readers.all(|reader| gone.contains(reader)) {
            gone.insert(q);
        }
    }
    gone.remove(&p);
    gone
}

/// The place that all pieces together cover, and whether its bytes come in reverse.
fn whole(pieces: &[Piece]) -> Option<(Place, bool)> {
    let mut pieces = pieces.to_vec();
    pieces.sort_by_key(|p| p.place.offset);
    let first = pieces[0].place;
    let bytes: u32 = pieces.iter().map(|p| p.place.size.bytes()).sum();
    let size = Size::from_bytes(bytes)?;
    let (mut little, mut big) = (true, true);
    let mut at = 0;
    for piece in &pieces {
        let n = piece.place.size.bytes();
        if piece.place.base != first.base || piece.place.offset != first.offset + at as i64 {
            return None;
        }
        little &= piece.shift == 8 * at;
        big &= n == 1 && piece.shift == 8 * (bytes - n - at);
        at += n;
    }
    (little || big).then_some((Place { size, ..first }, !little))
}

/// The frame takes only aligned accesses.
pub(super) fn is_aligned(place: &Place) -> bool {
    use karakoram_proof::facts::Root;
    place.base != Base::Root(Root::Frame) || place.offset.rem_euclid(place.size.bytes() as i64) == 0
}

/// Keeps [`edits`] in use for one-to-one changes.
pub(super) fn single(changes: Vec<(usize, Option<Node>)>, rule: &'static str) -> Proposal {
    Proposal::new(rule, edits(changes))
}
