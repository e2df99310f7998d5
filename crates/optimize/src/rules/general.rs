//! The machine on which rules are proven: registers and constants are terms, memory is an array of
//! bytes of which nothing is known. What instructions mean comes from the one semantics.

use super::expression::Numbers;
use super::template::{self, Template};
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::{self, Flow, Machine};
use karakoram_proof::arithmetic;
use karakoram_proof::term::{Term, Terms};

/// What both sides of a rule share.
#[derive(Default)]
pub struct World {
    /// All terms.
    pub terms: Terms,
    /// What holds of the unknowns, width 1.
    pub assumptions: Vec<Term>,
    /// Bytes of memory that were asked for: address and contents.
    bytes: Vec<(Term, Term)>,
}

/// A store: address, bytes, value.
type Write = (Term, u32, Term);

/// One side of a rule while it is executed.
#[derive(Clone)]
pub struct Side {
    /// Registers; `None`: what was there before is not known to the rule.
    pub regs: [Option<Term>; Reg::COUNT],
    /// Stores so far.
    pub writes: Vec<Write>,
    /// Whether control goes to the label, width 1.
    pub jumps: Term,
}

/// Why a side cannot be executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsayable;

impl World {
    /// What a byte of memory holds before the rule. Equal addresses hold equal bytes.
    fn initial(&mut self, address: Term) -> Term {
        if let Some((_, byte)) = self.bytes.iter().find(|(a, _)| *a == address) {
            return *byte;
        }
        let byte = self.terms.var(8);
        for (other, contents) in self.bytes.clone() {
            let (same, equal) = (self.terms.eq(address, other), self.terms.eq(byte, contents));
            let differ = self.terms.not(same);
            let consistent = self.terms.or(differ, equal);
            self.assumptions.push(consistent);
        }
        self.bytes.push((address, byte));
        byte
    }

    /// A byte of memory after those stores.
    pub fn byte(&mut self, writes: &[Write], address: Term) -> Term {
        let Some(((at, bytes, value), earlier)) = writes.split_last() else { return self.initial(address) };
        let distance = self.terms.sub(address, *at);
        if let Some(k) = self.terms.as_const(distance).filter(|k| *k < *bytes as u64) {
            return self.terms.extract(8 * k as u32 + 7, 8 * k as u32, *value);
        }
        let mut byte = self.byte(earlier, address);
        for k in 0..*bytes {
            let k64 = self.terms.constant(64, k as u64);
            let hit = self.terms.eq(distance, k64);
            let stored = self.terms.extract(8 * k + 7, 8 * k, *value);
            byte = self.terms.ite(hit, stored, byte);
        }
        byte
    }

    /// Width 1: a truth value of [`Numbers`] holds.
    pub fn holds(&mut self, value: Term) -> Term {
        let zero = self.terms.constant(64, 0);
        let is_zero = self.terms.eq(value, zero);
        self.terms.not(is_zero)
    }

    /// Executes one instruction, with those numbers in its holes.
    pub fn step(
        &mut self,
        side: &mut Side,
        template: &Template,
        imm: Option<Term>,
        off: Option<Term>,
    ) -> Result<(), Unsayable> {
        let (own_imm, own_off) = template::numbers(&template.insn);
        if own_imm.is_some_and(|v| v == IMM || v == OFF) || own_off == Some(OFF) {
            // It would be taken for a hole.
            return Err(Unsayable);
        }
        let marked = template::with_numbers(&template.insn, imm.map(|_| IMM), off.map(|_| OFF));
        let mut executor = Executor { world: self, side, imm, off };
        let condition = match semantics::step(&mut executor, &marked)? {
            Flow::Next => return Ok(()),
            Flow::Branch(condition, _) => condition,
            Flow::Jump(_) => self.terms.bool(true),
            _ => return Err(Unsayable),
        };
        side.jumps = condition;
        Ok(())
    }
}

impl Numbers for World {
    type Value = Term;

