//! Low halves that are compared with numbers which only fit into a register: as all of them lie near one
//! another, a sum that fits is compared.
//!
//! ```text
//! w0 = w0
//! w1 = -17
//! if r0 == r1 goto there        w0 += 17
//! if r0 != 0x0 goto out    =>   if r0 == 0x0 goto there
//!                               if r0 != 0x11 goto out
//! ```
//!
//! Programs that have comparisons of low halves do not need it.

use super::numbers;
use crate::context::Context;
use crate::proposal::{Changes, Proposal};
use crate::webs::WebId;
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((0..context.len()).filter_map(|p| summed(context, p)));
}

/// A comparison for equality: where, and with which number.
struct Test {
    at: usize,
    cond: Condition,
    number: u64,
    target: InsnId,
    /// The register that the number is in, and its web.
    held: Option<(Reg, WebId)>,
}

fn summed(context: &Context, p: usize) -> Option<Proposal> {
    let Insn::Mov { width: Width::W32, dst, src: Operand::Reg(_) } = *context.insn(p) else { return None };
    let web = context.webs().defined(p, dst).filter(|w| w.definitions == [p] && !w.fixed)?;
    if context.is_patched(p) || !context.facts.is_reachable(p) {
        return None;
    }
    let tests = web.uses.iter().map(|q| test(context, *q, dst)).collect::<Option<Vec<Test>>>()?;
    let lowest = tests.iter().map(|t| t.number as u32 as i32).min().filter(|n| *n < 0)?;
    let by = lowest.checked_neg()?;
    let mut changes = Changes::default();
    let add = Insn::Alu { width: Width::W32, op: AluOp::Add, dst, src: Operand::Imm(by) };
    let Insn::Mov { src, .. } = *context.insn(p) else { return None };
    let copy = (src != Operand::Reg(dst)).then(|| context.instead(p, *context.insn(p)));
    changes.replace(p, copy.into_iter().chain([context.node(add)]).collect());
    for t in &tests {
        let sum = (t.number as u32).wrapping_add(by as u32);
        let src = Operand::Imm(i32::try_from(sum).ok()?);
        let test = Insn::Branch { width: Width::W64, cond: t.cond, dst, src, target: t.target };
        changes.replace(t.at, vec![context.instead(t.at, test)]);
    }
    // Numbers that nothing else looks at need not be made.
    let places: BTreeSet<usize> = tests.iter().map(|t| t.at).collect();
    let mut since = p;
    for (reg, id) in tests.iter().filter_map(|t| t.held).collect::<BTreeSet<_>>() {
        let number = context.webs().get(id)?;
        let is_made =
            |d: &usize| matches!(context.insn(*d), Insn::Mov { src: Operand::Imm(_), dst, .. } if *dst == reg);
        let is_ours = number.uses.iter().all(|u| places.contains(u)) && number.definitions.iter().all(is_made);
        if is_ours && !number.fixed && number.definitions.iter().all(|d| !context.is_patched(*d)) {
            number.definitions.iter().for_each(|d| changes.delete(*d));
        }
        since = since.min(*number.definitions.iter().min()?);
    }
    Some(changes.proposal("near").since(since).across(places))
}

/// The comparison of the register at a position, when it is one for equality with a number.
fn test(context: &Context, at: usize, of: Reg) -> Option<Test> {
    let Insn::Branch { width: Width::W64, cond: cond @ (Condition::Eq | Condition::Ne), dst, src, target } =
        *context.insn(at)
    else {
        return None;
    };
    let other = match src {
        Operand::Imm(_) => None,
        Operand::Reg(r) if dst == of => Some(r),
        Operand::Reg(_) => Some(dst),
    };
    let (number, held) = match (src, other) {
        (Operand::Imm(v), _) => (numbers::value(Width::W64, v), None),
        (_, Some(r)) => (context.value(at, r)?, Some((r, context.webs().id_used(at, r)?))),
        _ => return None,
    };
    u32::try_from(number).is_ok().then_some(Test { at, cond, number, target, held })
}
