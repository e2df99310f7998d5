//! Rounds of proposals and judgements, until nothing gets better.

use crate::context::Context;
use crate::cost::Cost;
use crate::explain;
use crate::memo::{self, Memo};
use crate::notes;
use crate::passes::{self, Pass, Stage};
use crate::proposal::Proposal;
use crate::search::{self, Budget, SearchOptions};
use crate::window;
use karakoram_bpf::insn::{FuncId, InsnId};
use karakoram_bpf::program::Program;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Proven, Prover};
use karakoram_proof::facts::Facts;
use karakoram_proof::refusal::Refusal;
use karakoram_proof::rewrite::Rewrite;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How hard to try.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// Nothing.
    O0,
    /// Dead code, constants, copies, jumps.
    O1,
    /// All passes.
    #[default]
    O2,
    /// All passes, and search.
    O3,
}

/// Where edits are allowed: inclusive slots of one function of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotWindow {
    /// The function.
    pub function: FuncId,
    /// First slot.
    pub first: usize,
    /// Last slot.
    pub last: usize,
}

/// What to do.
#[derive(Clone, Default)]
pub struct Options<'a> {
    /// How hard to try.
    pub level: Level,
    /// Most judgements for the whole program; `None` is a number that grows with its length.
    pub effort: Option<u64>,
    /// Only change these slots.
    pub window: Option<SlotWindow>,
    /// Rules that are not to be used, by name or by the part before the slash.
    pub skip: BTreeSet<String>,
    /// Only these functions, by name.
    pub only: Option<BTreeSet<String>>,
    /// Stop after that many rewrites, for finding the one that does harm.
    pub stop_after: Option<usize>,
    /// Set to stop early and keep what is proven.
    pub interrupted: Option<&'a AtomicBool>,
    /// Keep every refused proposal as text; slow.
    pub explain: bool,
    /// Memory-model optimizations of the prover.
    pub prover: ProverOptions,
}

/// News for whoever waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A round of a function is done.
    Round {
        /// The function.
        function: FuncId,
        /// Its slots now.
        slots: usize,
        /// Rewrites applied in this round.
        applied: usize,
    },
}

/// A proposal that was refused, as text; kept only with [`Options::explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The function.
    pub function: FuncId,
    /// Why.
    pub why: String,
    /// What was proposed.
    pub rewrite: String,
}

/// How a rule fared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleStats {
    /// Judgements.
    pub judged: usize,
    /// Rewrites applied.
    pub accepted: usize,
    /// Slots saved by them.
    pub saved_slots: i64,
    /// Refusals by their kind.
    pub refused: BTreeMap<&'static str, usize>,
}

/// How a function fared.
#[derive(Clone, Debug, Default)]
pub struct FunctionStats {
    /// Its name.
    pub name: String,
    /// Cost before.
    pub before: Cost,
    /// Cost after.
    pub after: Cost,
    /// Rounds.
    pub rounds: usize,
    /// By rule.
    pub rules: BTreeMap<String, RuleStats>,
    /// Time spent. The only thing in here that differs between runs.
    pub time: Duration,
}

/// Everything that came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The better program.
    pub proven: Proven,
    /// One for each function.
    pub functions: Vec<FunctionStats>,
    /// What was only known in outline, counted by name.
    pub notes: BTreeMap<String, usize>,
    /// Refused proposals, when they were asked for.
    pub refused: Vec<Refused>,
    /// Judgements.
    pub judged: u64,
    /// Whether work was left: the budget was used up, or it was interrupted.
    pub is_partial: bool,
}

/// Makes a program better.
pub fn optimize(program: Program, options: &Options, progress: &mut dyn FnMut(Progress)) -> Outcome {
    let prover = Prover::new(&program, options.prover);
    let notes = notes::barriers(&program);
    let instructions: usize = program.functions.iter().map(|f| f.nodes.len()).sum();
    let effort = options.effort.unwrap_or(20_000 + instructions as u64 / 2);
    let mut run = Run {
        functions: program
            .functions
            .iter()
            .map(|f| FunctionStats { name: f.name.clone(), before: Cost::of_function(f), ..Default::default() })
            .collect(),
        prover,
        options,
        memo: Memo::default(),
        refused: Vec::new(),
        judged: 0,
        effort,
        is_partial: false,
        proven: Proven::input(program),
    };
    for i in 0..run.functions.len() {
        let chosen = options.only.as_ref().is_none_or(|names| names.contains(&run.functions[i].name));
        let in_window = options.window.is_none_or(|w| w.function.0 as usize == i);
        if options.level > Level::O0 && chosen && in_window {
            let start = Instant::now();
            run.function(FuncId(i as u32), progress);
            run.functions[i].time = start.elapsed();
        }
        run.functions[i].after = Cost::of_function(&run.proven.program().functions[i]);
    }
    Outcome {
        proven: run.proven,
        functions: run.functions,
        notes,
        refused: run.refused,
        judged: run.judged,
        is_partial: run.is_partial,
    }
}

