//! Copies of neighbouring bytes by fewer and wider accesses, whose surplus is overwritten afterwards.
//!
//! ```text
//! r1 = *(u16 *)(r8 + 0)
//! r2 = *(u32 *)(r8 + 6)
//! r3 = *(u32 *)(r8 + 2)
//! *(u32 *)(r8 + 0) = r2          r1 = *(u64 *)(r8 + 6)
//! r2 = *(u16 *)(r8 + 10)         r2 = *(u32 *)(r8 + 0)
//! *(u32 *)(r8 + 8) = r3          r3 = *(u16 *)(r8 + 4)
//! *(u16 *)(r8 + 6) = r1          *(u64 *)(r8 + 0) = r1
//! *(u16 *)(r8 + 4) = r2     =>   *(u32 *)(r8 + 6) = r2
//!                                *(u16 *)(r8 + 10) = r3
//! ```

use super::wide_load::is_aligned;
use crate::block::{Base, Block, Place};
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;
use karakoram_proof::facts::Root;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Instructions of one group of copies, at most.
const MAX_LENGTH: usize = 16;

/// Stretches of one group, at most.
const MAX_RUNS: usize = 4;

/// A byte of memory before the copies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Byte {
    reg: Reg,
    offset: i64,
}

/// What some loads and stores do together.
struct Copies<'c, 'b, 'a> {
    context: &'c Context<'a>,
    block: &'b Block<'c, 'a>,
    range: Range<usize>,
    /// The register that stores go through.
    to: Reg,
    /// Where each stored byte comes from, by its distance from that register.
    bytes: BTreeMap<i64, Byte>,
    /// Bytes that are loaded.
    loaded: BTreeSet<Byte>,
    /// Registers that may be used.
    free: Vec<Reg>,
}

/// Stored bytes that come from equally neighbouring ones.
#[derive(Clone, Copy)]
struct Run {
    to: i64,
    from: Byte,
    length: i64,
}

/// A load and a store of the same size.
#[derive(Clone, Copy)]
struct Access {
    to: i64,
    from: Byte,
    size: Size,
}

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        let is_access = |p: &usize| {
            let plain =
                matches!(context.insn(*p), Insn::Load { signed: false, .. } | Insn::Store { src: Operand::Reg(_), .. });
            plain && !context.is_patched(*p)
        };
        let mut start = block.range.start;
        while start < block.range.end {
            let end = (start..block.range.end).find(|p| !is_access(p)).unwrap_or(block.range.end);
            out.extend(best(context, &block, start..end));
            start = end.max(start) + 1;
        }
    }
}

/// What saves most in a stretch of accesses.
fn best(context: &Context, block: &Block, accesses: Range<usize>) -> Option<Proposal> {
    let starts = accesses.clone().filter(|p| matches!(context.insn(*p), Insn::Load { .. }));
    let ranges = starts.flat_map(|s| (s + 4..=accesses.end.min(s + MAX_LENGTH)).map(move |e| s..e));
    let proposals = ranges.filter_map(|range| Copies::of(context, block, range)?.proposal());
    proposals.min_by_key(|p| p.growth(context))
}

impl<'c, 'b, 'a> Copies<'c, 'b, 'a> {
    fn of(context: &'c Context<'a>, block: &'b Block<'c, 'a>, range: Range<usize>) -> Option<Copies<'c, 'b, 'a>> {
        let Insn::Store { base: to, .. } = *context.insn(range.end - 1) else { return None };
        let mut copies = Copies {
            context,
            block,
            to,
            bytes: BTreeMap::new(),
            loaded: BTreeSet::new(),
            free: Vec::new(),
            range: range.clone(),
        };
        let mut values: BTreeMap<Reg, Vec<Byte>> = BTreeMap::new();
        let mut bases = BTreeSet::from([to]);
        for p in range.clone() {
            match *context.insn(p) {
                Insn::Load { dst, base, off, size, .. } => {
                    let inside = |q: &usize| range.contains(q) && matches!(context.insn(*q), Insn::Store { .. });
                    if !block.readers(p, dst).iter().all(inside) {
                        return None;
                    }
                    bases.insert(base);
                    let byte = |i| Byte { reg: base, offset: off as i64 + i };
                    copies.loaded.extend((0..size.bytes() as i64).map(byte));
                    values.insert(dst, (0..size.bytes() as i64).map(|i| copies.now(byte(i))).collect());
                    copies.free.push(dst);
                }
                Insn::Store { base, off, size, src: Operand::Reg(src) } if base == to => {
                    let value = values.get(&src).filter(|v| v.len() >= size.bytes() as usize)?;
                    copies.bytes.extend((off as i64..).zip(value.iter().copied().take(size.bytes() as usize)));
                }
                _ => return None,
            }
        }
        copies.free.sort_unstable();
        copies.free.dedup();
        (!copies.free.iter().any(|r| bases.contains(r))).then_some(copies)
    }

    /// The byte that is at a place now, after the stores so far.
    fn now(&self, byte: Byte) -> Byte {
        let stored = (byte.reg == self.to).then(|| self.bytes.get(&byte.offset)).flatten();
        stored.copied().unwrap_or(byte)
    }

    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (&to, &from) in &self.bytes {
            match runs.last_mut() {
                Some(run)
                    if to == run.to + run.length
                        && from == (Byte { offset: run.from.offset + run.length, ..run.from }) =>
                {
                    run.length += 1;
                }
                _ => runs.push(Run { to, from, length: 1 }),
            }
        }
        runs
    }

