//! The only door: proposals go in, proven programs come out.

use crate::ProverOptions;
use crate::call::Signature;
use crate::check::{Effort, check};
use crate::counterexample::{Counterexample, counterexample};
use crate::facts::Facts;
use crate::interface::{self, Arguments};
use crate::liveness;
use crate::refusal::Refusal;
use crate::rewrite::{Rewrite, splice};
use crate::solver::Backend;
use crate::whole::{self, Change};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use std::collections::HashSet;
use std::sync::Arc;

/// A rewrite that was applied, with the round it was applied in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The rewrite; positions count in the program as it was at the start of its round.
    pub rewrite: Rewrite,
    /// Rounds count from 0; facts are derived anew for each.
    pub round: usize,
}

/// A program together with the knowledge that it does what the input does. Only this module makes it.
#[derive(Clone, Debug)]
pub struct Proven {
    original: Arc<Program>,
    changes: Vec<Change>,
    /// The original with those changes: what rewrites are proven against.
    base: Arc<Program>,
    program: Program,
    applied: Vec<Applied>,
    rounds: usize,
}

/// How a proposal fared.
pub type Verdict = Result<Effort, Refusal>;

impl Proven {
    /// The input itself.
    pub fn input(program: Program) -> Proven {
        let original = Arc::new(program.clone());
        let (base, changes, applied) = (original.clone(), Vec::new(), Vec::new());
        Proven { original, changes, base, program, applied, rounds: 0 }
    }

    /// Changes the program as a whole, which comes before all rewrites. Where it says no, everything is as
    /// it was.
    pub fn change(&mut self, change: Change) -> Result<(), Refusal> {
        if !self.applied.is_empty() {
            return Err(Refusal::Malformed("a change of the whole program after rewrites"));
        }
        let changed = whole::change(&self.program, change)?;
        self.changes.push(change);
        self.base = Arc::new(changed.clone());
        self.program = changed;
        Ok(())
    }

    /// What was done to the input as a whole, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The input after the changes of it as a whole: functions and positions of rewrites are of this.
    pub fn base(&self) -> &Program {
        &self.base
    }

    /// The input that it does the same as.
    pub fn original(&self) -> &Program {
        &self.original
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What was done to the input, in order.
    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    /// Rounds so far.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Takes over what was done in `other` to functions that are still as in the input here. A rewrite
    /// is judged by the code of its own function and by what the input says of the others, which stays
    /// true whatever is proven of those: so functions may be worked on apart. Panics when the two are
    /// not about the same input.
    pub fn absorb(&mut self, other: Proven) {
        // The same allocation, mostly, which is seen at once.
        let is_same = |a: &Arc<Program>, b: &Arc<Program>| Arc::ptr_eq(a, b) || a == b;
        let is_about_same = is_same(&self.original, &other.original) && is_same(&self.base, &other.base);
        assert!(is_about_same, "proofs about different inputs");
        let mine: HashSet<FuncId> = self.applied.iter().map(|a| a.rewrite.function).collect();
        for Applied { rewrite, round } in other.applied {
            let function = rewrite.function;
            if !mine.contains(&function) {
                let place = function.0 as usize;
                self.program.functions[place].clone_from(&other.program.functions[place]);
                self.applied.push(Applied { rewrite, round: self.rounds + round });
            }
        }
        self.rounds += other.rounds;
    }

    /// Gives a function the code of [`Proven::base`] again; that of the others stays proven, as it was proven
    /// apart from it (see [`Proven::absorb`]).
    pub fn revert(&mut self, function: FuncId) {
        let place = function.0 as usize;
        self.program.functions[place].clone_from(&self.base.functions[place]);
        self.applied.retain(|a| a.rewrite.function != function);
    }
}

/// Judges proposals and applies those that hold. Copies are cheap.
#[derive(Clone)]
pub struct Prover {
    /// Memory-model optimizations in force.
    pub options: ProverOptions,
    /// Who answers what the terms do not answer by themselves.
    pub backend: Backend,
    signatures: Arc<[Signature]>,
    given: Arc<[Arguments]>,
}

impl Prover {
    /// A prover for a program; arguments of its functions are read off once, since rewriting keeps
    /// at most those alive.
    pub fn new(program: &Program, options: ProverOptions) -> Prover {
        let arguments = liveness::arguments(program);
        let reads = |f: FuncId| Signature { reads: arguments[f.0 as usize], returns: None };
        let given = interface::arguments(program, &reads);
        let returned = interface::returned(program, &arguments, &given);
        let signatures = arguments.into_iter().zip(returned).map(|(reads, returns)| Signature { reads, returns });
        let backend = Backend::Cadical { conflicts: 4_000 };
        Prover { options, backend, signatures: signatures.collect(), given: given.into() }
    }