struct Run<'a> {
    prover: Prover,
    options: &'a Options<'a>,
    proven: Proven,
    functions: Vec<FunctionStats>,
    memo: Memo,
    refused: Vec<Refused>,
    judged: u64,
    effort: u64,
    is_partial: bool,
}

/// The instructions around the slots that may be changed.
#[derive(Clone, Copy)]
struct Fence {
    before: Option<InsnId>,
    after: Option<InsnId>,
}

impl Run<'_> {
    fn function(&mut self, f: FuncId, progress: &mut dyn FnMut(Progress)) {
        let fence = self.options.window.map(|w| fence(self.proven.program(), &w));
        let mut stage = Stage::FIRST;
        // Each applied rewrite lowers the cost, so this ends; the bound is a belt.
        for _ in 0..10_000 {
            if self.is_done() {
                return;
            }
            let facts = self.prover.facts(self.proven.program(), f);
            let applied = self.round(f, &facts, stage, fence);
            self.functions[f.0 as usize].rounds += 1;
            progress(Progress::Round { function: f, slots: self.proven.program().function(f).slots(), applied });
            match (applied, stage.next()) {
                (0, Some(next)) => stage = next,
                (0, None) => return,
                _ => stage = Stage::FIRST,
            }
        }
    }

    fn is_done(&mut self) -> bool {
        let interrupted = self.options.interrupted.is_some_and(|i| i.load(Ordering::Relaxed));
        let enough = self.options.stop_after.is_some_and(|n| self.proven.applied().len() >= n);
        if interrupted || self.judged >= self.effort {
            self.is_partial = true;
        }
        self.is_partial || enough
    }

    /// One round; returns how many rewrites were applied.
    fn round(&mut self, f: FuncId, facts: &Facts, stage: Stage, fence: Option<Fence>) -> usize {
        let (batch, keys) = match stage == Stage::SEARCH {
            true => {
                let found = self.search(f, facts, fence);
                let keys = vec![0; found.len()];
                (found, keys)
            }
            false => self.candidates(f, facts, stage, fence),
        };
        if batch.is_empty() {
            return 0;
        }
        let saved: Vec<i64> = batch.iter().map(|r| r.saved_slots(self.proven.program().function(f))).collect();
        let rules: Vec<String> = batch.iter().map(|r| r.rule.clone()).collect();
        let before = self.proven.applied().len();
        let texts: Vec<String> = match self.options.explain {
            true => batch.iter().map(|r| explain::rewrite(self.proven.program(), r)).collect(),
            false => Vec::new(),
        };
        let verdicts = self.apply(f, facts, batch);
        let stats = &mut self.functions[f.0 as usize].rules;
        for (i, (((verdict, rule), key), saved)) in verdicts.iter().zip(rules).zip(keys).zip(saved).enumerate() {
            let Some(verdict) = verdict else { continue };
            let entry = stats.entry(rule).or_default();
            entry.judged += 1;
            match verdict {
                Ok(_) => {
                    entry.accepted += 1;
                    entry.saved_slots += saved;
                }
                Err(why) => {
                    if let Some(text) = texts.get(i) {
                        self.refused.push(Refused { function: f, why: why.to_string(), rewrite: text.clone() });
                    }
                    *entry.refused.entry(kind(why)).or_insert(0) += 1;
                    self.memo.insert(key);
                }
            }
        }
        self.proven.applied().len() - before
    }

    fn apply(&mut self, f: FuncId, facts: &Facts, batch: Vec<Rewrite>) -> Vec<Option<karakoram_proof::apply::Verdict>> {
        let (judged, effort, interrupted) = (&mut self.judged, self.effort, self.options.interrupted);
        let mut wanted = || {
            let stop = *judged >= effort || interrupted.is_some_and(|i| i.load(Ordering::Relaxed));
            *judged += !stop as u64;
            !stop
        };
        let Some(limit) = self.options.stop_after else {
            return self.prover.apply(&mut self.proven, f, facts, batch, &mut wanted);
        };
        // The first ones of exactly those that would be applied without the limit.
        let mut trial = self.proven.clone();
        let done = trial.applied().len();
        let mut verdicts = self.prover.apply(&mut trial, f, facts, batch.clone(), &mut wanted);
        if trial.applied().len() <= limit {
            self.proven = trial;
            return verdicts;
        }
        let mut left = limit - done;
        let mut kept = Vec::new();
        for (verdict, rewrite) in verdicts.iter_mut().zip(batch) {
            match verdict {
                Some(Ok(_)) if left > 0 => {
                    left -= 1;
                    kept.push(rewrite);
                }
                Some(Ok(_)) => *verdict = None,
                _ => {}
            }
        }
        self.prover.apply(&mut self.proven, f, facts, kept, &mut || true);
        verdicts
    }

    /// What to judge, most promising first, with the keys to remember refusals by.
    fn candidates(&self, f: FuncId, facts: &Facts, stage: Stage, fence: Option<Fence>) -> (Vec<Rewrite>, Vec<u64>) {
        let context = Context::new(self.proven.program(), f, facts, &|f| self.prover.arguments(f));
        let allowed = fence.map_or(0..context.len(), |w| within(&facts.flow.positions, context.len(), w));
        let mut proposals: Vec<(i64, &Pass, Proposal)> = Vec::new();
        for pass in passes::ALL {
            if pass.stage != stage || pass.level > self.options.level || self.is_skipped(pass.name) {
                continue;
            }
            let mut found = Vec::new();
            (pass.propose)(&context, &mut found);
            found.retain(|p| p.edits.iter().all(|e| allowed.start <= e.at.start && e.at.end <= allowed.end));
            found.retain(|p| !self.is_skipped(p.rule) && p.is_gain(&context));
            proposals.extend(found.into_iter().map(|p| {
                let (old, new) = p.costs(&context);
                (new.slots as i64 - old.slots as i64, pass, p)
            }));
        }
        proposals.sort_by_key(|(growth, ..)| *growth);
        let (mut batch, mut keys) = (Vec::new(), Vec::new());
        for (_, pass, proposal) in &proposals {
            for rewrite in window::rewrites(&context, proposal, pass.extensions) {
                let key = memo::key(&context, &rewrite);
                if !self.memo.contains(key) {
                    batch.push(rewrite);
                    keys.push(key);
                }
            }
        }
        (batch, keys)
    }

    /// What the window search finds; its proposals were judged once already.
    fn search(&mut self, f: FuncId, facts: &Facts, fence: Option<Fence>) -> Vec<Rewrite> {
        if self.options.level < Level::O3 || self.is_skipped(search::RULE) {
            return Vec::new();
        }
        let left = self.effort - self.judged.min(self.effort);
        let mut budget = Budget { interrupted: self.options.interrupted, ..Budget::new(left * 1_000, left) };
        let program = self.proven.program();
        let within = fence.map(|w| within(&facts.flow.positions, facts.before.len(), w));
        let options = SearchOptions { within, ..SearchOptions::default() };
        let found = search::propose(program, f, facts, &self.prover, &mut budget, &options);
        self.judged += left - budget.judgements;
        found
    }

    fn is_skipped(&self, rule: &str) -> bool {
        let family = rule.split('/').next().unwrap_or(rule);
        self.options.skip.contains(rule) || self.options.skip.contains(family)
    }
}

