//! Copies that are made for a sum, while the number itself is only compared with constants: it is
//! compared after the addition as well.
//!
//! ```text
//! r2 = r1
//! w2 += -1                w1 += -1
//! if w2 > 1 goto out  =>  if w1 > 1 goto out
//! if w1 == 1 goto a       if w1 == 0 goto a
//! ```

use crate::context::Context;
use crate::proposal::Proposal;
use crate::renaming::{Renaming, Value};
use karakoram_bpf::insn::*;
use std::collections::BTreeSet;

/// Instructions over which the number is followed, at most.
const MAX_STEPS: usize = 100;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((1..context.len()).filter_map(|p| summed(context, p)));
}

fn summed(context: &Context, p: usize) -> Option<Proposal> {
    let Insn::Alu { op: AluOp::Add, dst: sum, src: Operand::Imm(by), .. } = *context.insn(p) else { return None };
    let Insn::Mov { dst, src: Operand::Reg(number), .. } = *context.insn(p - 1) else { return None };
    let is_patched = context.is_patched(p) || context.is_patched(p - 1);
    if dst != sum || number == sum || number == Reg::FP || is_patched || context.block(p).start == p {
        return None;
    }
    let (web, of) = (context.webs().id_defined(p, sum)?, context.webs().id_used(p - 1, number)?);
    let mut renaming = Renaming::new(context);
    renaming.add(web, sum, number)?;
    let others = renaming.conflicts(&Value::of(web, sum), number);
    if others.iter().any(|other| *other != of) {
        return None;
    }
    let mut changes = renaming.changes()?;
    changes.delete(p - 1);
    let seen = compared(context, p, number)?;
    for &q in &seen {
        if let Insn::Branch { width, cond, dst, src: Operand::Imm(with), target } = *context.insn(q)
            && dst == number
        {
            let test = Insn::Branch { width, cond, dst, src: Operand::Imm(with.wrapping_add(by)), target };
            changes.replace(q, vec![context.instead(q, test)]);
        }
    }
    Some(changes.proposal("shifted").across(seen))
}

/// Positions where a number is alive from `p` on, if all that is done with it is to compare it for
/// equality with constants, at least once.
fn compared(context: &Context, p: usize, number: Reg) -> Option<BTreeSet<usize>> {
    let mut seen = BTreeSet::new();
    let mut tests = 0;
    let mut pending = vec![p];
    while let Some(q) = pending.pop() {
        if !context.facts.live[q].contains(number) || !seen.insert(q) {
            continue;
        }
        if seen.len() > MAX_STEPS || context.is_patched(q) {
            return None;
        }
        if context.reads[q].contains(number) {
            let Insn::Branch { cond: Condition::Eq | Condition::Ne, src: Operand::Imm(_), .. } = *context.insn(q)
            else {
                return None;
            };
            tests += 1;
        }
        if !context.writes[q].contains(number) {
            pending.extend(&context.facts.flow.successors[q]);
        }
    }
    (tests > 0).then_some(seen)
}
