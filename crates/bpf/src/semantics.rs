//! What an instruction means: written once, over a [`Machine`] that decides what a value is.
//!
//! The interpreter instantiates it with numbers, the prover with bit-vector terms, the fact
//! analysis with abstract values, and [`crate::effects`] with nothing at all, to learn what is read
//! and written. Control flow is returned as [`Flow`]; what a call does is left to the machine's
//! driver, which has the contracts.

use crate::insn::*;

/// Primitive operations on values. `Value` is a 64-bit quantity.
pub trait Machine {
    /// A 64-bit value.
    type Value: Clone;
    /// A truth value.
    type Cond;
    /// Why a step could not be taken.
    type Error;

    /// That number.
    fn constant(&mut self, value: u64) -> Self::Value;
    /// The constant that arithmetic is written with: that number, unless the loader puts another there.
    fn immediate(&mut self, value: i32) -> Self::Value {
        self.constant(value as i64 as u64)
    }
    /// Reads a register.
    fn reg(&mut self, reg: Reg) -> Result<Self::Value, Self::Error>;
    /// Writes a register; writing `r10` is an error of the program.
    fn set_reg(&mut self, reg: Reg, value: Self::Value) -> Result<(), Self::Error>;
    /// `a op b` at that width; at 32 bits the low halves are combined and the result zero-extended.
    fn alu(&mut self, width: Width, op: AluOp, a: &Self::Value, b: &Self::Value) -> Result<Self::Value, Self::Error>;
    /// The low `bits` of `value`, zero- or sign-extended to 64 bits.
    fn extend(&mut self, value: &Self::Value, bits: u32, signed: bool) -> Self::Value;
    /// The low `bits` (16, 32, 64) with their bytes reversed, zero-extended.
    fn swap_bytes(&mut self, value: &Self::Value, bits: u32) -> Self::Value;
    /// Compares at that width.
    fn compare(&mut self, width: Width, cond: Condition, a: &Self::Value, b: &Self::Value) -> Self::Cond;
    /// What a two-slot constant evaluates to.
    fn load_imm(&mut self, value: Imm64<FuncId>) -> Result<Self::Value, Self::Error>;
    /// Loads, zero-extended.
    fn load(&mut self, address: &Self::Value, size: Size) -> Result<Self::Value, Self::Error>;
    /// Stores the low bytes of `value`.
    fn store(&mut self, address: &Self::Value, size: Size, value: &Self::Value) -> Result<(), Self::Error>;
    /// One indivisible read-modify-write; returns the old memory value, zero-extended.
    /// `expected` is what `Cmpxchg` compares with. See [`atomic_result`] for the new value.
    fn atomic(
        &mut self,
        op: AtomicOp,
        address: &Self::Value,
        size: Size,
        operand: &Self::Value,
        expected: Option<&Self::Value>,
    ) -> Result<Self::Value, Self::Error>;
    /// Loads with acquire ordering.
    fn load_acquire(&mut self, address: &Self::Value, size: Size) -> Result<Self::Value, Self::Error>;
    /// Stores with release ordering.
    fn store_release(&mut self, address: &Self::Value, size: Size, value: &Self::Value) -> Result<(), Self::Error>;
    /// Legacy packet load at `offset` (32 bits, already summed) through the context in `r6`;
    /// `None` ends the program with 0.
    fn legacy_load(&mut self, offset: &Self::Value, size: Size) -> Result<Option<Self::Value>, Self::Error>;
    /// Converts a pointer between address spaces.
    fn cast_address_space(&mut self, value: &Self::Value, to: u16, from: u16) -> Result<Self::Value, Self::Error>;
}

/// Where control goes after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow<C> {
    /// To the next instruction.
    Next,
    /// To the target.
    Jump(InsnId),
    /// To the target when the condition holds.
    Branch(C, InsnId),
    /// To the target when the kernel's loop budget is used up, else to the next.
    MayGoto(InsnId),
    /// Into a callee, then to the next instruction.
    Call(Callee<FuncId>),
    /// Out of the function.
    Exit,
}

