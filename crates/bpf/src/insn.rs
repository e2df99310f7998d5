//! Instructions: one decoded form for everything the kernel's instruction set (v1 to v4) can say.
//!
//! [`Insn`] is generic in how it names jump targets (`J`) and functions (`F`): the decoder yields
//! [`RawInsn`], whose targets are slot distances relative to the next instruction; a
//! [`crate::program::Function`] holds [`Insn`] with stable identities. No opcode byte exists
//! outside `encode.rs`.

use std::fmt;

/// A register, `r0` to `r10`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(u8);

impl Reg {
    /// Return value.
    pub const R0: Reg = Reg(0);
    /// First argument; the context at program entry.
    pub const R1: Reg = Reg(1);
    /// Second argument.
    pub const R2: Reg = Reg(2);
    /// Third argument.
    pub const R3: Reg = Reg(3);
    /// Fourth argument.
    pub const R4: Reg = Reg(4);
    /// Fifth argument.
    pub const R5: Reg = Reg(5);
    /// First callee-saved register.
    pub const R6: Reg = Reg(6);
    /// The read-only frame pointer.
    pub const FP: Reg = Reg(10);
    /// Number of registers.
    pub const COUNT: usize = 11;

    /// The register of that number, when there is one.
    pub fn new(number: u8) -> Option<Reg> {
        (number <= 10).then_some(Reg(number))
    }

    /// 0 to 10.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// All registers in order.
    pub fn all() -> impl Iterator<Item = Reg> {
        (0..=10).map(Reg)
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Debug for Reg {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// Operation width of ALU and jump instructions. A 32-bit ALU result is zero-extended to 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Width {
    /// Low half.
    W32,
    /// Whole register.
    W64,
}

impl Width {
    /// 32 or 64.
    pub fn bits(self) -> u32 {
        match self {
            Width::W32 => 32,
            Width::W64 => 64,
        }
    }
}

/// Size of a memory access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Size {
    /// One byte.
    B,
    /// Two bytes.
    H,
    /// Four bytes.
    W,
    /// Eight bytes.
    D,
}

impl Size {
    /// 1, 2, 4 or 8.
    pub fn bytes(self) -> u32 {
        match self {
            Size::B => 1,
            Size::H => 2,
            Size::W => 4,
            Size::D => 8,
        }
    }

    /// 8, 16, 32 or 64.
    pub fn bits(self) -> u32 {
        self.bytes() * 8
    }

    /// The size of that many bytes.
    pub fn from_bytes(bytes: u32) -> Option<Size> {
        Some(match bytes {
            1 => Size::B,
            2 => Size::H,
            4 => Size::W,
            8 => Size::D,
            _ => return None,
        })
    }
}

/// Two-operand arithmetic. Division by zero gives 0, remainder by zero the dividend
/// (kernel `Documentation/bpf/standardization/instruction-set.rst`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum AluOp {
    Add,
    Sub,
    Mul,
    Div,
    SDiv,
    Mod,
    SMod,
    Or,
    And,
    Xor,
    Lsh,
    Rsh,
    Arsh,
}

/// Branch conditions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Condition {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
    Set,
    SGt,
    SGe,
    SLt,
    SLe,
}

impl Condition {
    /// The condition that holds exactly when this one does not; `None` for `Set`.
    pub fn negated(self) -> Option<Condition> {
        use Condition::*;
        Some(match self {
            Eq => Ne,
            Ne => Eq,
            Gt => Le,
            Ge => Lt,
            Lt => Ge,
            Le => Gt,
            SGt => SLe,
            SGe => SLt,
            SLt => SGe,
            SLe => SGt,
            Set => return None,
        })
    }

    /// The condition with its operands exchanged.
    pub fn swapped(self) -> Condition {
        use Condition::*;
        match self {
            Gt => Lt,
            Ge => Le,
            Lt => Gt,
            Le => Ge,
            SGt => SLt,
            SGe => SLe,
            SLt => SGt,
            SLe => SGe,
            other => other,
        }
    }
}

/// Second operand: a register, or a 32-bit constant that is sign-extended in 64-bit operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Operand {
    /// Register.
    Reg(Reg),
    /// Constant.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(r: Reg) -> Operand {
        Operand::Reg(r)
    }
}