fn fence(program: &Program, window: &SlotWindow) -> Fence {
    let function = program.function(window.function);
    let offsets = function.slot_offsets();
    let inside = |i: usize| offsets[i] >= window.first && offsets[i + 1] <= window.last + 1;
    let n = function.nodes.len();
    let first = (0..n).find(|i| inside(*i)).unwrap_or(n);
    let last = (0..n).rev().find(|i| inside(*i)).map_or(first, |i| i + 1);
    let id = |i: usize| function.nodes.get(i).map(|n| n.id);
    Fence { before: first.checked_sub(1).and_then(id), after: id(last) }
}

fn within(positions: &HashMap<InsnId, usize>, length: usize, fence: Fence) -> Range<usize> {
    let at = |id: Option<InsnId>| id.and_then(|id| positions.get(&id).copied());
    at(fence.before).map_or(0, |p| p + 1)..at(fence.after).unwrap_or(length)
}

fn kind(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed(_) => "malformed",
        Refusal::SideEntry(_) => "side entry",
        Refusal::Loop => "loop",
        Refusal::TooLarge(_) => "too large",
        Refusal::Barrier(..) => "barrier",
        Refusal::ReadsDead(_) => "reads dead",
        Refusal::Unsafe(_) => "unsafe",
        Refusal::Different(_) => "different",
        Refusal::Undecided(_) => "undecided",
    }
}
