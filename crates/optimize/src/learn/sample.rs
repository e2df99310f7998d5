//! Windows of real programs that a search finds something shorter for, after everything else has had
//! its turn.

use crate::pipeline::{Options, optimize};
use crate::search::{self, Budget, Found, McmcOptions, Search, SearchOptions};
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::{FuncId, Insn, Reg};
use karakoram_bpf::program::Program;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Proven, Prover};
use karakoram_proof::facts::Kind;
use std::sync::atomic::AtomicBool;

/// One window and what replaces it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The window.
    pub old: Vec<Insn>,
    /// What replaces it.
    pub new: Vec<Insn>,
    /// Registers that matter after it.
    pub live: RegSet,
    /// For registers that are numbers before it: the smallest and the largest that they may be.
    pub known: Vec<(Reg, u64, u64)>,
    /// Where it was.
    pub origin: String,
}

impl Sample {
    fn of(found: &Found, origin: &str) -> Sample {
        let window = &found.window;
        let is_number = |r: &Reg| matches!(window.state.regs[r.index()].kind, Kind::Scalar | Kind::Unknown);
        let read = window.reads();
        let known = window.live_in.iter().filter(|r| read.contains(*r) && is_number(r)).map(|r| {
            let range = &window.state.regs[r.index()].range;
            (r, range.min, range.max)
        });
        Sample {
            old: window.insns.clone(),
            new: found.insns.clone(),
            live: window.live_out(),
            known: known.collect(),
            origin: origin.to_string(),
        }
    }

    /// A text that is the same for samples that teach the same.
    pub fn key(&self) -> String {
        let written = self.old.iter().chain(&self.new).fold(RegSet::EMPTY, |all, i| all.union(effects::of(i).writes));
        let live: RegSet = self.live.iter().filter(|r| written.contains(*r)).collect();
        format!("{:?} {:?} {live:?} {:?}", self.old, self.new, self.known)
    }
}

/// How much search for each function.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Candidates for each instruction.
    pub candidates: u64,
    /// Questions to the prover.
    pub judgements: u64,
    /// Steps of the Markov chain where enumeration finds nothing; 0 for none.
    pub steps: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { candidates: 10_000, judgements: 400, steps: 20_000 }
    }
}

/// The windows of a program that a search improves.
pub fn samples(program: Program, origin: &str, effort: &Effort, interrupted: Option<&AtomicBool>) -> Vec<Sample> {
    let skip = [search::RULE.to_string()].into();
    let options = Options { skip, interrupted, ..Options::default() };
    let mut proven = optimize(program, &options, &mut |_| {}).proven;
    let prover = Prover::new(proven.program(), ProverOptions::default());
    let mut all = Vec::new();
    for f in (0..proven.program().functions.len() as u32).map(FuncId) {
        let function = proven.program().function(f);
        let origin = format!("{origin} {}", function.name);
        let candidates = function.nodes.len() as u64 * effort.candidates;
        let mut budget = Budget { interrupted, ..Budget::new(candidates, effort.judgements) };
        while !budget.is_over() {
            let found = round(&mut proven, &prover, f, effort, &mut budget);
            if found.is_empty() {
                break;
            }
            all.extend(found.iter().map(|f| Sample::of(f, &origin)));
        }
    }
    all
}

/// Searches once, and applies what was found, so that the next round sees other windows.
fn round(proven: &mut Proven, prover: &Prover, f: FuncId, effort: &Effort, budget: &mut Budget) -> Vec<Found> {
    let facts = prover.facts(proven.program(), f);
    let options = SearchOptions::default();
    let search = Search { program: proven.program(), function: f, facts: &facts, prover, options: &options };
    let mut found = search.find(budget);
    if found.is_empty() && effort.steps > 0 {
        let walk = McmcOptions { iterations: effort.steps, ..McmcOptions::default() };
        found = search.walk(budget, &walk);
    }
    let rewrites = found.iter().map(|f| f.rewrite.clone()).collect();
    let verdicts = prover.apply(proven, f, &facts, rewrites, &mut || true);
    found.into_iter().zip(verdicts).filter(|(_, v)| matches!(v, Some(Ok(_)))).map(|(f, _)| f).collect()
}
