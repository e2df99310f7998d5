//! Rewrites that were applied once, applied again to a program in which some of those before them are
//! missing. Positions have moved there; what stays is the identity of instructions.

use karakoram_bpf::insn::{FuncId, InsnId};
use karakoram_bpf::program::{Function, Program};
use karakoram_optimize::avoid::likeness;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Applied, Proven, Prover};
use karakoram_proof::rewrite::{Edit, Rewrite, splice};
use std::collections::HashMap;
use std::ops::Range;

/// A rewrite that knows its place by the instructions there.
#[derive(Clone, Debug)]
pub struct Step {
    rewrite: Rewrite,
    round: usize,
    entry: InsnId,
    window: Vec<Vec<InsnId>>,
    edits: Vec<Vec<InsnId>>,
    likeness: u64,
}

impl Step {
    fn new(function: &Function, applied: &Applied) -> Step {
        let Applied { rewrite, round } = applied;
        let ids = |at: &Range<usize>| function.nodes[at.clone()].iter().map(|n| n.id).collect::<Vec<_>>();
        Step {
            entry: function.nodes[rewrite.entry].id,
            window: rewrite.window.iter().map(ids).collect(),
            edits: rewrite.edits.iter().map(|e| ids(&e.at)).collect(),
            likeness: likeness(function, rewrite),
            rewrite: rewrite.clone(),
            round: *round,
        }
    }

    /// Function and rule.
    pub fn name(&self) -> (FuncId, &str) {
        (self.rewrite.function, &self.rewrite.rule)
    }

    /// What it has in common with those that come to the same.
    pub fn likeness(&self) -> u64 {
        self.likeness
    }

    /// Whether it puts jumps somewhere: the verifier may then come by branches in another order.
    pub fn is_about_jumps(&self) -> bool {
        self.rewrite.edits.iter().flat_map(|e| &e.nodes).any(|n| n.insn.target().is_some())
    }

    /// The rewrite with the positions that its instructions have; `None` where they are not together.
    fn at(&self, positions: &HashMap<InsnId, usize>) -> Option<Rewrite> {
        let place = |ids: &Vec<InsnId>| {
            let found: Option<Vec<usize>> = ids.iter().map(|id| positions.get(id).copied()).collect();
            let (first, last) = (*found.as_ref()?.iter().min()?, *found.as_ref()?.iter().max()?);
            Some((first..last + 1, last + 1 - first == ids.len()))
        };
        let mut window: Vec<Range<usize>> = Vec::new();
        for ids in &self.window {
            // Instructions that are gone in the original run may have stayed; they belong to it now.
            window.push(place(ids)?.0);
        }
        window.sort_by_key(|r| r.start);
        let mut edits = Vec::new();
        for (ids, edit) in self.edits.iter().zip(&self.rewrite.edits) {
            let (at, is_whole) = place(ids)?;
            if !is_whole {
                return None;
            }
            edits.push(Edit { at, nodes: edit.nodes.clone() });
        }
        edits.sort_by_key(|e| e.at.start);
        Some(Rewrite { entry: *positions.get(&self.entry)?, window, edits, ..self.rewrite.clone() })
    }
}

/// What was done to some functions, with the places it was done at.
pub fn steps(base: &Program, applied: &[Applied], functions: &[FuncId]) -> Vec<Step> {
    let mut found = Vec::new();
    for &id in functions {
        let mut function = base.function(id).clone();
        let mine: Vec<&Applied> = applied.iter().filter(|a| a.rewrite.function == id).collect();
        for round in mine.chunk_by(|a, b| a.round == b.round) {
            found.extend(round.iter().map(|applied| Step::new(&function, applied)));
            function = splice(&function, &round.iter().map(|a| &a.rewrite).collect::<Vec<_>>());
        }
    }
    found
}

/// The base of what was proven with some of the rewrites that were applied to it before.
pub fn again(before: &Proven, applied: &[Applied], options: ProverOptions) -> Proven {
    let base = before.base();
    let functions: Vec<FuncId> = (0..base.functions.len() as u32).map(FuncId).collect();
    let mut proven = before.clone();
    functions.iter().for_each(|f| proven.revert(*f));
    extend(&Prover::new(base, options), &mut proven, &steps(base, applied, &functions));
    proven
}

/// Applies those of the steps that still fit, each judged by the prover.
pub fn extend(prover: &Prover, proven: &mut Proven, steps: &[Step]) {
    let is_one_round = |a: &Step, b: &Step| (a.round, a.rewrite.function) == (b.round, b.rewrite.function);
    for round in steps.chunk_by(is_one_round) {
        let function = round[0].rewrite.function;
        let positions = proven.program().function(function).positions();
        let rewrites: Vec<Rewrite> = round.iter().filter_map(|s| s.at(&positions)).collect();
        if !rewrites.is_empty() {
            let facts = prover.facts(proven.program(), function);
            prover.apply(proven, function, &facts, rewrites, &mut || true);
        }
    }
}
