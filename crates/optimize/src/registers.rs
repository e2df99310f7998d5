//! Instructions with other registers.

use karakoram_bpf::insn::*;

/// What an instruction does with an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Reads it.
    Read,
    /// Overwrites it.
    Write,
    /// Reads it, then overwrites it.
    Both,
}

/// The instruction with `name` of each register operand, which is asked for what is written first;
/// nothing where it is not an operand that says which register it is.
pub fn rename<J: Copy>(insn: &Insn<J>, mut name: impl FnMut(Reg, Role) -> Reg) -> Option<Insn<J>> {
    use Role::*;
    let source = |src: Operand, name: &mut dyn FnMut(Reg, Role) -> Reg| match src {
        Operand::Reg(r) => Operand::Reg(name(r, Read)),
        imm => imm,
    };
    Some(match *insn {
        Insn::Alu { width, op, dst, src } => Insn::Alu { width, op, dst: name(dst, Both), src: source(src, &mut name) },
        Insn::Mov { width, dst, src } => Insn::Mov { width, dst: name(dst, Write), src: source(src, &mut name) },
        Insn::MovSx { width, bits, dst, src } => {
            Insn::MovSx { width, bits, dst: name(dst, Write), src: name(src, Read) }
        }
        Insn::Neg { width, dst } => Insn::Neg { width, dst: name(dst, Both) },
        Insn::Endian { order, bits, dst } => Insn::Endian { order, bits, dst: name(dst, Both) },
        Insn::LoadImm { dst, value } => Insn::LoadImm { dst: name(dst, Write), value },
        Insn::Load { size, signed, dst, base, off } => {
            Insn::Load { size, signed, dst: name(dst, Write), base: name(base, Read), off }
        }
        Insn::Store { size, base, off, src } => {
            Insn::Store { size, base: name(base, Read), off, src: source(src, &mut name) }
        }
        Insn::Atomic { op: AtomicOp::Cmpxchg, .. } => return None,
        Insn::Atomic { op, fetch, size, base, off, src } => {
            let is_written = fetch || op == AtomicOp::Xchg;
            let src = name(src, if is_written { Both } else { Read });
            Insn::Atomic { op, fetch, size, base: name(base, Read), off, src }
        }
        Insn::LoadAcquire { size, dst, base, off } => {
            Insn::LoadAcquire { size, dst: name(dst, Write), base: name(base, Read), off }
        }
        Insn::StoreRelease { size, base, off, src } => {
            Insn::StoreRelease { size, base: name(base, Read), off, src: name(src, Read) }
        }
        Insn::Branch { width, cond, dst, src, target } => {
            Insn::Branch { width, cond, dst: name(dst, Read), src: source(src, &mut name), target }
        }
        Insn::Jump { .. } | Insn::MayGoto { .. } => *insn,
        Insn::Call(_) | Insn::Exit | Insn::LegacyLoad { .. } | Insn::AddrCast { .. } => return None,
    })
}

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
