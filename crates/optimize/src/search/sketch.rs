//! Instructions with constants left open, which a solver finds so that they come to the right end from
//! some states.

use super::case::{Case, Snapshot};
use crate::rules::general::{Side, World};
use crate::rules::limits;
use crate::rules::template::{self, Template};
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_proof::solver::{Answer, Decide, Solver};
use karakoram_proof::term::Term;

/// Conflicts after which the solver gives up on some constants.
const CONFLICTS: i32 = 2_000;

/// What is to be filled in. Every constant operand is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sketch(pub Vec<Insn>);

impl Sketch {
    fn open(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|i| template::numbers(&self.0[*i]).0.is_some())
    }

    /// The instructions with those constants in place.
    fn with(&self, constants: &[u64]) -> Vec<Insn> {
        let mut insns = self.0.clone();
        for (i, c) in self.open().zip(constants) {
            insns[i] = template::with_numbers(&insns[i], Some(*c), None);
        }
        insns
    }
}

/// A sketch with the states that it is to be right on so far.
pub struct Filling<'s> {
    sketch: &'s Sketch,
    world: World,
    constants: Vec<Term>,
    conditions: Vec<Term>,
    solver: Solver,
}

impl<'s> Filling<'s> {
    /// Nothing asked of it yet but that constants fit their instructions.
    pub fn new(sketch: &'s Sketch) -> Filling<'s> {
        let mut world = World::default();
        let mut conditions = Vec::new();
        let mut constants = Vec::new();
        for i in sketch.open() {
            let bits = world.terms.var(32);
            let constant = world.terms.sign_extend(64, bits);
            for truth in limits::imm(&mut world, &sketch.0[i], &constant) {
                conditions.push(world.holds(truth));
            }
            constants.push(constant);
        }
        Filling { sketch, world, constants, conditions, solver: Solver::new(CONFLICTS) }
    }

    /// Asks that it be right on a case, from the state that the code before it leads to. `None` when
    /// it cannot be.
    pub fn add(&mut self, case: &Case, at: &Snapshot) -> Option<()> {
        let mut regs = [None; Reg::COUNT];
        for r in at.registers.defined.iter() {
            regs[r.index()] = Some(self.world.terms.constant(64, at.registers.values[r.index()]));
        }
        let mut side = Side { regs, writes: Vec::new(), jumps: self.world.terms.bool(false) };
        let mut constants = self.constants.iter();
        for insn in &self.sketch.0 {
            let imm = template::numbers(insn).0.and_then(|_| constants.next().copied());
            let bare = Template { insn: *insn, imm: None, off: None };
            self.world.step(&mut side, &bare, imm, None).ok()?;
        }
        let taken = self.world.terms.bool(case.taken);
        self.conditions.push(self.world.terms.eq(side.jumps, taken));
        let written = self.sketch.0.iter().fold(RegSet::EMPTY, |all, i| all.union(effects::of(i).writes));
        for r in written.iter().filter(|r| case.exit.live.contains(*r)) {
            let wanted = self.world.terms.constant(64, case.expected.registers.values[r.index()]);
            let equal = self.world.terms.eq(side.regs[r.index()]?, wanted);
            self.conditions.push(equal);
        }
        let is_impossible = self.conditions.iter().any(|c| self.world.terms.as_const(*c) == Some(0));
        (!is_impossible).then_some(())
    }

    /// Instructions that are right on all cases so far.
    pub fn solve(&mut self) -> Option<Vec<Insn>> {
        match self.solver.check(&self.world.terms, &self.conditions) {
            Answer::Never | Answer::Unknown => None,
            Answer::Sometimes => {
                let model = self.solver.model(&self.world.terms);
                let lookup = |n: u32| model.get(&n).copied().unwrap_or(0);
                let mut memo = std::collections::HashMap::new();
                let values = self.constants.iter().map(|c| self.world.terms.eval(*c, &lookup, &mut memo));
                Some(self.sketch.with(&values.collect::<Vec<u64>>()))
            }
        }
    }
}
