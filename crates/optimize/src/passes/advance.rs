//! A copy of a pointer that moves on, while accesses go through the original: the original moves on,
//! and the accesses count from there.
//!
//! ```text
//! r4 = r1
//! r4 += 20                    r1 += 20
//! if r4 > r2 goto out         if r1 > r2 goto out
//! r0 = *(u8 *)(r1 + 9)   =>   r0 = *(u8 *)(r1 - 11)
//! ```

use super::copies::renamed;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use crate::webs::Web;
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;

/// Most instructions that are changed.
const MAX_MEMBERS: usize = 48;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        if let Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) } = *context.insn(p)
            && dst != src
            && src != Reg::FP
            && let Some(web) = context.webs().defined(p, dst)
        {
            out.extend(advanced(context, p, web, dst, src));
        }
    }
}

/// The copy at `p` of `old` takes its place.
fn advanced(context: &Context, p: usize, web: &Web, new: Reg, old: Reg) -> Option<Proposal> {
    let later = uses_after(context, p, old);
    if web.fixed || later.len() + web.uses.len() + web.definitions.len() > MAX_MEMBERS {
        return None;
    }
    let mut changes = Changes::default();
    for &q in web.definitions.iter().chain(&web.uses).filter(|q| **q != p) {
        let (is_definition, is_use) = (web.definitions.contains(&q), web.uses.contains(&q));
        let insn = renamed(context.insn(q), new, old, is_definition, is_use);
        let back = matches!(insn, Insn::Mov { dst, src: Operand::Reg(src), .. } if dst == src);
        match back {
            true => changes.delete(q),
            false => changes.replace(q, vec![context.instead(q, insn)]),
        }
    }
    for &q in &later {
        // Accesses through both registers in one instruction are rare enough.
        if changes.touches(q) || context.is_patched(q) {
            return None;
        }
        let (before, now) = (context.fact(q, old)?, context.fact(q, new)?);
        if before.root.is_none() || before.root != now.root {
            return None;
        }
        let by = before.delta.wrapping_sub(now.delta) as i64;
        let moved = |off: i16| i16::try_from(off as i64 + by).ok();
        let insn = match *context.insn(q) {
            Insn::Load { size, signed, dst, base, off } => Insn::Load { size, signed, dst, base, off: moved(off)? },
            Insn::Store { size, base, off, src } if base == old && src != Operand::Reg(old) => {
                Insn::Store { size, base, off: moved(off)?, src }
            }
            _ => return None,
        };
        changes.replace(q, vec![context.instead(q, insn)]);
    }
    changes.delete(p);
    Some(changes.proposal("advance"))
}

/// Who else reads what a register holds after `p`.
fn uses_after(context: &Context, p: usize, reg: Reg) -> BTreeSet<usize> {
    let (mut uses, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut pending = context.facts.flow.successors[p].clone();
    while let Some(q) = pending.pop() {
        if !seen.insert(q) || !context.facts.live[q].contains(reg) {
            continue;
        }
        if context.reads[q].contains(reg) {
            uses.insert(q);
        }
        if !context.writes[q].contains(reg) {
            pending.extend(&context.facts.flow.successors[q]);
        }
    }
    uses
}
