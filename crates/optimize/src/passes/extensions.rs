//! Extensions and masks of values whose upper bits nobody looks at: the kernel takes 32 bits of many
//! numbers that helpers are given, narrow stores and narrow arithmetic look at low bits only.
//!
//! ```text
//! r6 <<= 32
//! r6 s>>= 32
//! r1 = map[ports] ll          r1 = map[ports] ll
//! r2 = r6                =>   r2 = r6
//! r3 = 0                      r3 = 0
//! call bpf_redirect_map       call bpf_redirect_map
//! ```

use crate::context::Context;
use crate::demand::Uses;
use crate::proposal::{Changes, Proposal};
use karakoram_bpf::insn::*;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p)) {
        out.extend(extension(context, p).and_then(|e| unneeded(context, &e)));
    }
}

/// Instructions that leave the low bits of a register alone, and change nothing else.
struct Extension {
    positions: Vec<usize>,
    reg: Reg,
    kept: u32,
}

fn extension(context: &Context, p: usize) -> Option<Extension> {
    let one = |reg, kept| Some(Extension { positions: vec![p], reg, kept });
    match *context.insn(p) {
        Insn::Mov { width: Width::W32, dst, src: Operand::Reg(src) } if dst == src => one(dst, 32),
        Insn::MovSx { bits, dst, src, .. } if dst == src => one(dst, bits as u32),
        Insn::Alu { op: AluOp::And, dst, src: Operand::Imm(mask), .. } => one(dst, mask.trailing_ones()),
        Insn::Alu { width: Width::W64, op: AluOp::Lsh, dst, src: Operand::Imm(by @ 1..64) } => {
            let back = context.insn(p + 1);
            let is_back = matches!(*back, Insn::Alu { width: Width::W64, op: AluOp::Rsh | AluOp::Arsh, dst: d, src: Operand::Imm(n) } if d == dst && n == by);
            let is_one_way = context.facts.flow.predecessors[p + 1] == [p];
            (is_back && is_one_way).then(|| Extension { positions: vec![p, p + 1], reg: dst, kept: 64 - by as u32 })
        }
        _ => None,
    }
}

fn unneeded(context: &Context, extension: &Extension) -> Option<Proposal> {
    let Extension { ref positions, reg, kept } = *extension;
    if positions.iter().any(|p| context.is_patched(*p)) {
        return None;
    }
    let last = *positions.last()?;
    let mut uses = Uses::new(context);
    if uses.bits_after(last, reg)? > kept {
        return None;
    }
    let mut changes = Changes::default();
    positions.iter().for_each(|p| changes.delete(*p));
    Some(changes.proposal("extensions").across(uses.positions()))
}
