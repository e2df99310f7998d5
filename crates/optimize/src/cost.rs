//! What makes a program better: fewer slots; then fewer instructions; then fewer memory accesses;
//! then less weight, which counts what a machine has to wait for.
//!
//! Every applied proposal makes the cost of its function strictly smaller, so rounds end.

use karakoram_bpf::effects;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::{Function, Node};

/// The cost of some instructions, compared field by field.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cost {
    /// Slots of eight bytes.
    pub slots: usize,
    /// Instructions.
    pub instructions: usize,
    /// Loads, stores, atomics.
    pub memory: usize,
    /// Jumps count most, then registers that are read, then arithmetic, then moves.
    pub weight: usize,
}

impl Cost {
    /// The cost of a piece of code.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Cost {
        nodes.into_iter().fold(Cost::default(), |cost, node| cost.plus(&node.insn))
    }

    /// The cost of a function.
    pub fn of_function(function: &Function) -> Cost {
        Cost::of(&function.nodes)
    }

    fn plus(self, insn: &Insn) -> Cost {
        let effects = effects::of(insn);
        let is_access = (effects.reads_memory || effects.writes_memory) && !matches!(insn, Insn::Call(_));
        Cost {
            slots: self.slots + insn.slots(),
            instructions: self.instructions + 1,
            memory: self.memory + is_access as usize,
            weight: self.weight + weight(insn),
        }
    }
}

fn weight(insn: &Insn) -> usize {
    match insn {
        Insn::Jump { .. } => 16,
        Insn::Branch { src, .. } => 20 + operand(src),
        Insn::Mov { width: Width::W64, src, .. } => 2 + operand(src),
        Insn::Mov { src, .. } => 3 + operand(src),
        Insn::Alu { op: AluOp::Mul | AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod, src, .. } => {
            24 + operand(src)
        }
        Insn::Alu { src, .. } => 6 + operand(src),
        Insn::Store { src, .. } => 8 + operand(src),
        _ => 8,
    }
}

/// A register has to be computed first, a constant is there.
fn operand(src: &Operand) -> usize {
    matches!(src, Operand::Reg(_)) as usize
}