/// Byte-order conversions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Endian {
    /// To little-endian: on a little-endian machine a truncation.
    Little,
    /// To big-endian: on a little-endian machine a byte swap.
    Big,
    /// Unconditional byte swap (v4).
    Swap,
}

/// Atomic read-modify-write operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum AtomicOp {
    Add,
    Or,
    And,
    Xor,
    Xchg,
    Cmpxchg,
}

/// How an instruction names a map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum MapRef {
    /// By file descriptor (`BPF_PSEUDO_MAP_FD`), as `.bpf` and `.k2` programs do.
    Fd(i32),
    /// By position in [`crate::program::Program::maps`] (`BPF_PSEUDO_MAP_IDX`), as objects do.
    Index(i32),
}

/// What a two-slot 64-bit load puts into its register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Imm64<F> {
    /// A plain constant.
    Value(u64),
    /// The address of a map.
    Map(MapRef),
    /// An address inside the value of a map's first element, `.1` bytes in (global data).
    MapValue(MapRef, u32),
    /// The address of a kernel variable, by BTF id and the file descriptor of its BTF object.
    Btf {
        /// Type id of the variable.
        id: i32,
        /// BTF object, 0 for vmlinux.
        fd: i32,
    },
    /// The address of a function, for callbacks.
    Function(F),
    /// The value of an extern symbol (`__ksym`, `__kconfig`), by the object's own number for it.
    Extern(u32),
}

/// What a call calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Callee<F> {
    /// A kernel helper, by number.
    Helper(i32),
    /// A function of this program.
    Local(F),
    /// A kernel function, by BTF id and index of its BTF object.
    Kfunc {
        /// BTF id of the function.
        id: i32,
        /// Index into the load's array of BTF file descriptors, 0 for vmlinux.
        off: i16,
    },
    /// An extern kernel function, by the object's own number for it.
    Extern(u32),
    /// The helper whose number is in a register (not accepted by the kernel; exists in the instruction set).
    Register(Reg),
}

/// Stable identity of an instruction inside its function; survives rewriting of its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct InsnId(pub u32);

/// Position of a function in its [`crate::program::Program`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct FuncId(pub u32);

/// One instruction. `J` names jump targets, `F` names functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Insn<J = InsnId, F = FuncId> {
    /// `dst = dst op src`
    Alu { width: Width, op: AluOp, dst: Reg, src: Operand },
    /// `dst = src`
    Mov { width: Width, dst: Reg, src: Operand },
    /// `dst = (sN)src`, the low `bits` (8, 16 or 32) sign-extended to `width` (v4).
    MovSx { width: Width, bits: u8, dst: Reg, src: Reg },
    /// `dst = -dst`
    Neg { width: Width, dst: Reg },
    /// Byte-order conversion of the low `bits` (16, 32 or 64); higher bits become zero.
    Endian { order: Endian, bits: u8, dst: Reg },
    /// `dst = addr_space_cast(src, to, from)` (arena pointers).
    AddrCast { dst: Reg, src: Reg, to: u16, from: u16 },
    /// `dst = value ll`, two slots.
    LoadImm { dst: Reg, value: Imm64<F> },
    /// `dst = *(uN *)(base + off)`, or `sN` when `signed`.
    Load { size: Size, signed: bool, dst: Reg, base: Reg, off: i16 },
    /// `*(uN *)(base + off) = src`
    Store { size: Size, base: Reg, off: i16, src: Operand },
    /// `lock *(uN *)(base + off) op= src`; with `fetch` the old value goes to `src`
    /// (to `r0` for `Cmpxchg`, which also compares with it). `Xchg` and `Cmpxchg` always fetch.
    Atomic { op: AtomicOp, fetch: bool, size: Size, base: Reg, off: i16, src: Reg },
    /// `dst = load_acquire((uN *)(base + off))`
    LoadAcquire { size: Size, dst: Reg, base: Reg, off: i16 },
    /// `store_release((uN *)(base + off), src)`
    StoreRelease { size: Size, base: Reg, off: i16, src: Reg },
    /// `r0 = *(uN *)skb[off]` (`index: None`) or `skb[index + off]`, big-endian, of the packet that
    /// the context in `r6` describes; ends the program with 0 when out of bounds. Clobbers `r1`-`r5`.
    LegacyLoad { size: Size, index: Option<Reg>, off: i32 },
    /// `goto target`; `long` is the v4 form with a 32-bit distance.
    Jump { target: J, long: bool },
    /// `if dst cond src goto target`
    Branch { width: Width, cond: Condition, dst: Reg, src: Operand, target: J },
    /// Loop bound of the kernel's choosing: falls through a limited number of times, then jumps.
    MayGoto { target: J },
    /// `call`
    Call(Callee<F>),
    /// `exit`
    Exit,
}

