//! Operands that are known numbers: constants in place of registers.

use crate::context::Context;
use crate::proposal::{Proposal, edits};
use karakoram_bpf::insn::*;

pub(super) fn propose(context: &Context, out: &mut Vec<Proposal>) {
    for p in (0..context.len()).filter(|p| context.facts.is_reachable(*p) && !context.is_patched(*p)) {
        if let Some((rule, insn)) = with_constant(context, p) {
            out.push(Proposal::new(rule, edits(vec![(p, Some(context.instead(p, insn)))])));
        }
    }
}

fn with_constant(context: &Context, p: usize) -> Option<(&'static str, Insn)> {
    let value = |r: Reg| context.value(p, r);
    Some(match *context.insn(p) {
        Insn::Alu { width, op, dst, src: Operand::Reg(r) } => {
            let v = value(r)?;
            if let Some(imm) = immediate(width, v) {
                return Some(("constant/operand", Insn::Alu { width, op, dst, src: Operand::Imm(imm) }));
            }
            // A constant of 32 bits can do where the high half of the result is zero anyway.
            let src = Operand::Imm(u32::try_from(v).ok()? as i32);
            ("constant/narrow", Insn::Alu { width: Width::W32, op, dst, src })
        }
        Insn::Mov { width, dst, src: Operand::Reg(r) } => {
            let src = Operand::Imm(immediate(width, value(r)?)?);
            ("constant/operand", Insn::Mov { width, dst, src })
        }
        Insn::Store { size, base, off, src: Operand::Reg(r) } => {
            let v = value(r)?;
            let src = Operand::Imm(if size == Size::D { immediate(Width::W64, v)? } else { v as i32 });
            ("constant/store", Insn::Store { size, base, off, src })
        }
        Insn::Branch { width, cond, dst, src: Operand::Reg(r), target } => {
            if let Some(imm) = value(r).and_then(|v| immediate(width, v)) {
                return Some(("constant/compare", Insn::Branch { width, cond, dst, src: Operand::Imm(imm), target }));
            }
            let src = Operand::Imm(immediate(width, value(dst)?)?);
            ("constant/compare", Insn::Branch { width, cond: cond.swapped(), dst: r, src, target })
        }
        Insn::LoadImm { dst, value: Imm64::Value(v) } => ("constant/load", load(dst, v)?),
        _ => return None,
    })
}

/// The constant that means `v` as an operand of that width.
pub(super) fn immediate(width: Width, v: u64) -> Option<i32> {
    match width {
        Width::W32 => Some(v as i32),
        Width::W64 => i32::try_from(v as i64).ok(),
    }
}

/// A move of that number in one slot, when there is one.
pub(super) fn load(dst: Reg, v: u64) -> Option<Insn> {
    let width = match (i32::try_from(v as i64), u32::try_from(v)) {
        (Ok(_), _) => Width::W64,
        (_, Ok(_)) => Width::W32,
        _ => return None,
    };
    Some(Insn::Mov { width, dst, src: Operand::Imm(v as i32) })
}

/// The number that a move of a constant leaves.
pub(super) fn value(width: Width, imm: i32) -> u64 {
    match width {
        Width::W32 => imm as u32 as u64,
        Width::W64 => imm as i64 as u64,
    }
}
