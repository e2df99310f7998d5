//! The search for shorter stretches of code that no rule knows.
//!
//! Short windows of a function are run on a few concrete states that the facts allow at their entry;
//! candidates, shortest first, are run on the same states, and one that comes to the same end is put
//! to the prover. Nothing here is trusted: a proposal counts only when the prover says so again when
//! it is applied.

pub mod budget;
pub mod canonical;
pub mod case;
pub mod enumerate;
pub mod finish;
pub mod machine;
pub mod mcmc;
pub mod pointers;
pub mod random;
pub mod slice;
pub mod vocabulary;
pub mod window;

pub use budget::Budget;
pub use mcmc::McmcOptions;

use crate::store::{self, Digest, Entry};
use canonical::Key;
use case::Case;
use enumerate::{Limits, Next, enumerate};
use karakoram_bpf::insn::{FuncId, Insn, InsnId};
use karakoram_bpf::program::{Function, Node, Program};
use karakoram_proof::apply::Prover;
use karakoram_proof::facts::Facts;
use karakoram_proof::rewrite::Rewrite;
use mcmc::Chain;
use random::Random;
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
        }
    }
}

/// Name of the search in reports.
pub const RULE: &str = "search";

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

/// Proposes shorter replacements for disjoint windows of a function. Each was judged right by the
/// prover against these facts.
pub fn propose(
    program: &Program,
    function: FuncId,
    facts: &Facts,
    prover: &Prover,
    budget: &mut Budget,
    options: &SearchOptions,
) -> Vec<Rewrite> {
    find(program, function, facts, prover, budget, options).into_iter().map(|found| found.rewrite).collect()
}

/// Like [`propose`], with the windows.
pub fn find(
    program: &Program,
    function: FuncId,
    facts: &Facts,
    prover: &Prover,
    budget: &mut Budget,
    options: &SearchOptions,
) -> Vec<Found> {
    let code = program.function(function);
    let isa = Isa::of(code);
    let mut taken = vec![false; code.nodes.len()];
    let mut all: Vec<Found> = Vec::new();
    let mut fresh = code.fresh_id().0;
    for window in window::choose(program, function, facts, options.within.as_ref()) {
        if budget.is_over() {
            break;
        }
        if taken[window.range.clone()].contains(&true) {
            continue;
        }
        let searcher = Searcher { program, facts, prover, options, isa, fresh };
        if let Some((insns, rewrite)) = searcher.search(&window, budget) {
            taken[window.range.clone()].fill(true);
            fresh += rewrite.edits.iter().map(|e| e.nodes.len() as u32).sum::<u32>();
            all.push(Found { window, insns, rewrite });
        }
    }
    all
}

/// Name of the Markov chain in reports.
pub const WALK: &str = "walk";

/// Like [`propose`], by the stochastic search of K2.
pub fn walk(
    program: &Program,
    function: FuncId,
    facts: &Facts,
    prover: &Prover,
    budget: &mut Budget,
    options: &SearchOptions,
    mcmc: &McmcOptions,
) -> Vec<Rewrite> {
    find_by_walk(program, function, facts, prover, budget, options, mcmc).into_iter().map(|f| f.rewrite).collect()
}