/// An instruction as decoded from bytes: targets are distances in slots from the next instruction.
pub type RawInsn = Insn<i32, i32>;

impl<J, F> Insn<J, F> {
    /// Slots of eight bytes it occupies: 1, or 2 for a 64-bit constant.
    pub fn slots(&self) -> usize {
        match self {
            Insn::LoadImm { .. } => 2,
            _ => 1,
        }
    }

    /// Whether control never reaches the next instruction.
    pub fn ends_block(&self) -> bool {
        matches!(self, Insn::Jump { .. } | Insn::Exit)
    }

    /// Where it may jump to, when it is a jump.
    pub fn target(&self) -> Option<&J> {
        match self {
            Insn::Jump { target, .. } | Insn::Branch { target, .. } | Insn::MayGoto { target } => Some(target),
            _ => None,
        }
    }

    /// The same instruction with its targets and functions renamed.
    pub fn try_map<J2, F2, E>(
        self,
        jump: impl FnOnce(J) -> Result<J2, E>,
        func: impl FnOnce(F) -> Result<F2, E>,
    ) -> Result<Insn<J2, F2>, E> {
        use Insn::*;
        Ok(match self {
            Alu { width, op, dst, src } => Alu { width, op, dst, src },
            Mov { width, dst, src } => Mov { width, dst, src },
            MovSx { width, bits, dst, src } => MovSx { width, bits, dst, src },
            Neg { width, dst } => Neg { width, dst },
            Endian { order, bits, dst } => Endian { order, bits, dst },
            AddrCast { dst, src, to, from } => AddrCast { dst, src, to, from },
            LoadImm { dst, value } => LoadImm {
                dst,
                value: match value {
                    Imm64::Value(v) => Imm64::Value(v),
                    Imm64::Map(m) => Imm64::Map(m),
                    Imm64::MapValue(m, off) => Imm64::MapValue(m, off),
                    Imm64::Btf { id, fd } => Imm64::Btf { id, fd },
                    Imm64::Function(f) => Imm64::Function(func(f)?),
                    Imm64::Extern(e) => Imm64::Extern(e),
                },
            },
            Load { size, signed, dst, base, off } => Load { size, signed, dst, base, off },
            Store { size, base, off, src } => Store { size, base, off, src },
            Atomic { op, fetch, size, base, off, src } => Atomic { op, fetch, size, base, off, src },
            LoadAcquire { size, dst, base, off } => LoadAcquire { size, dst, base, off },
            StoreRelease { size, base, off, src } => StoreRelease { size, base, off, src },
            LegacyLoad { size, index, off } => LegacyLoad { size, index, off },
            Jump { target, long } => Jump { target: jump(target)?, long },
            Branch { width, cond, dst, src, target } => Branch { width, cond, dst, src, target: jump(target)? },
            MayGoto { target } => MayGoto { target: jump(target)? },
            Call(c) => Call(match c {
                Callee::Helper(h) => Callee::Helper(h),
                Callee::Local(f) => Callee::Local(func(f)?),
                Callee::Kfunc { id, off } => Callee::Kfunc { id, off },
                Callee::Extern(e) => Callee::Extern(e),
                Callee::Register(r) => Callee::Register(r),
            }),
            Exit => Exit,
        })
    }

    /// [`Insn::try_map`] for renamings that cannot fail.
    pub fn map<J2, F2>(self, jump: impl FnOnce(J) -> J2, func: impl FnOnce(F) -> F2) -> Insn<J2, F2> {
        let mapped: Result<_, std::convert::Infallible> = self.try_map(|j| Ok(jump(j)), |f| Ok(func(f)));
        match mapped {
            Ok(insn) => insn,
            Err(never) => match never {},
        }
    }
}