    /// A prover for another program that judges in the same way.
    pub fn about(&self, program: &Program) -> Prover {
        Prover { backend: self.backend.clone(), ..Prover::new(program, self.options) }
    }

    /// What is known of a function by the code of the input.
    pub fn signature(&self, f: FuncId) -> Signature {
        self.signatures[f.0 as usize]
    }

    /// Facts of a function of the current program.
    pub fn facts(&self, program: &Program, function: FuncId) -> Facts {
        Facts::derive(program, function, &|f| self.signature(f), &self.given[function.0 as usize])
    }

    /// Whether a rewrite holds.
    pub fn judge(&self, program: &Program, facts: &Facts, rewrite: &Rewrite) -> Verdict {
        check(program, facts, rewrite, &|f| self.signature(f), self.options, &self.backend)
    }

    /// A state in which a refused rewrite of code without effects does something else, if the solver
    /// has one.
    pub fn counterexample(&self, program: &Program, facts: &Facts, rewrite: &Rewrite) -> Option<Counterexample> {
        counterexample(program, facts, rewrite, &|f| self.signature(f), self.options, &self.backend)
    }

    /// Judges proposals for one function in order against `facts`, which must be those of the
    /// function as it is, and applies all that hold and whose windows do not overlap with one
    /// applied before. Returns a verdict for each; overlapping ones are not judged (`None`).
    pub fn apply(
        &self,
        proven: &mut Proven,
        function: FuncId,
        facts: &Facts,
        proposals: Vec<Rewrite>,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Vec<Option<Verdict>> {
        let n = proven.program.function(function).nodes.len();
        assert_eq!(facts.before.len(), n, "facts belong to another program");
        let mut taken = vec![false; n];
        let mut accepted: Vec<Rewrite> = Vec::new();
        let mut verdicts = Vec::with_capacity(proposals.len());
        let mut ids = HashSet::new();
        for rewrite in proposals {
            let overlaps = rewrite.window.iter().flat_map(|r| r.clone()).any(|p| taken.get(p).copied().unwrap_or(true));
            let reused = rewrite.edits.iter().flat_map(|e| &e.nodes).any(|node| ids.contains(&node.id));
            if rewrite.function != function || overlaps || reused || !wanted() {
                verdicts.push(None);
                continue;
            }
            let verdict = self.judge(&proven.program, facts, &rewrite);
            if verdict.is_ok() {
                rewrite.window.iter().flat_map(|r| r.clone()).for_each(|p| taken[p] = true);
                ids.extend(rewrite.edits.iter().flat_map(|e| &e.nodes).map(|node| node.id));
                accepted.push(rewrite);
            }
            verdicts.push(Some(verdict));
        }
        if !accepted.is_empty() {
            let references: Vec<&Rewrite> = accepted.iter().collect();
            let changed = splice(proven.program.function(function), &references);
            proven.program.functions[function.0 as usize] = changed;
            let round = proven.rounds;
            proven.applied.extend(accepted.into_iter().map(|rewrite| Applied { rewrite, round }));
            proven.rounds += 1;
        }
        verdicts
    }
}
