//! Instructions with other registers.

use crate::insn::*;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::{self, RegSet};

    const DST: Reg = Reg::R6;
    const BASE: Reg = Reg::R1;
    const SRC: Reg = Reg::R2;
    const OTHERS: [Reg; 3] = [Reg::R3, Reg::R4, Reg::R5];

    /// One instruction of each form, no register in two roles.
    fn all_forms() -> Vec<Insn> {
        let (dst, base, src) = (DST, BASE, SRC);
        let (size, width, target) = (Size::D, Width::W64, InsnId(0));
        let operands = [Operand::Reg(src), Operand::Imm(1)];
        let mut all = vec![
            Insn::MovSx { width, bits: 8, dst, src },
            Insn::Neg { width, dst },
            Insn::Endian { order: Endian::Big, bits: 16, dst },
            Insn::LoadImm { dst, value: Imm64::Value(1) },
            Insn::Load { size, signed: false, dst, base, off: 8 },
            Insn::LoadAcquire { size, dst, base, off: 8 },
            Insn::StoreRelease { size, base, off: 8, src },
            Insn::Jump { target, long: false },
            Insn::MayGoto { target },
        ];
        for src in operands {
            all.push(Insn::Alu { width, op: AluOp::Add, dst, src });
            all.push(Insn::Mov { width, dst, src });
            all.push(Insn::Store { size, base, off: 8, src });
            all.push(Insn::Branch { width, cond: Condition::Eq, dst, src, target });
        }
        for (op, fetch) in [(AtomicOp::Add, false), (AtomicOp::Add, true), (AtomicOp::Xchg, true)] {
            all.push(Insn::Atomic { op, fetch, size, base, off: 8, src });
        }
        all
    }

    /// Says the semantics: what was read and written under one name is under the other.
    #[test]
    fn all_operands_of_all_instructions_are_renamed() {
        let other = |r: Reg| [DST, BASE, SRC].iter().position(|o| *o == r).map_or(r, |n| OTHERS[n]);
        let renamed_set = |set: RegSet| set.iter().map(other).collect::<RegSet>();
        for insn in all_forms() {
            let renamed = rename(&insn, |r, _| other(r)).unwrap();
            let (old, new) = (effects::of(&insn), effects::of(&renamed));
            assert_eq!(new.reads, renamed_set(old.reads), "{insn:?}");
            assert_eq!(new.writes, renamed_set(old.writes), "{insn:?}");
            assert_eq!(rename(&renamed, |r, _| [DST, BASE, SRC][r.index() - 3]), Some(insn), "only that");
        }
    }

    #[test]
    fn what_names_registers_without_operands_is_left_alone() {
        let call: Insn = Insn::Call(Callee::Helper(1));
        let legacy = Insn::LegacyLoad { size: Size::W, index: Some(BASE), off: 0 };
        assert!([call, legacy, Insn::Exit].iter().all(|i| rename(i, |r, _| r).is_none()));
    }
}
