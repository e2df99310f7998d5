//! Sorts of instructions that take about the same time once they are machine code (kernel
//! `arch/x86/net/bpf_jit_comp.c`).

use karakoram_bpf::insn::*;
use karakoram_bpf::map::MapType;
use karakoram_bpf::program::{Function, Program};

/// A sort of instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Moves between registers, sign extensions, small constants.
    Move,
    /// Constants of 64 bits and addresses.
    Constant,
    /// Addition, logic, shifts by constants, negation, truncation.
    Alu,
    /// Shifts by a register.
    ShiftByRegister,
    /// Multiplication.
    Multiply,
    /// Division and remainder, 32 bits.
    Divide32,
    /// Division and remainder, 64 bits.
    Divide64,
    /// Byte swap of 16 bits: a rotation and an extension.
    Swap16,
    /// Byte swap of 32 or 64 bits.
    Swap,
    /// Loads.
    Load,
    /// Stores.
    Store,
    /// Atomic operations that return nothing.
    Atomic,
    /// Atomic operations that return the old value.
    AtomicFetch,
    /// Jumps.
    Jump,
    /// Branches that are not taken.
    Branch,
    /// Branches that are taken.
    BranchTaken,
    /// Calls of functions of the program, there and back.
    Call,
    /// Exits.
    Exit,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 18] = [
        Class::Move,
        Class::Constant,
        Class::Alu,
        Class::ShiftByRegister,
        Class::Multiply,
        Class::Divide32,
        Class::Divide64,
        Class::Swap16,
        Class::Swap,
        Class::Load,
        Class::Store,
        Class::Atomic,
        Class::AtomicFetch,
        Class::Jump,
        Class::Branch,
        Class::BranchTaken,
        Class::Call,
        Class::Exit,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Class::Move => "move",
            Class::Constant => "constant",
            Class::Alu => "alu",
            Class::ShiftByRegister => "shift_by_register",
            Class::Multiply => "multiply",
            Class::Divide32 => "divide32",
            Class::Divide64 => "divide64",
            Class::Swap16 => "swap16",
            Class::Swap => "swap",
            Class::Load => "load",
            Class::Store => "store",
            Class::Atomic => "atomic",
            Class::AtomicFetch => "atomic_fetch",
            Class::Jump => "jump",
            Class::Branch => "branch",
            Class::BranchTaken => "branch_taken",
            Class::Call => "call",
            Class::Exit => "exit",
        }
    }

    /// The class of an instruction; branches count as not taken, helpers have no class.
    pub fn of(insn: &Insn) -> Option<Class> {
        Some(match insn {
            Insn::Mov { .. } | Insn::MovSx { .. } | Insn::AddrCast { .. } => Class::Move,
            Insn::LoadImm { .. } => Class::Constant,
            Insn::Alu { op, width, src, .. } => arithmetic(*op, *width, src),
            Insn::Neg { .. } => Class::Alu,
            Insn::Endian { order: Endian::Little, .. } => Class::Alu,
            Insn::Endian { bits: 16, .. } => Class::Swap16,
            Insn::Endian { .. } => Class::Swap,
            Insn::Load { .. } | Insn::LoadAcquire { .. } => Class::Load,
            Insn::Store { .. } | Insn::StoreRelease { .. } => Class::Store,
            Insn::Atomic { op: AtomicOp::Xchg | AtomicOp::Cmpxchg, .. } | Insn::Atomic { fetch: true, .. } => {
                Class::AtomicFetch
            }
            Insn::Atomic { .. } => Class::Atomic,
            Insn::Jump { .. } => Class::Jump,
            Insn::Branch { .. } | Insn::MayGoto { .. } => Class::Branch,
            Insn::Call(Callee::Local(_)) => Class::Call,
            Insn::Exit => Class::Exit,
            Insn::Call(_) | Insn::LegacyLoad { .. } => return None,
        })
    }
}

fn arithmetic(op: AluOp, width: Width, src: &Operand) -> Class {
    use AluOp::*;
    match (op, width, src) {
        (Mul, ..) => Class::Multiply,
        (Div | SDiv | Mod | SMod, Width::W32, _) => Class::Divide32,
        (Div | SDiv | Mod | SMod, Width::W64, _) => Class::Divide64,
        (Lsh | Rsh | Arsh, _, Operand::Reg(_)) => Class::ShiftByRegister,
        _ => Class::Alu,
    }
}

/// The type of the map that a call gets as its first argument, when the code just above says so.
pub(super) fn map_of_call(program: &Program, function: &Function, position: usize) -> Option<MapType> {
    for node in function.nodes[..position].iter().rev() {
        match node.insn {
            Insn::LoadImm { dst: Reg::R1, value: Imm64::Map(map) } => return program.map(map).map(|m| m.kind),
            insn if insn.ends_block() || matches!(insn, Insn::Call(_)) => return None,
            insn if karakoram_bpf::effects::of(&insn).writes.contains(Reg::R1) => return None,
            _ => {}
        }
    }
    None
}