/// Like [`walk`], with the windows.
pub fn find_by_walk(
    program: &Program,
    function: FuncId,
    facts: &Facts,
    prover: &Prover,
    budget: &mut Budget,
    options: &SearchOptions,
    mcmc: &McmcOptions,
) -> Vec<Found> {
    let code = program.function(function);
    let isa = Isa::of(code);
    let windows = window::whole(program, function, facts, options.within.as_ref());
    let prepared: Vec<(&Window, Vec<Case>, Vocabulary)> = windows
        .iter()
        .filter_map(|w| {
            let cases = case::cases(program, facts, w, options.cases, options.seed)?;
            let decided = w.branch.is_some() && cases.iter().all(|c| c.taken == cases[0].taken);
            let vocabulary = Vocabulary::of(facts, w, isa, &cases);
            (!decided).then_some((w, cases, vocabulary))
        })
        .collect();
    let mut chains: Vec<Chain> = prepared.iter().map(|(w, c, v)| Chain::new(w, c, v, mcmc)).collect();
    let mut best: Vec<Option<Found>> = vec![None; chains.len()];
    let mut fresh = code.fresh_id().0;
    let mut random = Random::new(options.seed);
    let turn = mcmc.reset_win_niter.unwrap_or(mcmc.iterations).max(1);
    for n in 0..if chains.is_empty() { 0 } else { mcmc.iterations } {
        if budget.is_over() {
            break;
        }
        let at = (n / turn) as usize % chains.len();
        let hit = chains[at].advance(&mut random);
        budget.evaluated(1);
        let Some(insns) = hit.filter(|insns| is_sensible(facts, prepared[at].0, insns)) else { continue };
        let searcher = Searcher { program, facts, prover, options, isa, fresh };
        if let Some(rewrite) = searcher.judge(prepared[at].0, &insns, budget) {
            chains[at].proven(&insns);
            fresh += insns.len() as u32;
            let rewrite = Rewrite { rule: WALK.to_string(), ..rewrite };
            best[at] = Some(Found { window: prepared[at].0.clone(), insns, rewrite });
        }
    }
    best.into_iter().flatten().collect()
}

struct Searcher<'a> {
    program: &'a Program,
    facts: &'a Facts,
    prover: &'a Prover,
    options: &'a SearchOptions,
    isa: Isa,
    fresh: u32,
}

impl Searcher<'_> {
    fn search(&self, window: &Window, budget: &mut Budget) -> Option<(Vec<Insn>, Rewrite)> {
        let effort = (self.options.longest, self.options.candidates_per_window, self.options.judgements_per_window);
        let key = Key::of(window, self.facts, self.isa, &effort);
        match budget.searched.get(&key) {
            Some(None) => return None,
            Some(Some(insns)) => {
                if let Some(rewrite) = self.judge(window, &insns, budget) {
                    return Some((insns, rewrite));
                }
            }
            None => {}
        }
        let found = self.known_or_enumerated(window, budget);
        if !budget.is_over() {
            budget.searched.insert(&key, found.as_ref().map(|(insns, _)| insns.as_slice()));
        }
        found
    }

    /// What the store knows, at the price that it had; what it does not know, for the next run.
    fn known_or_enumerated(&self, window: &Window, budget: &mut Budget) -> Option<(Vec<Insn>, Rewrite)> {
        let (candidates, judgements) = (self.options.candidates_per_window, self.options.judgements_per_window);
        // With less than a full budget a search may end early.
        let is_full = budget.candidates > candidates && budget.judgements > judgements;
        let Some(store) = budget.store.filter(|_| is_full) else { return self.enumerate(window, budget) };
        let key = Digest::of(self.program, self.facts, window, self.isa, self.prover, self.options);
        let before = (budget.candidates, budget.judgements);
        let entry = store.get(&key).filter(|e| e.candidates <= candidates && e.judgements <= judgements);
        if let Some(entry) = entry
            && let Some(found) = self.known(window, &entry)
        {
            budget.candidates -= entry.candidates;
            budget.judgements -= entry.judgements;
            return found;
        }
        let found = self.enumerate(window, budget);
        if !budget.is_interrupted() {
            let insns = found.as_ref().map(|(insns, _)| self.without_target(insns));
            store.put(
                &key,
                &Entry {
                    found: insns.map(|insns| store::print(&insns, self.program)),
                    candidates: before.0 - budget.candidates,
                    judgements: before.1 - budget.judgements,
                },
            );
        }
        found
    }

    /// What an entry says about a window; `None` when that is not right.
    fn known(&self, window: &Window, entry: &Entry) -> Option<Option<(Vec<Insn>, Rewrite)>> {
        let Some(text) = &entry.found else { return Some(None) };
        let insns: Vec<Insn> = store::parse(text, self.program)?;
        let target = window.branch.and_then(|(insn, _)| insn.target().copied());
        let insns: Vec<Insn> = insns.into_iter().map(|i| i.map(|t| target.unwrap_or(t), |f| f)).collect();
        if !insns.iter().all(|i| window::is_plain(i) || matches!(i, Insn::Branch { .. }) && target.is_some()) {
            return None;
        }
        if insns.iter().map(Insn::slots).sum::<usize>() >= window.slots || !is_sensible(self.facts, window, &insns) {
            return None;
        }
        let rewrite = self.rewrite(window, &insns);
        self.prover.judge(self.program, self.facts, &rewrite).is_ok().then_some(Some((insns, rewrite)))
    }

    /// Instructions whose only target, that of the window, is `@0`.
    fn without_target(&self, insns: &[Insn]) -> Vec<Insn> {
        insns.iter().map(|i| i.map(|_| InsnId(0), |f| f)).collect()
    }

    fn enumerate(&self, window: &Window, budget: &mut Budget) -> Option<(Vec<Insn>, Rewrite)> {
        let cases = case::cases(self.program, self.facts, window, self.options.cases, self.options.seed)?;
        if window.branch.is_some() && cases.iter().all(|c| c.taken == cases[0].taken) {
            // Any branch would do on these.
            return None;
        }
        let vocabulary = Vocabulary::of(self.facts, window, self.isa, &cases);
        let slots = self.options.longest.min(window.slots - 1);
        let limits = Limits { slots, candidates: self.options.candidates_per_window.min(budget.candidates) };
        let mut found = None;
        let mut questions = self.options.judgements_per_window;
        let evaluated = enumerate(window, &cases, &vocabulary, limits, &mut |insns| {
            if !is_sensible(self.facts, window, insns) {
                return Next::Continue;
            }
            found = self.judge(window, insns, budget).map(|rewrite| (insns.to_vec(), rewrite));
            questions = questions.saturating_sub(1);
            if found.is_some() || questions == 0 || budget.is_over() { Next::Stop } else { Next::Continue }
        });
        budget.evaluated(evaluated);
        found
    }

    /// The rewrite, when the prover agrees with it.
    fn judge(&self, window: &Window, insns: &[Insn], budget: &mut Budget) -> Option<Rewrite> {
        let rewrite = self.rewrite(window, insns);
        budget.judged();
        self.prover.judge(self.program, self.facts, &rewrite).is_ok().then_some(rewrite)
    }

    fn rewrite(&self, window: &Window, insns: &[Insn]) -> Rewrite {
        let nodes = name(self.program.function(window.function), window, insns, self.fresh);
        Rewrite::of_range(window.function, window.range.clone(), nodes, RULE)
    }
}

