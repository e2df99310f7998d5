//! Which numbers an instruction has room for, and what it makes of them.
//!
//! These are side conditions that no rule has to write down: where a constant does not fit, the rule
//! does not apply; and what stands in a program fits.

use super::expression::Numbers;
use karakoram_bpf::insn::*;

/// What must be true of a constant operand.
pub fn imm<N: Numbers>(n: &mut N, insn: &Insn, value: &N::Value) -> Vec<N::Value> {
    let mut all = Vec::new();
    if is_whole(insn) {
        let cut = n.extend(value, 32, true);
        all.push(n.compare(Condition::Eq, &cut, value));
    }
    match insn {
        Insn::Alu { width, op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, .. } => {
            let bits = n.number(width.bits() as u64);
            all.push(n.compare(Condition::Lt, value, &bits));
        }
        Insn::Alu { op: AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod, .. } => {
            let (low, zero) = (n.extend(value, 32, false), n.number(0));
            all.push(n.compare(Condition::Ne, &low, &zero));
        }
        _ => {}
    }
    all
}

/// What must be true of a distance.
pub fn off<N: Numbers>(n: &mut N, value: &N::Value) -> N::Value {
    let cut = n.extend(value, 16, true);
    n.compare(Condition::Eq, &cut, value)
}

/// The constant operand that a number becomes which fits: its low 32 bits, sign-extended.
pub fn cut<N: Numbers>(n: &mut N, insn: &Insn, value: &N::Value) -> N::Value {
    match is_whole(insn) || matches!(insn, Insn::LoadImm { .. }) {
        true => value.clone(),
        false => n.extend(value, 32, true),
    }
}

/// Whether a constant operand only has so many values: the width of a shift.
pub fn count(insn: &Insn) -> Option<u64> {
    match insn {
        Insn::Alu { width, op: AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, src: Operand::Imm(_), .. } => {
            Some(width.bits() as u64)
        }
        _ => None,
    }
}

/// Whether the instruction uses all 64 bits of its constant, of which it has 32.
fn is_whole(insn: &Insn) -> bool {
    match insn {
        Insn::Alu { width, .. } | Insn::Mov { width, .. } | Insn::Branch { width, .. } => *width == Width::W64,
        Insn::Store { size, .. } => *size == Size::D,
        _ => false,
    }
}
