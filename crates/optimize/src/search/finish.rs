//! The last instruction of a candidate, found from what is still wrong: constants are solved for,
//! not guessed.

use super::case::{BYTES, Case, Snapshot};
use super::vocabulary::{Place, Vocabulary, is_useful};
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::concrete_compare;

/// What is wrong with states, compared with what is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wrong {
    /// Registers, one bit each.
    pub registers: u16,
    /// Whether memory is.
    pub memory: bool,
}

impl Wrong {
    /// Compares all states.
    pub fn of(cases: &[Case], at: &[Snapshot]) -> Wrong {
        let mut wrong = Wrong::default();
        for (case, s) in cases.iter().zip(at) {
            for r in case.exit.live.iter() {
                if !case.agrees_on(s, r) {
                    wrong.registers |= 1 << r.index();
                }
            }
            wrong.memory |= !case.agrees_on_memory(s);
        }
        wrong
    }

    /// Instructions that it takes at least to set it right.
    pub fn distance(self) -> usize {
        self.registers.count_ones() as usize + self.memory as usize
    }
}

/// States after a prefix of a candidate, to be finished.
pub struct Finish<'a> {
    /// The cases.
    pub cases: &'a [Case],
    /// A state for each.
    pub at: &'a [Snapshot],
    /// What candidates are made of.
    pub vocabulary: &'a Vocabulary,
    /// Candidates that were evaluated.
    pub evaluated: u64,
}