/// Executes one instruction.
pub fn step<M: Machine>(m: &mut M, insn: &Insn) -> Result<Flow<M::Cond>, M::Error> {
    match *insn {
        Insn::Alu { width, op, dst, src } => {
            let a = m.reg(dst)?;
            let b = operand(m, src)?;
            let result = m.alu(width, op, &a, &b)?;
            m.set_reg(dst, result)?;
        }
        Insn::Mov { width, dst, src } => {
            let v = operand(m, src)?;
            let v = if width == Width::W32 { m.extend(&v, 32, false) } else { v };
            m.set_reg(dst, v)?;
        }
        Insn::MovSx { width, bits, dst, src } => {
            let v = m.reg(src)?;
            let v = m.extend(&v, bits as u32, true);
            let v = if width == Width::W32 { m.extend(&v, 32, false) } else { v };
            m.set_reg(dst, v)?;
        }
        Insn::Neg { width, dst } => {
            let v = m.reg(dst)?;
            let zero = m.constant(0);
            let v = m.alu(width, AluOp::Sub, &zero, &v)?;
            m.set_reg(dst, v)?;
        }
        Insn::Endian { order, bits, dst } => {
            let v = m.reg(dst)?;
            let v = match order {
                // The project means little-endian machines throughout.
                Endian::Little => m.extend(&v, bits as u32, false),
                Endian::Big | Endian::Swap => m.swap_bytes(&v, bits as u32),
            };
            m.set_reg(dst, v)?;
        }
        Insn::AddrCast { dst, src, to, from } => {
            let v = m.reg(src)?;
            let v = m.cast_address_space(&v, to, from)?;
            m.set_reg(dst, v)?;
        }
        Insn::LoadImm { dst, value } => {
            let v = m.load_imm(value)?;
            m.set_reg(dst, v)?;
        }
        Insn::Load { size, signed, dst, base, off } => {
            let address = address(m, base, off)?;
            let v = m.load(&address, size)?;
            let v = if signed { m.extend(&v, size.bits(), true) } else { v };
            m.set_reg(dst, v)?;
        }
        Insn::Store { size, base, off, src } => {
            let address = address(m, base, off)?;
            let v = operand(m, src)?;
            m.store(&address, size, &v)?;
        }
        Insn::Atomic { op, fetch, size, base, off, src } => {
            let address = address(m, base, off)?;
            let v = m.reg(src)?;
            let expected = if op == AtomicOp::Cmpxchg { Some(m.reg(Reg::R0)?) } else { None };
            let old = m.atomic(op, &address, size, &v, expected.as_ref())?;
            match op {
                AtomicOp::Cmpxchg => m.set_reg(Reg::R0, old)?,
                _ if fetch => m.set_reg(src, old)?,
                _ => {}
            }
        }
        Insn::LoadAcquire { size, dst, base, off } => {
            let address = address(m, base, off)?;
            let v = m.load_acquire(&address, size)?;
            m.set_reg(dst, v)?;
        }
        Insn::StoreRelease { size, base, off, src } => {
            let address = address(m, base, off)?;
            let v = m.reg(src)?;
            m.store_release(&address, size, &v)?;
        }
        Insn::LegacyLoad { size, index, off } => {
            // Reads the context in r6 and clobbers the argument registers, like a helper call.
            m.reg(Reg::R6)?;
            let off = m.constant(off as i64 as u64);
            let off = match index {
                None => off,
                Some(r) => {
                    let r = m.reg(r)?;
                    m.alu(Width::W32, AluOp::Add, &r, &off)?
                }
            };
            match m.legacy_load(&off, size)? {
                Some(v) => m.set_reg(Reg::R0, v)?,
                None => {
                    let zero = m.constant(0);
                    m.set_reg(Reg::R0, zero)?;
                    return Ok(Flow::Exit);
                }
            }
        }
        Insn::Jump { target, .. } => return Ok(Flow::Jump(target)),
        Insn::Branch { width, cond, dst, src, target } => {
            let a = m.reg(dst)?;
            let b = operand(m, src)?;
            return Ok(Flow::Branch(m.compare(width, cond, &a, &b), target));
        }
        Insn::MayGoto { target } => return Ok(Flow::MayGoto(target)),
        Insn::Call(callee) => {
            if let Callee::Register(r) = callee {
                m.reg(r)?;
            }
            return Ok(Flow::Call(callee));
        }
        Insn::Exit => return Ok(Flow::Exit),
    }
    Ok(Flow::Next)
}

fn operand<M: Machine>(m: &mut M, src: Operand) -> Result<M::Value, M::Error> {
    match src {
        Operand::Reg(r) => m.reg(r),
        Operand::Imm(i) => Ok(m.immediate(i)),
    }
}

fn address<M: Machine>(m: &mut M, base: Reg, off: i16) -> Result<M::Value, M::Error> {
    let base = m.reg(base)?;
    if off == 0 {
        return Ok(base);
    }
    let off = m.constant(off as i64 as u64);
    m.alu(Width::W64, AluOp::Add, &base, &off)
}

