//! Rotations of 32 bits: with the number in both halves of a register, one shift rotates it, and needs
//! no other register.
//!
//! ```text
//! r3 = r2
//! w3 >>= 18          r4 = r2
//! r4 = r2            r4 <<= 32
//! w4 <<= 14          r4 |= r2
//! w4 |= w3       =>  r4 >>= 18
//! w5 -= w4           w5 -= w4
//! ```
//!
//! The high half of the result is something else, so it only goes where nobody looks at that.

use crate::context::Context;
use crate::demand::Uses;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Node;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    out.extend((0..context.len()).filter_map(|p| rotation(context, p)));
}

/// A copy and what it is shifted by.
struct Shifted {
    copy: usize,
    shift: usize,
    of: Reg,
    by: i32,
}

fn rotation(context: &Context, p: usize) -> Option<Proposal> {
    let Insn::Alu { width: Width::W32, op: AluOp::Or, dst, src: Operand::Reg(src) } = *context.insn(p) else {
        return None;
    };
    let (a, b) = (shifted(context, p, dst)?, shifted(context, p, src)?);
    let is_left = |s: &Shifted| matches!(context.insn(s.shift), Insn::Alu { op: AluOp::Lsh, .. });
    let right = if is_left(&a) { &b } else { &a };
    if is_left(&a) == is_left(&b) || a.of != b.of || a.by + b.by != 32 {
        return None;
    }
    let whole = context.fact(a.shift, a.of)?;
    let is_same = context.webs().id_used(a.copy, a.of) == context.webs().id_used(b.copy, b.of);
    if !is_same || whole.range.max > u32::MAX as u64 {
        return None;
    }
    let mut uses = Uses::new(context);
    if uses.bits_after(p, dst)? > 32 {
        return None;
    }
    let wide = |op, src| Insn::Alu { width: Width::W64, op, dst, src };
    let mut nodes: Vec<Node> = vec![context.instead(a.shift, wide(AluOp::Lsh, Operand::Imm(32)))];
    nodes.push(context.node(wide(AluOp::Or, Operand::Reg(a.of))));
    nodes.push(context.node(wide(AluOp::Rsh, Operand::Imm(right.by))));
    let mut changes = Changes::default();
    [b.copy, b.shift, p].into_iter().for_each(|q| changes.delete(q));
    changes.replace(a.shift, nodes);
    let positions = uses.positions().chain(b.copy.min(a.copy)..p);
    Some(changes.proposal("rotate").across(positions))
}

/// The value of a register before `p`, as a copy that was shifted and is used for nothing else.
fn shifted(context: &Context, p: usize, reg: Reg) -> Option<Shifted> {
    let web = context.webs().used(p, reg)?;
    let made: Vec<usize> = web.definitions.iter().copied().filter(|d| *d != p).collect();
    let read: Vec<usize> = web.uses.iter().copied().filter(|u| made.contains(u) || *u == p).collect();
    let [copy, shift] = made[..] else { return None };
    let Insn::Mov { src: Operand::Reg(of), .. } = *context.insn(copy) else { return None };
    let Insn::Alu { width: Width::W32, op: AluOp::Lsh | AluOp::Rsh, src: Operand::Imm(by @ 1..32), .. } =
        *context.insn(shift)
    else {
        return None;
    };
    let is_patched = [copy, shift, p].into_iter().any(|q| context.is_patched(q));
    let is_in_order = context.block(copy) == context.block(p) && copy < shift && shift < p;
    (is_in_order && !is_patched && read == [shift, p]).then_some(Shifted { copy, shift, of, by })
}
