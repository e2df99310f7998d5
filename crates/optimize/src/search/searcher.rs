//! One window: what is known of it, what enumeration and synthesis find, and what the prover says.

use super::canonical::Key;
use super::case::Case;
use super::enumerate::{Limits, Next, enumerate};
use super::synthesize::{Verdict, synthesize};
use super::vocabulary::{Isa, Vocabulary};
use super::window::Window;
use super::{Budget, RULE, Search, pointers, states, window};
use crate::store::{self, Digest, Entry};
use karakoram_bpf::insn::{Insn, InsnId};
use karakoram_bpf::program::{Function, Node};
use karakoram_proof::facts::Facts;
use karakoram_proof::refusal::Refusal;
use karakoram_proof::rewrite::Rewrite;

/// A window of a function, searched.
pub struct Searcher<'a> {
    /// The function.
    pub search: Search<'a>,
    /// Instructions that it may use.
    pub isa: Isa,
    /// The first identity that is not in use.
    pub fresh: u32,
}

impl Searcher<'_> {
    /// What may stand in its place.
    pub fn search(&self, window: &Window, budget: &mut Budget) -> Option<(Vec<Insn>, Rewrite)> {
        let key = Key::of(window, self.search.facts, self.isa, &self.search.options.effort());
        match budget.searched.get(&key) {
            Some(None) => return None,
            Some(Some(insns)) => {
                if let Ok(rewrite) = self.judge(window, &insns, budget) {
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
        let (candidates, judgements) =
            (self.search.options.candidates_per_window, self.search.options.judgements_per_window);
        // With less than a full budget a search may end early.
        let is_full = budget.candidates > candidates && budget.judgements > judgements;
        let Some(store) = budget.store.filter(|_| is_full) else { return self.enumerate(window, budget) };
        let key = Digest::of(
            self.search.program,
            self.search.facts,
            window,
            self.isa,
            self.search.prover,
            self.search.options,
        );
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
                    found: insns.map(|insns| store::print(&insns, self.search.program)),
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
        let insns: Vec<Insn> = store::parse(text, self.search.program)?;
        let target = window.branch.and_then(|(insn, _)| insn.target().copied());
        let insns: Vec<Insn> = insns.into_iter().map(|i| i.map(|t| target.unwrap_or(t), |f| f)).collect();
        if !insns.iter().all(|i| window::is_plain(i) || matches!(i, Insn::Branch { .. }) && target.is_some()) {
            return None;
        }
        if insns.iter().map(Insn::slots).sum::<usize>() >= window.slots
            || !is_sensible(self.search.facts, window, &insns)
        {
            return None;
        }
        let rewrite = self.rewrite(window, &insns);
        self.search
            .prover
            .judge(self.search.program, self.search.facts, &rewrite)
            .is_ok()
            .then_some(Some((insns, rewrite)))
    }

    /// Instructions whose only target, that of the window, is `@0`.
    fn without_target(&self, insns: &[Insn]) -> Vec<Insn> {
        insns.iter().map(|i| i.map(|_| InsnId(0), |f| f)).collect()
    }

    fn enumerate(&self, window: &Window, budget: &mut Budget) -> Option<(Vec<Insn>, Rewrite)> {
        let mut cases = states::cases(
            self.search.program,
            self.search.facts,
            window,
            self.search.options.cases,
            self.search.options.seed,
        )?;
        let vocabulary = Vocabulary::of(self.search.facts, window, self.isa, &cases);
        let slots = self.search.options.longest.min(window.slots - 1);
        let limits = Limits { slots, candidates: self.search.options.candidates_per_window.min(budget.candidates) };
        let mut asking = Asking::new(self, window, budget);
        let mut refuting: Vec<Case> = Vec::new();
        let evaluated = enumerate(window, &cases, &vocabulary, limits, &mut |insns| {
            if refuting.iter().any(|case| !case.agrees(insns)) {
                return Next::Continue;
            }
            match asking.verdict(insns) {
                Verdict::Right | Verdict::Stop => return Next::Stop,
                Verdict::Wrong(case) => refuting.push(*case),
                Verdict::Refused => {}
            }
            if asking.is_over() { Next::Stop } else { Next::Continue }
        });
        asking.budget.evaluated(evaluated);
        if asking.is_over() || self.search.options.questions_per_window == 0 || window.slots < 3 {
            return asking.found;
        }
        cases.extend(refuting);
        let effort = (slots, self.search.options.questions_per_window);
        let questions = synthesize(window, &mut cases, &vocabulary, effort, &mut |insns| asking.verdict(insns));
        asking.budget.evaluated(questions * CANDIDATES_PER_QUESTION);
        asking.found
    }

    /// The rewrite, when the prover agrees with it.
    pub fn judge(&self, window: &Window, insns: &[Insn], budget: &mut Budget) -> Result<Rewrite, Refusal> {
        let rewrite = self.rewrite(window, insns);
        budget.judged();
        self.search.prover.judge(self.search.program, self.search.facts, &rewrite).map(|_| rewrite)
    }

    fn rewrite(&self, window: &Window, insns: &[Insn]) -> Rewrite {
        let nodes = name(self.search.program.function(window.function), window, insns, self.fresh);
        Rewrite::of_range(window.function, window.range.clone(), nodes, RULE)
    }
}

/// Candidates that could be evaluated in the time that the solver takes for constants.
const CANDIDATES_PER_QUESTION: u64 = 2_000;

/// Questions to the prover about one window.
struct Asking<'s, 'a, 'b, 'c> {
    searcher: &'s Searcher<'a>,
    window: &'s Window,
    budget: &'b mut Budget<'c>,
    left: u64,
    found: Option<(Vec<Insn>, Rewrite)>,
}

impl<'s, 'a, 'b, 'c> Asking<'s, 'a, 'b, 'c> {
    fn new(searcher: &'s Searcher<'a>, window: &'s Window, budget: &'b mut Budget<'c>) -> Self {
        Asking { searcher, window, budget, left: searcher.search.options.judgements_per_window, found: None }
    }

    fn is_over(&self) -> bool {
        self.found.is_some() || self.left == 0 || self.budget.is_over()
    }

    /// Asks about a candidate that is right on all cases.
    fn verdict(&mut self, insns: &[Insn]) -> Verdict {
        let Search { program, facts, prover, .. } = self.searcher.search;
        if self.is_over() {
            return Verdict::Stop;
        }
        if !is_sensible(facts, self.window, insns) {
            return Verdict::Refused;
        }
        self.left -= 1;
        match self.searcher.judge(self.window, insns, self.budget) {
            Ok(rewrite) => {
                self.found = Some((insns.to_vec(), rewrite));
                Verdict::Right
            }
            Err(Refusal::Different(_)) if !self.is_over() => {
                let rewrite = self.searcher.rewrite(self.window, insns);
                let example = prover.counterexample(program, facts, &rewrite);
                let case = example.and_then(|e| states::refuting(program, facts, self.window, &e));
                let case = case.filter(|c| !c.agrees(insns));
                case.map_or(Verdict::Refused, |case| Verdict::Wrong(Box::new(case)))
            }
            Err(_) => Verdict::Refused,
        }
    }
}

/// Whether a candidate is worth asking about: it loads no more often than the original, which would
/// be slower and, where others can write, different; and the kernel would accept it.
pub fn is_sensible(facts: &Facts, window: &Window, insns: &[Insn]) -> bool {
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
        nodes.push(Node { id, insn: *insn, patch: None });
    }
    nodes.extend(window.behind.iter().map(node));
    nodes
}