/// The value an atomic operation leaves in memory, and whether it depends on a comparison:
/// `Cmpxchg` stores `operand` only when the old value equals the expected one.
pub fn atomic_result<M: Machine>(
    m: &mut M,
    op: AtomicOp,
    size: Size,
    old: &M::Value,
    operand: &M::Value,
) -> Result<M::Value, M::Error> {
    let width = if size == Size::D { Width::W64 } else { Width::W32 };
    let alu = match op {
        AtomicOp::Add => AluOp::Add,
        AtomicOp::Or => AluOp::Or,
        AtomicOp::And => AluOp::And,
        AtomicOp::Xor => AluOp::Xor,
        AtomicOp::Xchg | AtomicOp::Cmpxchg => return Ok(operand.clone()),
    };
    m.alu(width, alu, old, operand)
}

/// Arithmetic on numbers: the concrete meaning of [`Machine::alu`], which every other instance must agree with.
pub fn concrete_alu(width: Width, op: AluOp, a: u64, b: u64) -> u64 {
    match width {
        Width::W64 => match op {
            AluOp::Add => a.wrapping_add(b),
            AluOp::Sub => a.wrapping_sub(b),
            AluOp::Mul => a.wrapping_mul(b),
            AluOp::Div => a.checked_div(b).unwrap_or(0),
            AluOp::Mod => a.checked_rem(b).unwrap_or(a),
            AluOp::SDiv if b == 0 => 0,
            AluOp::SDiv => (a as i64).wrapping_div(b as i64) as u64,
            AluOp::SMod if b == 0 => a,
            AluOp::SMod => (a as i64).wrapping_rem(b as i64) as u64,
            AluOp::Or => a | b,
            AluOp::And => a & b,
            AluOp::Xor => a ^ b,
            AluOp::Lsh => a << (b & 63),
            AluOp::Rsh => a >> (b & 63),
            AluOp::Arsh => ((a as i64) >> (b & 63)) as u64,
        },
        Width::W32 => {
            let (a, b) = (a as u32, b as u32);
            let result = match op {
                AluOp::Add => a.wrapping_add(b),
                AluOp::Sub => a.wrapping_sub(b),
                AluOp::Mul => a.wrapping_mul(b),
                AluOp::Div => a.checked_div(b).unwrap_or(0),
                AluOp::Mod => a.checked_rem(b).unwrap_or(a),
                AluOp::SDiv if b == 0 => 0,
                AluOp::SDiv => (a as i32).wrapping_div(b as i32) as u32,
                AluOp::SMod if b == 0 => a,
                AluOp::SMod => (a as i32).wrapping_rem(b as i32) as u32,
                AluOp::Or => a | b,
                AluOp::And => a & b,
                AluOp::Xor => a ^ b,
                AluOp::Lsh => a << (b & 31),
                AluOp::Rsh => a >> (b & 31),
                AluOp::Arsh => ((a as i32) >> (b & 31)) as u32,
            };
            result as u64
        }
    }
}

/// Comparison of numbers: the concrete meaning of [`Machine::compare`].
pub fn concrete_compare(width: Width, cond: Condition, a: u64, b: u64) -> bool {
    let (a, b, sa, sb) = match width {
        Width::W64 => (a, b, a as i64, b as i64),
        Width::W32 => (a as u32 as u64, b as u32 as u64, a as i32 as i64, b as i32 as i64),
    };
    match cond {
        Condition::Eq => a == b,
        Condition::Ne => a != b,
        Condition::Gt => a > b,
        Condition::Ge => a >= b,
        Condition::Lt => a < b,
        Condition::Le => a <= b,
        Condition::Set => a & b != 0,
        Condition::SGt => sa > sb,
        Condition::SGe => sa >= sb,
        Condition::SLt => sa < sb,
        Condition::SLe => sa <= sb,
    }
}

/// Extension of numbers: the concrete meaning of [`Machine::extend`]. `bits` is 1 to 64.
pub fn concrete_extend(value: u64, bits: u32, signed: bool) -> u64 {
    let shift = 64 - bits;
    if signed { (((value << shift) as i64) >> shift) as u64 } else { (value << shift) >> shift }
}

/// Byte reversal of numbers: the concrete meaning of [`Machine::swap_bytes`].
pub fn concrete_swap(value: u64, bits: u32) -> u64 {
    value.swap_bytes() >> (64 - bits)
}
