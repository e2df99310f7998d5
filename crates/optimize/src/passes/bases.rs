//! Pieces of global data, each with an address of its own: reached from the address of the first.
//!
//! ```text
//! r1 = map[.rodata][0]+8 ll        r5 = map[.rodata][0]+8 ll
//! r1 = *(u16 *)(r1 + 0)            r1 = *(u16 *)(r5 + 0)
//! ..                               ..
//! r2 = map[.rodata][0]+12 ll   =>
//! r2 = *(u32 *)(r2 + 0)            r2 = *(u32 *)(r5 + 4)
//! ```

use super::copies::renamed;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use karakoram_proof::facts::Root;
use std::collections::{BTreeMap, BTreeSet};

/// Most addresses that one takes the place of at once.
const MAX_PLACES: usize = 24;

/// Most instructions over which an address is kept.
const MAX_RANGE: usize = 1_000;

/// How much larger than usual windows may be: few proposals, each of which saves two slots or more.
const PATIENCE: usize = 8;

/// An address that is only there to be accessed.
struct Piece<'c> {
    made: usize,
    reg: Reg,
    offset: u32,
    uses: &'c [usize],
}

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    let mut pieces: BTreeMap<MapRef, Vec<Piece>> = BTreeMap::new();
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        if let Some((map, piece)) = piece(context, p) {
            out.extend(held(context, map, &piece));
            pieces.entry(map).or_default().push(piece);
        }
    }
    for pieces in pieces.values() {
        let mut from = 0;
        while from + 1 < pieces.len() {
            let (to, home) = reach(context, &pieces[from..]);
            if let Some(home) = home {
                out.extend(shared(context, &pieces[from..from + to], home));
                out.extend(shared(context, &pieces[from..from + 2], home));
            }
            from += to.max(1);
        }
    }
}

fn piece<'c>(context: &'c Context, made: usize) -> Option<(MapRef, Piece<'c>)> {
    let Insn::LoadImm { dst: reg, value: Imm64::MapValue(map, offset) } = *context.insn(made) else { return None };
    let web = context.webs().defined(made, reg)?;
    let is_only_base = |p: &usize| based(context.insn(*p), reg, reg, 0).is_some() && !context.is_patched(*p);
    let is_fit = web.definitions == [made] && !web.fixed && web.uses.iter().all(is_only_base);
    is_fit.then_some((map, Piece { made, reg, offset, uses: &web.uses }))
}

/// An access with another register as its base, at another distance.
fn based(insn: &Insn, from: Reg, to: Reg, by: i64) -> Option<Insn> {
    let base = match *insn {
        Insn::Load { base, .. } => base,
        Insn::Store { base, src, .. } if src != Operand::Reg(from) => base,
        Insn::Atomic { base, src, .. } if src != from => base,
        _ => return None,
    };
    let mut moved = renamed(insn, from, to, false, true);
    match &mut moved {
        Insn::Load { off, .. } | Insn::Store { off, .. } | Insn::Atomic { off, .. } => {
            *off = i16::try_from(*off as i64 + by).ok()?;
        }
        _ => return None,
    }
    (base == from).then_some(moved)
}

/// How many pieces, from the first on, one address is enough for, and the register to keep it in.
fn reach(context: &Context, pieces: &[Piece]) -> (usize, Option<Reg>) {
    let first = pieces[0].made;
    let mut range = BTreeSet::new();
    let mut homes: Vec<Reg> = Reg::all().filter(|r| *r != Reg::FP).collect();
    let mut best = (1, None);
    for (i, piece) in pieces.iter().enumerate().take(MAX_PLACES) {
        for p in piece.uses {
            let Some(more) = context.between(first, *p).filter(|m| m.len() <= MAX_RANGE) else { return best };
            let is_free = |r: Reg, p: usize| !context.facts.live[p].contains(r) && !context.writes[p].contains(r);
            // What the last access itself writes is written after it.
            homes.retain(|r| more.iter().all(|q| q == p && !context.facts.live[*q].contains(*r) || is_free(*r, *q)));
            range.extend(more);
        }
        match homes.first() {
            None => return best,
            Some(home) if i > 0 => best = (i + 1, Some(*home)),
            _ => {}
        }
    }
    best
}

/// All pieces through the address of the first, in `home`.
fn shared(context: &Context, pieces: &[Piece], home: Reg) -> Option<Proposal> {
    let (first, others) = pieces.split_first()?;
    let mut changes = Changes::default();
    let own = &context.function.nodes[first.made];
    let Insn::LoadImm { value, .. } = own.insn else { return None };
    changes.replace(first.made, vec![Node { insn: Insn::LoadImm { dst: home, value }, ..own.clone() }]);
    for piece in pieces {
        rebased(context, &mut changes, piece, home, piece.offset as i64 - first.offset as i64)?;
    }
    others.iter().for_each(|piece| changes.delete(piece.made));
    let mut proposal = changes.proposal("bases/shared");
    proposal.patience = PATIENCE;
    Some(proposal)
}

/// A piece through what a register is known to hold.
fn held(context: &Context, map: MapRef, piece: &Piece) -> Option<Proposal> {
    let state = context.state(piece.made)?;
    let known = |r: &Reg| {
        let fact = &state.regs[r.index()];
        let is_there = matches!((fact.root, map), (Some(Root::MapData(m)), MapRef::Index(n)) if m == n as usize);
        is_there.then_some(fact.delta)
    };
    let (home, delta) = Reg::all().filter(|r| *r != piece.reg).find_map(|r| Some((r, known(&r)?)))?;
    let is_kept = |p: &usize| {
        let between = context.between(piece.made, *p);
        between.is_some_and(|b| b.iter().all(|q| q == p || !context.writes[*q].contains(home)))
    };
    if !piece.uses.iter().all(is_kept) {
        return None;
    }
    let mut changes = Changes::default();
    rebased(context, &mut changes, piece, home, piece.offset as i64 - delta as i64)?;
    changes.delete(piece.made);
    Some(changes.proposal("bases/held").since(context.anchor(piece.made, home)))
}

fn rebased(context: &Context, changes: &mut Changes, piece: &Piece, home: Reg, by: i64) -> Option<()> {
    for p in piece.uses {
        changes.replace(*p, vec![context.instead(*p, based(context.insn(*p), piece.reg, home, by)?)]);
    }
    Some(())
}