impl Finish<'_> {
    /// Instructions that give a register the value it should have in all cases.
    pub fn register(&mut self, dst: Reg) -> Vec<Insn> {
        let mut found = Vec::new();
        self.moves(dst, &mut found);
        if self.at.iter().all(|s| s.registers.defined.contains(dst)) {
            self.arithmetic(dst, &mut found);
        }
        for Place { base, off, size } in self.vocabulary.loads.iter().copied() {
            self.consider(Insn::Load { size, signed: false, dst, base, off }, &mut found);
            if self.vocabulary.isa.v4 && size != Size::D {
                self.consider(Insn::Load { size, signed: true, dst, base, off }, &mut found);
            }
        }
        found
    }

    fn moves(&mut self, dst: Reg, found: &mut Vec<Insn>) {
        if let Some(constant) = self.same_wanted(dst) {
            if let Ok(c) = i32::try_from(constant as i64) {
                self.consider(Insn::Mov { width: Width::W64, dst, src: Operand::Imm(c) }, found);
            } else if let Ok(c) = u32::try_from(constant) {
                self.consider(Insn::Mov { width: Width::W32, dst, src: Operand::Imm(c as i32) }, found);
            }
        }
        for src in self.vocabulary.sources.clone() {
            for width in [Width::W64, Width::W32] {
                self.consider(Insn::Mov { width, dst, src: Operand::Reg(src) }, found);
                if self.vocabulary.isa.v4 {
                    for bits in [8, 16, 32].into_iter().filter(|b| *b < width.bits() as u8) {
                        self.consider(Insn::MovSx { width, bits, dst, src }, found);
                    }
                }
            }
        }
    }

    fn arithmetic(&mut self, dst: Reg, found: &mut Vec<Insn>) {
        use AluOp::*;
        for width in [Width::W64, Width::W32] {
            for op in [Add, Sub, Or, And, Xor, Lsh, Rsh, Arsh, Mul] {
                for c in self.solve(dst, width, op) {
                    self.consider(Insn::Alu { width, op, dst, src: Operand::Imm(c) }, found);
                }
                for src in self.vocabulary.sources.clone() {
                    self.consider(Insn::Alu { width, op, dst, src: Operand::Reg(src) }, found);
                }
            }
            for op in self.vocabulary.operators.clone() {
                if matches!(op, Div | Mod | SDiv | SMod) {
                    for c in self.vocabulary.constants.clone().into_iter().filter(|c| *c != 0) {
                        self.consider(Insn::Alu { width, op, dst, src: Operand::Imm(c) }, found);
                    }
                    for src in self.vocabulary.sources.clone() {
                        self.consider(Insn::Alu { width, op, dst, src: Operand::Reg(src) }, found);
                    }
                }
            }
            self.consider(Insn::Neg { width, dst }, found);
        }
        for bits in [16, 32, 64] {
            self.consider(Insn::Endian { order: Endian::Big, bits, dst }, found);
            if self.vocabulary.isa.v4 {
                self.consider(Insn::Endian { order: Endian::Swap, bits, dst }, found);
            }
        }
        self.consider(Insn::Endian { order: Endian::Little, bits: 16, dst }, found);
    }

    /// Constants with which the operator may give what is wanted.
    fn solve(&self, dst: Reg, width: Width, op: AluOp) -> Vec<i32> {
        let Some((have, want)) = self.pairs(dst).next() else { return Vec::new() };
        if width == Width::W32 && want > u32::MAX as u64 {
            return Vec::new();
        }
        let narrow = |c: u64| match width {
            Width::W64 => i32::try_from(c as i64).ok(),
            Width::W32 => Some(c as i32),
        };
        let solutions: Vec<i32> = match op {
            AluOp::Add => narrow(want.wrapping_sub(have)).into_iter().collect(),
            AluOp::Sub => narrow(have.wrapping_sub(want)).into_iter().collect(),
            AluOp::Xor => narrow(want ^ have).into_iter().collect(),
            AluOp::And => {
                // Bits that must stay; all others may go, or stay too where that changes nothing.
                let keep = self.pairs(dst).fold(0, |keep, (_, w)| keep | w);
                let clear = self.pairs(dst).fold(0, |clear, (h, w)| clear | h & !w);
                [narrow(keep), narrow(!clear), narrow(keep | (!clear & 0xffff_ffff_0000_0000))]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            AluOp::Or => narrow(self.pairs(dst).fold(0, |set, (h, w)| set | w & !h)).into_iter().collect(),
            AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => (1..width.bits() as i32).collect(),
            _ => self.vocabulary.constants.clone(),
        };
        solutions.into_iter().filter(|c| is_useful(op, width, *c)).collect()
    }

    /// What a register holds and what it should, in the cases where it matters.
    fn pairs(&self, dst: Reg) -> impl Iterator<Item = (u64, u64)> {
        let i = dst.index();
        let all = self.cases.iter().zip(self.at).filter(move |(case, _)| case.exit.live.contains(dst));
        all.map(move |(case, s)| (s.registers.values[i], case.expected.registers.values[i]))
    }

    fn same_wanted(&self, dst: Reg) -> Option<u64> {
        let mut wanted = self.pairs(dst).map(|(_, want)| want);
        let first = wanted.next()?;
        wanted.all(|w| w == first).then_some(first)
    }

    /// Keeps an instruction that sets its register right everywhere.
    fn consider(&mut self, insn: Insn, found: &mut Vec<Insn>) {
        self.evaluated += 1;
        let right = |(case, s): (&Case, &Snapshot)| {
            let mut s = *s;
            case.step(&mut s, &insn).is_ok()
                && karakoram_bpf::effects::of(&insn).writes.iter().all(|r| case.agrees_on(&s, r))
        };
        if self.cases.iter().zip(self.at).all(right) {
            found.push(insn);
        }
    }

    /// Stores that set memory right.
    pub fn memory(&mut self) -> Vec<Insn> {
        let mut found = Vec::new();
        for Place { base, off, size } in self.vocabulary.stores.clone() {
            for src in self.vocabulary.sources.clone() {
                self.consider_store(Insn::Store { size, base, off, src: Operand::Reg(src) }, &mut found);
            }
            if let Some(src) = self.stored_constant(base, off, size) {
                self.consider_store(Insn::Store { size, base, off, src: Operand::Imm(src) }, &mut found);
            }
        }
        found
    }

    /// The constant that is to be at a place in all cases, as far as it matters there.
    fn stored_constant(&self, base: Reg, off: i16, size: Size) -> Option<i32> {
        let (mut value, mut known) = (0u64, 0u64);
        for (case, s) in self.cases.iter().zip(self.at) {
            let address = s.registers.values[base.index()].wrapping_add(off as i64 as u64);
            let at = case.place(address, size.bytes())?;
            for i in 0..(size.bytes() as usize).min(BYTES - at) {
                let (byte, mask) = (case.expected.bytes[at + i] as u64, case.matters[at + i] as u64);
                let before = value >> (8 * i) & 0xff;
                if mask != 0 && known >> (8 * i) & 0xff != 0 && before != byte {
                    return None;
                }
                value |= (byte & mask) << (8 * i);
                known |= mask << (8 * i);
            }
        }
        match size {
            Size::D => i32::try_from(value as i64).ok(),
            _ => Some(((value << (64 - size.bits())) as i64 >> (64 - size.bits())) as i32),
        }
    }

    fn consider_store(&mut self, insn: Insn, found: &mut Vec<Insn>) {
        self.evaluated += 1;
        let right = |(case, s): (&Case, &Snapshot)| {
            let mut s = *s;
            case.step(&mut s, &insn).is_ok() && case.agrees_on_memory(&s)
        };
        if self.cases.iter().zip(self.at).all(right) {
            found.push(insn);
        }
    }

    /// Branches that are taken in the same cases as the original, of registers that the window uses.
    pub fn branch(&mut self, target: InsnId) -> Vec<Insn> {
        use Condition::*;
        let mut found = Vec::new();
        let registers: Vec<Reg> = self.vocabulary.sources[..self.vocabulary.used]
            .iter()
            .copied()
            .filter(|r| *r != Reg::FP)
            .filter(|r| self.at.iter().all(|s| s.registers.defined.contains(*r)))
            .collect();
        for width in self.vocabulary.branch_widths.clone() {
            for &dst in &registers {
                let constants = self.vocabulary.constants.iter().map(|c| Operand::Imm(*c));
                let others = registers.iter().filter(|r| **r != dst).map(|r| Operand::Reg(*r));
                let mut operands: Vec<Operand> = constants.chain(others).collect();
                operands.extend(self.common(dst, true).into_iter().chain(self.common(dst, false)).map(Operand::Imm));
                for src in operands {
                    for cond in [Eq, Ne, Gt, Ge, Lt, Le, Set, SGt, SGe, SLt, SLe] {
                        self.evaluated += 1;
                        let right = |(case, s): (&Case, &Snapshot)| {
                            let b = match src {
                                Operand::Reg(r) => s.registers.values[r.index()],
                                Operand::Imm(i) => i as i64 as u64,
                            };
                            concrete_compare(width, cond, s.registers.values[dst.index()], b) == case.taken
                        };
                        if self.cases.iter().zip(self.at).all(right) {
                            found.push(Insn::Branch { width, cond, dst, src, target });
                        }
                    }
                }
            }
        }
        found
    }

    /// The only value of a register in the cases that go that way.
    fn common(&self, dst: Reg, taken: bool) -> Option<i32> {
        let cases = self.cases.iter().zip(self.at).filter(|(case, _)| case.taken == taken);
        let mut values = cases.map(|(_, s)| s.registers.values[dst.index()]);
        let first = values.next()?;
        values.all(|v| v == first).then(|| i32::try_from(first as i64).ok())?
    }
}
