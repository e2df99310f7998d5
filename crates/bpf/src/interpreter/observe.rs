//! Looking at a run from outside, before every instruction.

use super::address::Region;
use super::memory::Memory;
use crate::insn::{FuncId, InsnId, Reg};

/// Watches a run.
pub trait Observer {
    /// Called before each instruction; `false` ends the run.
    fn before(&mut self, step: &Step) -> bool;
}

impl<F: FnMut(&Step) -> bool> Observer for F {
    fn before(&mut self, step: &Step) -> bool {
        self(step)
    }
}

/// The machine before an instruction.
pub struct Step<'a> {
    /// The function that is running.
    pub function: FuncId,
    /// The instruction, by position.
    pub position: usize,
    /// The instruction, by identity.
    pub insn: InsnId,
    /// Number of callers that wait.
    pub depth: usize,
    /// `r0` to `r10`. Registers that hold nothing have what [`super::Options::poison`] gave them.
    pub registers: &'a [u64; Reg::COUNT],
    /// What the program can reach.
    pub memory: &'a Memory,
}

impl Step<'_> {
    /// The value of a register.
    pub fn register(&self, reg: Reg) -> u64 {
        self.registers[reg.index()]
    }

    /// Where a value leads when it is taken for an address.
    pub fn classify(&self, value: u64) -> Option<Region> {
        self.memory.classify(value)
    }
}
