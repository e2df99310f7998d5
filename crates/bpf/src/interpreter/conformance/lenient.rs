//! Programs with constants that have a meaning but that no verifier lets pass.

use crate::encode::{self, Slot};
use crate::hook::Hook;
use crate::insn::{AluOp, Insn, Operand};
use crate::program::{Program, ProgramError};

/// Decodes slots; divisors and shift distances may be any constant.
pub(super) fn program(mut slots: Vec<Slot>, hook: Hook) -> Result<Program, ProgramError> {
    let mut by_zero = Vec::new();
    let (mut at, mut count) = (0, 0);
    while at < slots.len() {
        if encode::decode(&slots, at).is_err() && mend(&mut slots, at) == Some(Mended::Divisor) {
            by_zero.push(count);
        }
        at += encode::decode(&slots, at).map_or(1, |insn| insn.slots());
        count += 1;
    }
    let mut program = Program::from_slots(&slots, hook, Vec::new())?;
    let nodes = program.functions.iter_mut().flat_map(|f| f.nodes.iter_mut());
    for (_, node) in nodes.enumerate().filter(|(n, _)| by_zero.contains(n)) {
        if let Insn::Alu { src, .. } = &mut node.insn {
            *src = Operand::Imm(0);
        }
    }
    Ok(program)
}

#[derive(PartialEq, Eq)]
enum Mended {
    /// It stands for a division by zero.
    Divisor,
    /// It means the same.
    Shift,
}

/// Replaces the constant of an instruction that does not decode by one with which it does.
fn mend(slots: &mut [Slot], at: usize) -> Option<Mended> {
    let original = slots[at].imm;
    // One is in range for both; it shows what the instruction is.
    slots[at].imm = 1;
    let mended = match encode::decode(slots, at) {
        Ok(Insn::Alu { op: AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod, src: Operand::Imm(_), .. }) => {
            Some(Mended::Divisor)
        }
        Ok(Insn::Alu { op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, width, src: Operand::Imm(_), .. }) => {
            slots[at].imm = original & (width.bits() as i32 - 1);
            Some(Mended::Shift)
        }
        _ => None,
    };
    if mended.is_none() {
        slots[at].imm = original;
    }
    mended
}