    fn number(&mut self, value: u64) -> Term {
        self.terms.constant(64, value)
    }
    fn alu(&mut self, op: AluOp, a: &Term, b: &Term) -> Term {
        arithmetic::alu(&mut self.terms, Width::W64, op, *a, *b)
    }
    fn compare(&mut self, condition: Condition, a: &Term, b: &Term) -> Term {
        let truth = arithmetic::compare(&mut self.terms, Width::W64, condition, *a, *b);
        self.terms.zero_extend(64, truth)
    }
    fn extend(&mut self, value: &Term, bits: u32, signed: bool) -> Term {
        arithmetic::extend(&mut self.terms, *value, bits, signed)
    }
    fn swap(&mut self, value: &Term, bits: u32) -> Term {
        arithmetic::swap_bytes(&mut self.terms, *value, bits)
    }
    fn log2(&mut self, value: &Term) -> Option<Term> {
        // Where there is none the rule does not apply, so it may be assumed that there is one.
        let exponent = self.terms.var(6);
        let exponent = self.terms.zero_extend(64, exponent);
        let one = self.terms.constant(64, 1);
        let power = self.terms.shl(one, exponent);
        let exact = self.terms.eq(power, *value);
        self.assumptions.push(exact);
        Some(exponent)
    }
}

/// What stands in an instruction where a hole is, until the machine is asked for that number.
const IMM: u64 = 0x5eed_5eed;
const OFF: u64 = 0x5eed;

struct Executor<'w> {
    world: &'w mut World,
    side: &'w mut Side,
    imm: Option<Term>,
    off: Option<Term>,
}

impl Machine for Executor<'_> {
    type Value = Term;
    type Cond = Term;
    type Error = Unsayable;

    fn constant(&mut self, value: u64) -> Term {
        match (value, self.imm, self.off) {
            (IMM, Some(imm), _) => imm,
            (OFF, _, Some(off)) => off,
            _ => self.world.terms.constant(64, value),
        }
    }
    fn reg(&mut self, reg: Reg) -> Result<Term, Unsayable> {
        self.side.regs[reg.index()].ok_or(Unsayable)
    }
    fn set_reg(&mut self, reg: Reg, value: Term) -> Result<(), Unsayable> {
        self.side.regs[reg.index()] = Some(value);
        if reg == Reg::FP { Err(Unsayable) } else { Ok(()) }
    }
    fn alu(&mut self, width: Width, op: AluOp, a: &Term, b: &Term) -> Result<Term, Unsayable> {
        Ok(arithmetic::alu(&mut self.world.terms, width, op, *a, *b))
    }
    fn extend(&mut self, value: &Term, bits: u32, signed: bool) -> Term {
        arithmetic::extend(&mut self.world.terms, *value, bits, signed)
    }
    fn swap_bytes(&mut self, value: &Term, bits: u32) -> Term {
        arithmetic::swap_bytes(&mut self.world.terms, *value, bits)
    }
    fn compare(&mut self, width: Width, cond: Condition, a: &Term, b: &Term) -> Term {
        arithmetic::compare(&mut self.world.terms, width, cond, *a, *b)
    }
    fn load_imm(&mut self, value: Imm64<FuncId>) -> Result<Term, Unsayable> {
        match value {
            Imm64::Value(v) => Ok(self.constant(v)),
            _ => Err(Unsayable),
        }
    }
    fn load(&mut self, address: &Term, size: Size) -> Result<Term, Unsayable> {
        let mut pieces = Vec::new();
        for i in (0..size.bytes() as u64).rev() {
            let distance = self.world.terms.constant(64, i);
            let at = self.world.terms.add(*address, distance);
            let writes = self.side.writes.clone();
            pieces.push(self.world.byte(&writes, at));
        }
        let value = self.world.terms.concat(&pieces);
        Ok(self.world.terms.zero_extend(64, value))
    }
    fn store(&mut self, address: &Term, size: Size, value: &Term) -> Result<(), Unsayable> {
        let value = self.world.terms.extract(size.bits() - 1, 0, *value);
        self.side.writes.push((*address, size.bytes(), value));
        Ok(())
    }
    fn atomic(&mut self, _: AtomicOp, _: &Term, _: Size, _: &Term, _: Option<&Term>) -> Result<Term, Unsayable> {
        Err(Unsayable)
    }
    fn load_acquire(&mut self, _: &Term, _: Size) -> Result<Term, Unsayable> {
        Err(Unsayable)
    }
    fn store_release(&mut self, _: &Term, _: Size, _: &Term) -> Result<(), Unsayable> {
        Err(Unsayable)
    }
    fn legacy_load(&mut self, _: &Term, _: Size) -> Result<Option<Term>, Unsayable> {
        Err(Unsayable)
    }
    fn cast_address_space(&mut self, _: &Term, _: u16, _: u16) -> Result<Term, Unsayable> {
        Err(Unsayable)
    }
}
