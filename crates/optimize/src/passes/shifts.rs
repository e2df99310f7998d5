//! Zero-extensions and masks that are written as pairs of shifts or through a copy.
//!
//! ```text
//! r1 <<= 32
//! r1 >>= 32   =>   w1 = w1
//!
//! r1 <<= 48
//! r1 >>= 48   =>   r1 &= 65535
//! ```

use crate::block::Block;
use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::*;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for block in Block::all(context) {
        for second in block.range.clone().filter(|p| !context.is_patched(*p)) {
            let Some((dst, src)) = operands(context.insn(second)) else { continue };
            let Some(first) = block.writer(second, src).filter(|p| !context.is_patched(*p)) else { continue };
            let only_reader = block.readers(first, src) == [second];
            for (rule, insn) in replacements(context.insn(first), context.insn(second), dst) {
                let new = context.instead(second, insn);
                let mut changes = vec![(second, Some(new))];
                if only_reader {
                    changes.push((first, None));
                }
                out.push(Proposal::new(rule, edits(changes)).since(first));
            }
        }
    }
}

/// What an instruction computes, and from which register.
fn operands(insn: &Insn) -> Option<(Reg, Reg)> {
    match *insn {
        Insn::Alu { dst, src: Operand::Imm(_), .. } => Some((dst, dst)),
        Insn::Mov { width: Width::W32, dst, src: Operand::Reg(src) } => Some((dst, src)),
        _ => None,
    }
}

/// What both together are, in one instruction.
fn replacements(first: &Insn, second: &Insn, dst: Reg) -> Vec<(&'static str, Insn)> {
    use AluOp::*;
    let narrow = |src: Reg| Insn::Mov { width: Width::W32, dst, src: Operand::Reg(src) };
    match (*first, *second) {
        (
            Insn::Alu { width: Width::W64, op: Lsh, src: Operand::Imm(n), .. },
            Insn::Alu { width: Width::W64, op: op @ (Rsh | Arsh), src: Operand::Imm(m), .. },
        ) if n == m && (32..64).contains(&n) => {
            let mut all = vec![("shifts/extend", narrow(dst))];
            if n > 32 && op == Rsh {
                let mask = Operand::Imm((u64::MAX >> n) as i32);
                all = vec![("shifts/mask", Insn::Alu { width: Width::W64, op: And, dst, src: mask })];
            }
            all
        }
        (Insn::Mov { src: Operand::Reg(src), .. }, Insn::Mov { width: Width::W32, .. }) => {
            vec![("shifts/copy", narrow(src))]
        }
        (
            Insn::Alu { width, op: a @ (Add | Sub), src: Operand::Imm(x), .. },
            Insn::Alu { width: w, op: b @ (Add | Sub), src: Operand::Imm(y), .. },
        ) if width == w => {
            let signed = |op: AluOp, v: i32| if op == Add { v as i64 } else { -(v as i64) };
            match i32::try_from(signed(a, x) + signed(b, y)) {
                Ok(sum) => vec![("shifts/add", Insn::Alu { width, op: Add, dst, src: Operand::Imm(sum) })],
                Err(_) => Vec::new(),
            }
        }
        (
            Insn::Alu { width, op: a, src: Operand::Imm(x), .. },
            Insn::Alu { width: w, op: b, src: Operand::Imm(y), .. },
        ) if width == w && a == b => {
            let src = match a {
                And => Operand::Imm(x & y),
                Or => Operand::Imm(x | y),
                Xor => Operand::Imm(x ^ y),
                Lsh | Rsh if x >= 0 && y >= 0 && x + y < width.bits() as i32 => Operand::Imm(x + y),
                _ => return Vec::new(),
            };
            vec![("shifts/same", Insn::Alu { width, op: a, dst, src })]
        }
        _ => Vec::new(),
    }
}
