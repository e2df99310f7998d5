//! What an instruction reads and writes, learned by running its one semantics on a machine without values.

use crate::insn::*;
use crate::semantics::{self, Flow, Machine};

/// A set of registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RegSet(u16);

impl RegSet {
    /// No register.
    pub const EMPTY: RegSet = RegSet(0);
    /// `r0`-`r10`.
    pub const ALL: RegSet = RegSet(0x7ff);
    /// What a call may overwrite: `r0`-`r5`.
    pub const CALLER_SAVED: RegSet = RegSet(0x3f);
    /// `r1`-`r5`.
    pub const ARGUMENTS: RegSet = RegSet(0x3e);
    /// What a callee must preserve for its caller: `r6`-`r9`.
    pub const CALLEE_SAVED: RegSet = RegSet(0x3c0);

    /// The first `n` argument registers.
    pub fn arguments(n: usize) -> RegSet {
        RegSet(((1u16 << (n.min(5) + 1)) - 1) & RegSet::ARGUMENTS.0)
    }
    /// With one more.
    pub fn with(self, r: Reg) -> RegSet {
        RegSet(self.0 | 1 << r.index())
    }
    /// Union.
    pub fn union(self, other: RegSet) -> RegSet {
        RegSet(self.0 | other.0)
    }
    /// Those not in `other`.
    pub fn minus(self, other: RegSet) -> RegSet {
        RegSet(self.0 & !other.0)
    }
    /// Membership.
    pub fn contains(self, r: Reg) -> bool {
        self.0 >> r.index() & 1 == 1
    }
    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Members in order.
    pub fn iter(self) -> impl Iterator<Item = Reg> {
        Reg::all().filter(move |r| self.contains(*r))
    }
}

impl FromIterator<Reg> for RegSet {
    fn from_iter<I: IntoIterator<Item = Reg>>(iter: I) -> RegSet {
        iter.into_iter().fold(RegSet::EMPTY, RegSet::with)
    }
}

impl std::fmt::Debug for RegSet {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Registers and memory an instruction touches. For calls only what the calling convention says:
/// the contract of the callee tells the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// Registers read.
    pub reads: RegSet,
    /// Registers overwritten.
    pub writes: RegSet,
    /// Whether memory is read.
    pub reads_memory: bool,
    /// Whether memory is written.
    pub writes_memory: bool,
    /// Atomic, ordered, a call, or a legacy packet load: others may see when it happens.
    pub is_barrier: bool,
}

/// The effects of one instruction.
pub fn of(insn: &Insn) -> Effects {
    let mut tracer = Tracer(Effects::default());
    let Ok(flow) = semantics::step(&mut tracer, insn);
    let mut effects = tracer.0;
    match flow {
        Flow::Call(_) => {
            // r1-r5 may be arguments, however many the callee has.
            effects.reads = effects.reads.union(RegSet::ARGUMENTS);
            effects.writes = RegSet::CALLER_SAVED;
            (effects.reads_memory, effects.writes_memory, effects.is_barrier) = (true, true, true);
        }
        Flow::Exit => effects.reads = effects.reads.with(Reg::R0),
        _ => {}
    }
    effects
}

struct Tracer(Effects);

impl Machine for Tracer {
    type Value = ();
    type Cond = ();
    type Error = std::convert::Infallible;

    fn constant(&mut self, _: u64) {}
    fn reg(&mut self, reg: Reg) -> Result<(), Self::Error> {
        if !self.0.writes.contains(reg) {
            self.0.reads = self.0.reads.with(reg);
        }
        Ok(())
    }
    fn set_reg(&mut self, reg: Reg, _: ()) -> Result<(), Self::Error> {
        self.0.writes = self.0.writes.with(reg);
        Ok(())
    }
    fn alu(&mut self, _: Width, _: AluOp, _: &(), _: &()) -> Result<(), Self::Error> {
        Ok(())
    }
    fn extend(&mut self, _: &(), _: u32, _: bool) {}
    fn swap_bytes(&mut self, _: &(), _: u32) {}
    fn compare(&mut self, _: Width, _: Condition, _: &(), _: &()) {}
    fn load_imm(&mut self, _: Imm64<FuncId>) -> Result<(), Self::Error> {
        Ok(())
    }
    fn load(&mut self, _: &(), _: Size) -> Result<(), Self::Error> {
        self.0.reads_memory = true;
        Ok(())
    }
    fn store(&mut self, _: &(), _: Size, _: &()) -> Result<(), Self::Error> {
        self.0.writes_memory = true;
        Ok(())
    }
    fn atomic(&mut self, _: AtomicOp, _: &(), _: Size, _: &(), _: Option<&()>) -> Result<(), Self::Error> {
        (self.0.reads_memory, self.0.writes_memory, self.0.is_barrier) = (true, true, true);
        Ok(())
    }
    fn load_acquire(&mut self, _: &(), _: Size) -> Result<(), Self::Error> {
        (self.0.reads_memory, self.0.is_barrier) = (true, true);
        Ok(())
    }
    fn store_release(&mut self, _: &(), _: Size, _: &()) -> Result<(), Self::Error> {
        (self.0.writes_memory, self.0.is_barrier) = (true, true);
        Ok(())
    }
    fn legacy_load(&mut self, _: &(), _: Size) -> Result<Option<()>, Self::Error> {
        (self.0.reads_memory, self.0.is_barrier) = (true, true);
        self.0.writes = self.0.writes.union(RegSet::ARGUMENTS);
        Ok(Some(()))
    }
    fn cast_address_space(&mut self, _: &(), _: u16, _: u16) -> Result<(), Self::Error> {
        Ok(())
    }
}
