//! A copy of a pointer, of which one moves on and the other is only used for accesses: there need be
//! only the one that moves on, and the accesses count from there.
//!
//! ```text
//! r4 = r1
//! r4 += 20                    r1 += 20
//! if r4 > r2 goto out         if r1 > r2 goto out
//! r0 = *(u8 *)(r1 + 9)   =>   r0 = *(u8 *)(r1 - 11)
//! ```

use crate::context::Context;
use crate::proposal::Proposal;
use crate::renaming::{Renaming, Value};
use crate::webs::WebId;
use karakoram_bpf::insn::*;
use std::collections::BTreeMap;

/// Most accesses that are changed.
const MAX_ACCESSES: usize = 48;

/// Webs that are moved out of the way, at most.
const MAX_RIVALS: usize = 4;

/// How much larger than usual windows may be: pointers that move on are few, and live long.
const PATIENCE: usize = 4;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        if let Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } = *context.insn(p)
            && dst != src
            && src != Reg::FP
            && let Some(pair) = Pair::at(context, p, dst, src)
        {
            out.extend(pair.joined(context, (pair.new, dst), (pair.old, src)));
            out.extend(pair.joined(context, (pair.old, src), (pair.new, dst)));
        }
    }
}

/// A copy and its source.
struct Pair {
    copy: usize,
    source: Reg,
    new: WebId,
    old: WebId,
}

impl Pair {
    fn at(context: &Context, copy: usize, target: Reg, source: Reg) -> Option<Pair> {
        let webs = context.webs();
        let (new, old) = (webs.id_defined(copy, target)?, webs.id_used(copy, source)?);
        Some(Pair { copy, source, new, old })
    }

    /// The code in which `moving` stands for `still` too.
    fn joined(&self, context: &Context, moving: (WebId, Reg), still: (WebId, Reg)) -> Option<Proposal> {
        let accesses = self.accesses(context, moving, still)?;
        if accesses.is_empty() || accesses.len() > MAX_ACCESSES {
            return None;
        }
        let mut renaming = Renaming::new(context);
        let value = Value { webs: vec![moving, still], ..Value::default() };
        for (web, reg) in value.webs.iter().filter(|(_, reg)| *reg != self.source) {
            renaming.add(*web, *reg, self.source)?;
        }
        renaming.make_room(&value, self.source, MAX_RIVALS)?;
        let mut changes = renaming.changes()?;
        for (q, moved) in accesses {
            let insn = shifted(&renaming.insn(q), moved)?;
            changes.replace(q, vec![context.instead(q, insn)]);
        }
        changes.delete(self.copy);
        let mut proposal = changes.proposal("advance");
        proposal.patience = PATIENCE;
        Some(proposal)
    }

    /// The accesses through what stays, and how far the other has moved there; `None` when something
    /// else is done with what stays, or the distance is not known.
    fn accesses(&self, context: &Context, moving: (WebId, Reg), still: (WebId, Reg)) -> Option<BTreeMap<usize, i64>> {
        let (webs, flow) = (context.webs(), &context.facts.flow);
        let mut distances: BTreeMap<usize, i64> = BTreeMap::new();
        let mut accesses = BTreeMap::new();
        let mut pending: Vec<(usize, i64)> = flow.successors[self.copy].iter().map(|s| (*s, 0)).collect();
        while let Some((q, distance)) = pending.pop() {
            if !context.facts.live[q].contains(still.1) || webs.at(q, still.1) != still.0 {
                continue;
            }
            if let Some(known) = distances.insert(q, distance) {
                if known != distance {
                    return None;
                }
                continue;
            }
            if webs.id_used(q, still.1) == Some(still.0) {
                if !is_access_through(context, q, still.1) {
                    return None;
                }
                accesses.insert(q, distance);
            }
            let mut now = distance;
            if webs.id_defined(q, moving.1) == Some(moving.0) {
                now += step(context.insn(q))?;
            }
            pending.extend(flow.successors[q].iter().map(|s| (*s, now)));
        }
        Some(accesses)
    }
}

/// Whether a register is only the address of an access.
pub(super) fn is_access_through(context: &Context, q: usize, reg: Reg) -> bool {
    match *context.insn(q) {
        _ if context.is_patched(q) => false,
        Insn::Load { base, .. } => base == reg,
        Insn::Store { base, src, .. } => base == reg && src != Operand::Reg(reg),
        _ => false,
    }
}

/// How far an instruction moves a pointer.
fn step(insn: &Insn) -> Option<i64> {
    match *insn {
        Insn::Alu { width: Width::W64, op: AluOp::Add, src: Operand::Imm(by), .. } => Some(by as i64),
        Insn::Alu { width: Width::W64, op: AluOp::Sub, src: Operand::Imm(by), .. } => Some(-(by as i64)),
        _ => None,
    }
}

/// An access through a pointer that was moved by that much.
pub(super) fn shifted(insn: &Insn, moved: i64) -> Option<Insn> {
    let shift = |off: i16| i16::try_from(off as i64 - moved).ok();
    match *insn {
        Insn::Load { size, signed, dst, base, off } => Some(Insn::Load { size, signed, dst, base, off: shift(off)? }),
        Insn::Store { size, base, off, src } => Some(Insn::Store { size, base, off: shift(off)?, src }),
        _ => None,
    }
}
