//! Instructions with holes: registers stand for any registers, and constants may be expressions.

use super::expression::Expression;
use crate::registers;
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;

/// An instruction of a rule. Its registers are variables (`r10` is itself); where a hole has an
/// expression, the instruction's own number does not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    /// What it does.
    pub insn: Insn,
    /// The constant operand.
    pub imm: Option<Expression>,
    /// The distance of a memory access.
    pub off: Option<Expression>,
}

/// Which operand of an instruction reads a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The operand that stands first and is usually also written.
    First,
    /// The operand that stands second, or the base of an access.
    Second,
}

/// The target that every jump of a rule has.
pub const LABEL: InsnId = InsnId(0);

/// The registers that an instruction reads, by operand.
pub fn reads(insn: &Insn) -> Vec<(Role, Reg)> {
    let second = |src: &Operand| match src {
        Operand::Reg(r) => vec![(Role::Second, *r)],
        Operand::Imm(_) => Vec::new(),
    };
    match insn {
        Insn::Alu { dst, src, .. } | Insn::Branch { dst, src, .. } => [vec![(Role::First, *dst)], second(src)].concat(),
        Insn::Mov { src, .. } => second(src),
        Insn::MovSx { src, .. } => vec![(Role::Second, *src)],
        Insn::Neg { dst, .. } | Insn::Endian { dst, .. } => vec![(Role::First, *dst)],
        Insn::Load { base, .. } => vec![(Role::Second, *base)],
        Insn::Store { base, src: Operand::Reg(r), .. } => vec![(Role::First, *r), (Role::Second, *base)],
        Insn::Store { base, .. } => vec![(Role::Second, *base)],
        _ => Vec::new(),
    }
}

/// Whether rules can speak of such an instruction.
pub fn is_sayable(insn: &Insn) -> bool {
    matches!(
        insn,
        Insn::Alu { .. }
            | Insn::Mov { .. }
            | Insn::MovSx { .. }
            | Insn::Neg { .. }
            | Insn::Endian { .. }
            | Insn::Load { .. }
            | Insn::Store { .. }
            | Insn::Branch { .. }
            | Insn::LoadImm { value: Imm64::Value(_), .. }
    )
}

/// The constant operand as the number it means, and the distance of a memory access.
pub fn numbers(insn: &Insn) -> (Option<u64>, Option<u64>) {
    let extended = |i: i32| i as i64 as u64;
    let imm = match insn {
        Insn::Alu { src: Operand::Imm(i), .. }
        | Insn::Mov { src: Operand::Imm(i), .. }
        | Insn::Store { src: Operand::Imm(i), .. }
        | Insn::Branch { src: Operand::Imm(i), .. } => Some(extended(*i)),
        Insn::LoadImm { value: Imm64::Value(v), .. } => Some(*v),
        _ => None,
    };
    let off = match insn {
        Insn::Load { off, .. } | Insn::Store { off, .. } => Some(*off as i64 as u64),
        _ => None,
    };
    (imm, off)
}

/// The instruction with that constant operand and distance in place of its own. Both are cut to the
/// bits that the instruction has for them; [`super::limits`] says which numbers survive that.
pub fn with_numbers(insn: &Insn, imm: Option<u64>, off: Option<u64>) -> Insn {
    let mut new = *insn;
    if let Some(v) = imm {
        match &mut new {
            Insn::Alu { src, .. } | Insn::Mov { src, .. } | Insn::Store { src, .. } | Insn::Branch { src, .. } => {
                *src = Operand::Imm(v as i32);
            }
            Insn::LoadImm { value, .. } => *value = Imm64::Value(v),
            _ => {}
        }
    }
    if let (Some(v), Insn::Load { off, .. } | Insn::Store { off, .. }) = (off, &mut new) {
        *off = v as i16;
    }
    new
}

/// The registers of an instruction, operand by operand, so that those of two instructions of one
/// shape correspond.
pub fn registers(insn: &Insn) -> Vec<Reg> {
    let operand = |src: &Operand| match src {
        Operand::Reg(r) => vec![*r],
        Operand::Imm(_) => Vec::new(),
    };
    match insn {
        Insn::Alu { dst, src, .. } | Insn::Mov { dst, src, .. } | Insn::Branch { dst, src, .. } => {
            [vec![*dst], operand(src)].concat()
        }
        Insn::MovSx { dst, src, .. } => vec![*dst, *src],
        Insn::Neg { dst, .. } | Insn::Endian { dst, .. } | Insn::LoadImm { dst, .. } => vec![*dst],
        Insn::Load { dst, base, .. } => vec![*dst, *base],
        Insn::Store { base, src, .. } => [vec![*base], operand(src)].concat(),
        _ => Vec::new(),
    }
}

/// The instruction without its registers, constants and target: what the index compares.
pub fn shape(insn: &Insn) -> Option<Insn> {
    let bare = registers::rename_known(insn, |_| Some(Reg::R0))?;
    let bare = with_numbers(&bare, numbers(&bare).0.map(|_| 0), Some(0));
    Some(bare.map(|_| LABEL, |f| f))
}

impl Template {
    /// Registers it reads.
    pub fn reads(&self) -> RegSet {
        effects::of(&self.insn).reads
    }

    /// Registers it writes.
    pub fn writes(&self) -> RegSet {
        effects::of(&self.insn).writes
    }

    /// Whether it does something besides writing a register.
    pub fn has_effect(&self) -> bool {
        matches!(self.insn, Insn::Store { .. } | Insn::Branch { .. } | Insn::Jump { .. })
    }
}
