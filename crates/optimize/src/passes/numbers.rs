//! Numbers that fit into instructions.

use karakoram_bpf::insn::*;

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
