//! The search for shorter stretches of code that no rule knows.
//!
//! Short windows of a function are run on a few concrete states that the facts allow at their entry;
//! candidates, shortest first, are run on the same states, and one that comes to the same end is put
//! to the prover. Nothing here is trusted: a proposal counts only when the prover says so again when
//! it is applied.

pub mod budget;
pub mod canonical;
pub mod case;
mod entry;
pub mod enumerate;
pub mod finish;
pub mod machine;
pub mod mcmc;
pub mod pointers;
pub mod random;
mod searcher;
mod sketch;
pub mod slice;
pub mod states;
mod synthesize;
pub mod vocabulary;
pub mod window;

pub use budget::Budget;
pub use mcmc::McmcOptions;

use case::Case;
use karakoram_bpf::insn::{FuncId, Insn};
use karakoram_bpf::program::Program;
use karakoram_proof::apply::Prover;
use karakoram_proof::facts::Facts;
use karakoram_proof::rewrite::Rewrite;
use mcmc::Chain;
use random::Random;
use searcher::Searcher;
use std::hash::Hash;
use std::ops::Range;
use vocabulary::{Isa, Vocabulary};
use window::Window;

/// How to search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Same seed, same proposals.
    pub seed: u64,
    /// Layout positions that windows must lie in; see [`window::positions_of_slots`].
    pub within: Option<Range<usize>>,
    /// Concrete states that each candidate is run on.
    pub cases: usize,
    /// Longest replacement in slots.
    pub longest: usize,
    /// Candidates to be evaluated for one window.
    pub candidates_per_window: u64,
    /// Questions to the prover for one window.
    pub judgements_per_window: u64,
    /// Questions to the solver for constants, for one window; 0 for no synthesis.
    pub questions_per_window: u64,
}

impl SearchOptions {
    /// How much may be done for one window.
    pub fn effort(&self) -> impl Hash {
        (self.longest, self.candidates_per_window, self.judgements_per_window, self.questions_per_window)
    }
}

impl Default for SearchOptions {
    fn default() -> SearchOptions {
        SearchOptions {
            seed: 0,
            within: None,
            cases: 16,
            longest: 3,
            candidates_per_window: 60_000,
            judgements_per_window: 6,
            questions_per_window: 60,
        }
    }
}

/// Name of the search in reports.
pub const RULE: &str = "search";

/// Name of the Markov chain in reports.
pub const WALK: &str = "walk";

/// A window with what may replace it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The window.
    pub window: Window,
    /// What may stand in its place.
    pub insns: Vec<Insn>,
    /// The proposal.
    pub rewrite: Rewrite,
}

/// A function to be searched.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The program.
    pub program: &'a Program,
    /// The function.
    pub function: FuncId,
    /// Its facts.
    pub facts: &'a Facts,
    /// Who judges what is found.
    pub prover: &'a Prover,
    /// How to search.
    pub options: &'a SearchOptions,
}

impl<'a> Search<'a> {
    /// Shorter replacements for disjoint windows. Each was judged right by the prover against these facts.
    pub fn find(&self, budget: &mut Budget) -> Vec<Found> {
        let code = self.program.function(self.function);
        let mut taken = vec![false; code.nodes.len()];
        let mut all: Vec<Found> = Vec::new();
        let mut fresh = code.fresh_id().0;
        for window in window::choose(self.program, self.function, self.facts, self.options.within.as_ref()) {
            if budget.is_over() {
                break;
            }
            if taken[window.range.clone()].contains(&true) {
                continue;
            }
            if let Some((insns, rewrite)) = self.searcher(fresh).search(&window, budget) {
                taken[window.range.clone()].fill(true);
                fresh += rewrite.edits.iter().map(|e| e.nodes.len() as u32).sum::<u32>();
                all.push(Found { window, insns, rewrite });
            }
        }
        all
    }

    /// Like [`Search::find`], by the stochastic search of K2.
    pub fn walk(&self, budget: &mut Budget, mcmc: &McmcOptions) -> Vec<Found> {
        let Search { program, facts, options, .. } = *self;
        let isa = Isa::of(program.function(self.function));
        let windows = window::whole(program, self.function, facts, options.within.as_ref());
        let prepare = |w| {
            let cases = states::cases(program, facts, w, options.cases, options.seed)?;
            let vocabulary = Vocabulary::of(facts, w, isa, &cases);
            Some((w, cases, vocabulary))
        };
        let prepared: Vec<(&Window, Vec<Case>, Vocabulary)> = windows.iter().filter_map(prepare).collect();
        let mut chains: Vec<Chain> = prepared.iter().map(|(w, c, v)| Chain::new(w, c, v, mcmc)).collect();
        let mut best: Vec<Option<Found>> = vec![None; chains.len()];
        let mut fresh = program.function(self.function).fresh_id().0;
        let mut random = Random::new(options.seed);
        let turn = mcmc.reset_win_niter.unwrap_or(mcmc.iterations).max(1);
        for n in 0..if chains.is_empty() { 0 } else { mcmc.iterations } {
            if budget.is_over() {
                break;
            }
            let at = (n / turn) as usize % chains.len();
            let window = prepared[at].0;
            let hit = chains[at].advance(&mut random);
            budget.evaluated(1);
            let Some(insns) = hit.filter(|insns| searcher::is_sensible(facts, window, insns)) else { continue };
            if let Ok(rewrite) = self.searcher(fresh).judge(window, &insns, budget) {
                chains[at].proven(&insns);
                fresh += insns.len() as u32;
                let rewrite = Rewrite { rule: WALK.to_string(), ..rewrite };
                best[at] = Some(Found { window: window.clone(), insns, rewrite });
            }
        }
        best.into_iter().flatten().collect()
    }

    fn searcher(&self, fresh: u32) -> Searcher<'a> {
        Searcher { search: *self, isa: Isa::of(self.program.function(self.function)), fresh }
    }
}
