//! Results that are known: numbers, values that are in another register already, no change at all.

use super::numbers;
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::*;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        let dst = match *context.insn(p) {
            Insn::Alu { dst, .. }
            | Insn::Mov { dst, .. }
            | Insn::MovSx { dst, .. }
            | Insn::Neg { dst, .. }
            | Insn::Endian { dst, .. }
            | Insn::LoadImm { dst, .. }
            | Insn::Load { dst, .. } => dst,
            _ => continue,
        };
        let Some(before) = context.state(p) else { continue };
        let is_move = matches!(context.insn(p), Insn::Mov { src: Operand::Imm(_), .. });
        if let Insn::Mov { width: Width::W64, src: Operand::Imm(v), .. } = *context.insn(p)
            && before.regs[dst.index()].value() == Some(v as i64 as u64)
        {
            out.push(Proposal::new("known/no-change", edits(vec![(p, None)])).since(context.anchor(p, dst)));
            continue;
        }
        let Some(after) = context.state_after(p) else { continue };
        let result = after.regs[dst.index()];
        if before.regs[dst.index()].is_same(&result) {
            out.push(Proposal::new("known/no-change", edits(vec![(p, None)])).since(context.anchor(p, dst)));
        }
        if let Some(load) = result.value().filter(|_| !is_move).and_then(|v| numbers::load(dst, v)) {
            out.push(Proposal::new("known/number", edits(vec![(p, Some(context.instead(p, load)))])));
        }
        if is_move || matches!(context.insn(p), Insn::Mov { width: Width::W64, .. }) {
            continue;
        }
        let twin = Reg::all().find(|r| *r != dst && before.regs[r.index()].is_same(&result));
        if let Some(src) = twin {
            let copy = Insn::Mov { width: Width::W64, dst, src: Operand::Reg(src) };
            out.push(
                Proposal::new("known/elsewhere", edits(vec![(p, Some(context.instead(p, copy)))]))
                    .since(context.anchor(p, src)),
            );
        }
    }
}
