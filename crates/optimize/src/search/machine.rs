//! The one semantics on numbers: registers and a few bytes of memory, fast enough for millions of
//! candidates a second.

use super::case::Fields;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::{self, Flow, Machine};

/// A candidate does what it may not: it reads what is undefined, or touches memory that is not its
/// to touch, or is not understood here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// Memory behind a [`Concrete`] machine.
pub trait Memory {
    /// Little-endian value of that many bytes.
    fn load(&mut self, address: u64, bytes: u32) -> Result<u64, Fault>;
    /// Stores the low bytes of `value`.
    fn store(&mut self, address: u64, bytes: u32, value: u64) -> Result<(), Fault>;
}

/// Registers, and which of them hold something.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Registers {
    /// Values; of undefined ones 0.
    pub values: [u64; Reg::COUNT],
    /// Those that are defined.
    pub defined: RegSet,
}

/// A machine over numbers.
pub struct Concrete<'a, M> {
    /// Registers.
    pub registers: &'a mut Registers,
    /// Memory.
    pub memory: M,
    /// Pointers that come from the context or the loader.
    pub fields: &'a Fields,
}

/// Where one instruction led.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Led {
    /// To the next.
    Next,
    /// To its target.
    Jumped(InsnId),
}

/// Executes one instruction.
#[inline]
pub fn step<M: Memory>(machine: &mut Concrete<M>, insn: &Insn) -> Result<Led, Fault> {
    match semantics::step(machine, insn)? {
        Flow::Next => Ok(Led::Next),
        Flow::Jump(to) | Flow::Branch(true, to) => Ok(Led::Jumped(to)),
        Flow::Branch(false, _) => Ok(Led::Next),
        Flow::MayGoto(_) | Flow::Call(_) | Flow::Exit => Err(Fault),
    }
}

impl<M: Memory> Machine for Concrete<'_, M> {
    type Value = u64;
    type Cond = bool;
    type Error = Fault;

    #[inline]
    fn constant(&mut self, value: u64) -> u64 {
        value
    }
    #[inline]
    fn reg(&mut self, reg: Reg) -> Result<u64, Fault> {
        if self.registers.defined.contains(reg) { Ok(self.registers.values[reg.index()]) } else { Err(Fault) }
    }
    #[inline]
    fn set_reg(&mut self, reg: Reg, value: u64) -> Result<(), Fault> {
        if reg == Reg::FP {
            return Err(Fault);
        }
        self.registers.values[reg.index()] = value;
        self.registers.defined = self.registers.defined.with(reg);
        Ok(())
    }
    #[inline]
    fn alu(&mut self, width: Width, op: AluOp, a: &u64, b: &u64) -> Result<u64, Fault> {
        Ok(semantics::concrete_alu(width, op, *a, *b))
    }
    #[inline]
    fn extend(&mut self, value: &u64, bits: u32, signed: bool) -> u64 {
        semantics::concrete_extend(*value, bits, signed)
    }
    #[inline]
    fn swap_bytes(&mut self, value: &u64, bits: u32) -> u64 {
        semantics::concrete_swap(*value, bits)
    }
    #[inline]
    fn compare(&mut self, width: Width, cond: Condition, a: &u64, b: &u64) -> bool {
        semantics::concrete_compare(width, cond, *a, *b)
    }
    fn load_imm(&mut self, value: Imm64<FuncId>) -> Result<u64, Fault> {
        Ok(self.fields.loaded(value))
    }
    #[inline]
    fn load(&mut self, address: &u64, size: Size) -> Result<u64, Fault> {
        match self.fields.pointer(*address, size) {
            Some(pointer) => Ok(pointer),
            None => self.memory.load(*address, size.bytes()),
        }
    }
    #[inline]
    fn store(&mut self, address: &u64, size: Size, value: &u64) -> Result<(), Fault> {
        self.memory.store(*address, size.bytes(), *value)
    }
    fn atomic(&mut self, _: AtomicOp, _: &u64, _: Size, _: &u64, _: Option<&u64>) -> Result<u64, Fault> {
        Err(Fault)
    }
    fn load_acquire(&mut self, _: &u64, _: Size) -> Result<u64, Fault> {
        Err(Fault)
    }
    fn store_release(&mut self, _: &u64, _: Size, _: &u64) -> Result<(), Fault> {
        Err(Fault)
    }
    fn legacy_load(&mut self, _: &u64, _: Size) -> Result<Option<u64>, Fault> {
        Err(Fault)
    }
    fn cast_address_space(&mut self, _: &u64, _: u16, _: u16) -> Result<u64, Fault> {
        Err(Fault)
    }
}
