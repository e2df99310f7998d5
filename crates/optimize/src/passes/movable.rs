//! What may stand elsewhere: instructions that only compute, what they access, and code that they pass.

use crate::context::Context;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use karakoram_proof::facts::Root;
use std::ops::Range;

/// Registers of the code that an instruction would pass, up or down.
#[derive(Default)]
pub(super) struct Passed {
    read: RegSet,
    written: RegSet,
}

impl Passed {
    /// One more instruction is to be passed.
    pub(super) fn add(&mut self, context: &Context, p: usize) {
        self.read = self.read.union(context.reads[p]);
        self.written = self.written.union(context.writes[p]);
    }

    /// Whether the registers of the instruction at `p` allow that it passes.
    pub(super) fn lets_pass(&self, context: &Context, p: usize) -> bool {
        context.writes[p].iter().all(|r| !self.read.contains(r) && !self.written.contains(r))
            && context.reads[p].iter().all(|r| !self.written.contains(r))
    }
}

/// The bytes of the frame that an instruction stores to.
pub(super) fn frame_bytes(context: &Context, p: usize) -> Option<Range<i64>> {
    let is_store = matches!(context.insn(p), Insn::Store { base: Reg::FP, .. }) && !context.is_patched(p);
    place(context, p).filter(|_| is_store).map(|(_, bytes)| bytes)
}

/// What a load or store accesses: bytes relative to a quantity that has a name.
pub(super) fn place(context: &Context, p: usize) -> Option<(Root, Range<i64>)> {
    let (base, off, size) = match *context.insn(p) {
        Insn::Load { size, base, off, .. } | Insn::Store { size, base, off, .. } => (base, off, size),
        _ => return None,
    };
    let fact = context.fact(p, base)?;
    let from = (fact.delta as i64).wrapping_add(off as i64);
    Some((fact.root?, from..from.saturating_add(size.bytes() as i64)))
}

/// Whether an instruction does nothing but to compute a register, from memory or not.
pub(super) fn is_computation(context: &Context, p: usize) -> bool {
    let is_kind = matches!(
        context.insn(p),
        Insn::Alu { .. }
            | Insn::Mov { .. }
            | Insn::MovSx { .. }
            | Insn::Neg { .. }
            | Insn::Endian { .. }
            | Insn::LoadImm { .. }
            | Insn::Load { .. }
    );
    is_kind && !context.is_patched(p)
}
