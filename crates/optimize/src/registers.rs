//! Instructions with other registers, some of them.

use karakoram_bpf::insn::*;
pub use karakoram_bpf::registers::{Role, rename};

/// The same for instructions without order or atomicity, where not every register need have another
/// name; nothing when one has none.
pub fn rename_known(insn: &Insn, name: impl Fn(Reg) -> Option<Reg>) -> Option<Insn> {
    let is_ordered = matches!(insn, Insn::Atomic { .. } | Insn::LoadAcquire { .. } | Insn::StoreRelease { .. });
    if is_ordered || matches!(insn, Insn::MayGoto { .. }) || operands(insn).iter().any(|(r, _)| name(*r).is_none()) {
        return None;
    }
    rename(insn, |r, _| name(r).unwrap_or(r))
}

/// The register operands of an instruction, what is written first.
pub fn operands<J: Copy>(insn: &Insn<J>) -> Vec<(Reg, Role)> {
    let mut found = Vec::new();
    let note = |r, role| {
        found.push((r, role));
        r
    };
    rename(insn, note).map_or_else(Vec::new, |_| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_in_order() {
        let load: Insn = Insn::Load { size: Size::W, signed: false, dst: Reg::R3, base: Reg::R2, off: 4 };
        assert_eq!(operands(&load), [(Reg::R3, Role::Write), (Reg::R2, Role::Read)]);
        assert_eq!(operands(&Insn::<InsnId>::Exit), []);
    }

    #[test]
    fn all_operands_are_renamed() {
        let store: Insn = Insn::Store { size: Size::W, base: Reg::R3, off: 0, src: Operand::Reg(Reg::R3) };
        let other = Insn::Store { size: Size::W, base: Reg::R5, off: 0, src: Operand::Reg(Reg::R5) };
        assert_eq!(rename(&store, |_, _| Reg::R5), Some(other));
    }
}