    fn proposal(&self) -> Option<Proposal> {
        let runs = self.runs();
        if runs.is_empty() || runs.len() > MAX_RUNS {
            return None;
        }
        // Each run exactly, or by one access that also writes to neighbours, which are written later.
        let plans = (0..3u32.pow(runs.len() as u32)).filter_map(|choice| self.plan(&runs, choice));
        let shortest = plans.filter(|plan| 2 * plan.len() < self.range.len()).min_by_key(Vec::len)?;
        let nodes = self.code(&shortest)?;
        let mut changes = Changes::default();
        self.range.clone().for_each(|p| changes.delete(p));
        changes.replace(self.range.start, nodes);
        Some(changes.proposal("overlap"))
    }

    /// The accesses, in the order of their stores.
    fn plan(&self, runs: &[Run], mut choice: u32) -> Option<Vec<Access>> {
        let (mut wide, mut exact, mut surplus) = (Vec::new(), Vec::new(), BTreeSet::new());
        for run in runs {
            let (access, over) = match choice % 3 {
                0 => (None, 0..0),
                1 => self.wide(run, false)?,
                _ => self.wide(run, true)?,
            };
            choice /= 3;
            surplus.extend(over);
            match access {
                Some(access) => wide.push(access),
                None => exact.push(*run),
            }
        }
        let is_written_later = |offset: &i64| exact.iter().any(|r| (r.to..r.to + r.length).contains(offset));
        if !surplus.iter().all(is_written_later) {
            return None;
        }
        for run in exact {
            wide.extend(self.exact(&run)?);
        }
        Some(wide)
    }

    /// One access for a run, with the bytes that it writes besides: behind it, or in front of it.
    fn wide(&self, run: &Run, in_front: bool) -> Option<(Option<Access>, Range<i64>)> {
        let size = [Size::W, Size::D].into_iter().find(|s| s.bytes() as i64 > run.length && run.length > 2)?;
        let over = size.bytes() as i64 - run.length;
        let shift = if in_front { -over } else { 0 };
        let access = self.access(run, shift, size)?;
        let end = run.to + run.length;
        let surplus = if in_front { run.to - over..run.to } else { end..end + over };
        Some((Some(access), surplus))
    }

    /// Accesses for just the bytes of a run; the last may go back over the one before.
    fn exact(&self, run: &Run) -> Option<Vec<Access>> {
        let mut accesses = Vec::new();
        let mut at = 0;
        while at < run.length {
            let left = run.length - at;
            let fits = |s: &Size| s.bytes() as i64 <= left;
            let whole = [Size::D, Size::W, Size::H, Size::B].into_iter().filter(fits);
            let next = whole.filter_map(|size| Some((at, self.access(run, at, size)?))).next()?;
            let back =
                [Size::D, Size::W].into_iter().find(|s| s.bytes() as i64 >= left && s.bytes() as i64 <= run.length);
            let back = back.and_then(|s| {
                Some((run.length - s.bytes() as i64, self.access(run, run.length - s.bytes() as i64, s)?))
            });
            let (start, access) = match back {
                Some(back) if (next.1.size.bytes() as i64) < left => back,
                _ => next,
            };
            at = start + access.size.bytes() as i64;
            accesses.push(access);
        }
        Some(accesses)
    }

    /// An access at a distance from the start of a run, when its bytes may be loaded.
    fn access(&self, run: &Run, at: i64, size: Size) -> Option<Access> {
        let from = Byte { offset: run.from.offset + at, ..run.from };
        let place =
            |reg: Reg, offset: i64| Some(self.block.place(self.range.start, reg, i16::try_from(offset).ok()?, size));
        let (source, target) = (place(from.reg, from.offset)?, place(self.to, run.to + at)?);
        let bytes = (0..size.bytes() as i64).map(|i| Byte { offset: from.offset + i, ..from });
        let may_load = bytes.clone().all(|b| self.loaded.contains(&b)) || self.is_readable(&source);
        (may_load && is_aligned(&source) && is_aligned(&target)).then_some(Access { to: run.to + at, from, size })
    }

    fn is_readable(&self, place: &Place) -> bool {
        let readable = self.context.state(self.range.start).map_or(0, |s| s.readable as i64);
        let end = place.offset + place.size.bytes() as i64;
        place.base == Base::Root(Root::PacketStart) && place.offset >= 0 && end <= readable
    }

    /// Loads come before their bytes are overwritten.
    fn code(&self, plan: &[Access]) -> Option<Vec<Node>> {
        let mut nodes = Vec::new();
        let mut free: Vec<Reg> = self.free.iter().rev().copied().collect();
        let mut values: Vec<Option<Reg>> = vec![None; plan.len()];
        for (i, store) in plan.iter().enumerate() {
            let spoils = |a: &Access| {
                a.from.reg == self.to
                    && a.from.offset < store.to + store.size.bytes() as i64
                    && store.to < a.from.offset + a.size.bytes() as i64
            };
            for (j, access) in plan.iter().enumerate().skip(i) {
                if values[j].is_none() && (j == i || spoils(access)) {
                    let dst = free.pop()?;
                    values[j] = Some(dst);
                    let (base, off) = (access.from.reg, i16::try_from(access.from.offset).ok()?);
                    nodes.push(self.context.node(Insn::Load { size: access.size, signed: false, dst, base, off }));
                }
            }
            let src = values[i]?;
            let (base, off) = (self.to, i16::try_from(store.to).ok()?);
            nodes.push(self.context.node(Insn::Store { size: store.size, base, off, src: Operand::Reg(src) }));
            free.push(src);
        }
        Some(nodes)
    }
}