/// Whether a candidate is worth asking about: it loads no more often than the original, which would
/// be slower and, where others can write, different; and the kernel would accept it.
fn is_sensible(facts: &Facts, window: &Window, insns: &[Insn]) -> bool {
    let loads = |insns: &[Insn]| insns.iter().filter(|i| matches!(i, Insn::Load { .. })).count();
    loads(insns) <= loads(&window.insns) && pointers::are_respected(facts, window, insns)
}

/// All code of a window with its replacement in it. Instructions that stay keep their identities, in
/// order, with what hangs on them.
fn name(function: &Function, window: &Window, insns: &[Insn], fresh: u32) -> Vec<Node> {
    let node = |p: &usize| function.nodes[*p].clone();
    let mut nodes: Vec<Node> = window.ahead.iter().map(node).collect();
    let mut from = 0;
    for (i, insn) in insns.iter().enumerate() {
        let stays = |k: &usize| {
            let position = window.positions[*k];
            // The first may be the target of jumps, so it stays the first or goes.
            function.nodes[position].insn == *insn && (position == window.range.start) == nodes.is_empty()
        };
        let kept = (from..window.positions.len()).find(stays);
        let id = match kept {
            Some(k) => {
                from = k + 1;
                function.nodes[window.positions[k]].id
            }
            None => InsnId(fresh + i as u32),
        };
        nodes.push(Node { id, insn: *insn, patched_at_load: false });
    }
    nodes.extend(window.behind.iter().map(node));
    nodes
}
