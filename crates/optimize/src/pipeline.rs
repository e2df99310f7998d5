//! Rounds of proposals and judgements, until nothing gets better.

mod fence;
mod options;
mod outcome;

pub use options::{Level, Options, SlotWindow};
pub use outcome::{FunctionStats, Outcome, Progress, Refused, RuleStats};

use crate::arena;
use crate::context::Context;
use crate::cost::{Cost, Goal, Latencies, Prices};
use crate::explain;
use crate::memo::{self, Memo};
use crate::parallel;
use crate::passes::{self, Pass, Stage};
use crate::portable;
use crate::proposal::Proposal;
use crate::search::{self, Budget, Search, SearchOptions};
use crate::whole::reshaped;
use crate::window;
use fence::Fence;
use karakoram_bpf::insn::{FuncId, Insn};
use karakoram_bpf::program::{Function, Program};
use karakoram_proof::apply::{Proven, Prover};
use karakoram_proof::facts::Facts;
use karakoram_proof::refusal::Refusal;
use karakoram_proof::rewrite::{Edit, Rewrite};
use karakoram_proof::solver::Backend;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Makes a program better. Its functions are worked on apart, [`Options::jobs`] at once, so the
/// result is the same with any number of jobs.
pub fn optimize(program: Program, options: &Options, progress: &mut dyn FnMut(Progress)) -> Outcome {
    let functions: Vec<FuncId> = (0..program.functions.len() as u32).map(FuncId).collect();
    resume(&reshaped(program, options, &|_| false), &functions, options, progress)
}

/// Makes some functions of a program better from where it stands, as when rewrites were taken back.
pub fn resume(start: &Proven, functions: &[FuncId], options: &Options, progress: &mut dyn FnMut(Progress)) -> Outcome {
    // Removed ones have no code.
    let has_code = |f: &FuncId| !start.base().function(*f).nodes.is_empty();
    let functions: Vec<FuncId> = functions.iter().copied().filter(has_code).collect();
    let mut outcome = Outcome {
        functions: Vec::with_capacity(functions.len()),
        refused: Vec::new(),
        judged: 0,
        is_partial: false,
        proven: without(start, |f| functions.contains(&f)),
    };
    let prover = Prover::new(start.base(), options.prover);
    let add = |outcome: &mut Outcome, done: Done| {
        outcome.proven.absorb(done.proven);
        outcome.functions.push(done.stats);
        outcome.refused.extend(done.refused);
        outcome.judged += done.judged;
        outcome.is_partial |= done.is_partial;
    };
    if options.stop_after.is_some() {
        for f in &functions {
            let applied = outcome.proven.applied().len();
            let left = Options { stop_after: options.stop_after.map(|n| n - applied.min(n)), ..options.clone() };
            add(&mut outcome, one(start, &prover, *f, &left, progress));
        }
        return outcome;
    }
    // The longest first, so that no thread is left with it at the end.
    let mut order = functions;
    order.sort_by_key(|f| std::cmp::Reverse(start.base().function(*f).nodes.len()));
    let mut results =
        parallel::map(&order, options.jobs, progress, &|f, progress| one(start, &prover, *f, options, progress));
    results.sort_by_key(|done| done.function);
    results.into_iter().for_each(|done| add(&mut outcome, done));
    outcome
}

/// The same with some functions as they are in the input.
fn without(proven: &Proven, is_out: impl Fn(FuncId) -> bool) -> Proven {
    let mut kept = proven.clone();
    let changed: BTreeSet<FuncId> = proven.applied().iter().map(|a| a.rewrite.function).collect();
    changed.into_iter().filter(|f| is_out(*f)).for_each(|f| kept.revert(f));
    kept
}

/// What came of one function.
struct Done {
    function: FuncId,
    proven: Proven,
    stats: FunctionStats,
    refused: Vec<Refused>,
    judged: u64,
    is_partial: bool,
}

/// Makes one function of a program better.
fn one(
    start: &Proven,
    prover: &Prover,
    function: FuncId,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Done {
    let program = start.base();
    let mut quick = prover.clone();
    quick.backend = Backend::Cadical { conflicts: search_conflicts(options.level) };
    let name = program.function(function).name.clone();
    let mut run = Run {
        stats: FunctionStats { name, ..Default::default() },
        prover: prover.clone(),
        quick,
        options,
        memo: Memo::default(),
        refused: Vec::new(),
        judged: 0,
        effort: effort(program, function, options.effort),
        is_partial: false,
        is_cut_short: false,
        budget: Budget { interrupted: options.interrupted, store: options.store, ..Budget::new(0, 0) },
        given_up: HashMap::new(),
        proven: without(start, |f| f != function),
    };
    run.stats.before = run.cost(function);
    let chosen = options.only.as_ref().is_none_or(|names| names.contains(&run.stats.name));
    let in_window = options.window.is_none_or(|w| w.function == function);
    if options.level > Level::O0 && chosen && in_window {
        let start = Instant::now();
        run.function(function, progress);
        run.stats.time = start.elapsed();
    }
    run.stats.after = run.cost(function);
    Done {
        function,
        proven: run.proven,
        stats: run.stats,
        refused: run.refused,
        judged: run.judged,
        is_partial: run.is_partial || run.is_cut_short,
    }
}

/// Most judgements for a function: its share by length of those for the program, if they are limited.
fn effort(program: &Program, function: FuncId, limit: Option<u64>) -> u64 {
    let length = program.function(function).nodes.len() as u64;
    let all: usize = program.functions.iter().map(|f| f.nodes.len()).sum();
    match limit {
        Some(limit) => (limit as u128 * length as u128).div_ceil(all.max(1) as u128) as u64,
        None => 20_000 + length / 2,
    }
}

/// Rounds times instructions of one function, and how many rounds that may be.
const ROUND_WORK: u64 = 2_000_000;
const MIN_ROUNDS: u64 = 12;
const MAX_ROUNDS: u64 = 10_000;

/// Share of the rounds that the first stage may have: where control goes can take a long time to settle,
/// and what that is for comes later.
const FIRST_SHARE: u64 = 8;

/// Refusals of one kind of proposal in one function before no more of that kind are judged; for each
/// success half as many more.
const MAX_REFUSALS: usize = 64;

/// A rule and the sort of instruction it is about.
type Shape = (String, u64);

/// Candidates and questions of the search in a function of that length.
fn search_work(level: Level, length: u64) -> (u64, u64) {
    match level {
        Level::O3 => (length * 100_000, 1_000 + length * 4),
        _ => ((length * 3_000).min(3_000_000), (100 + length / 4).min(1_500)),
    }
}

/// Conflicts after which the search takes a question for too hard.
fn search_conflicts(level: Level) -> i32 {
    if level == Level::O3 { 1_000 } else { 100 }
}

struct Run<'a> {
    prover: Prover,
    /// Gives up sooner, for the many questions of the search.
    quick: Prover,
    options: &'a Options<'a>,
    proven: Proven,
    stats: FunctionStats,
    memo: Memo,
    refused: Vec<Refused>,
    judged: u64,
    effort: u64,
    is_partial: bool,
    /// Whether rounds ran out somewhere.
    is_cut_short: bool,
    /// What is left for the search, and what it knows already.
    budget: Budget<'a>,
    /// Refusals and successes by shape, in the function at hand.
    given_up: HashMap<Shape, (usize, usize)>,
}

impl Run<'_> {
    fn prices(&self, f: FuncId) -> Prices<'_> {
        let latencies = self.options.latencies.as_deref().unwrap_or_else(|| Latencies::builtin());
        Prices::new(self.options.goal, latencies, self.proven.program(), f)
    }

    fn cost(&self, f: FuncId) -> Cost {
        self.prices(f).of_function(self.proven.program().function(f))
    }

    fn function(&mut self, f: FuncId, progress: &mut dyn FnMut(Progress)) {
        let fence = self.options.window.map(|w| Fence::around(self.proven.program(), &w));
        let length = self.proven.program().function(f).nodes.len() as u64;
        let (candidates, questions) = search_work(self.options.level, length);
        self.budget.candidates = candidates;
        self.budget.judgements = questions;
        self.given_up.clear();
        let mut stage = Stage::FIRST;
        let mut facts = None;
        let mut is_changed = false;
        let mut at_first = self.cost(f);
        let mut progressing = Progressing::since(at_first);
        // Each applied rewrite lowers the cost, so this ends; the bound is about time.
        let rounds = (ROUND_WORK / length.max(1)).clamp(MIN_ROUNDS, MAX_ROUNDS);
        let mut rounds_of_first = 0;
        for _ in 0..rounds {
            if self.is_done() {
                return;
            }
            rounds_of_first += (stage == Stage::FIRST) as u64;
            if stage == Stage::FIRST && rounds_of_first > rounds / FIRST_SHARE {
                (stage, self.is_cut_short) = (Stage::FIRST.next().expect("more stages"), true);
            }
            let known = facts.get_or_insert_with(|| self.prover.facts(self.proven.program(), f));
            let applied = self.round(f, known, stage, fence);
            self.stats.rounds += 1;
            progress(Progress::Round { function: f, slots: self.proven.program().function(f).slots(), applied });
            if applied > 0 {
                facts = None;
                is_changed |= stage > Stage::FIRST;
                if self.options.goal != Goal::Latency || progressing.goes_on(self.cost(f)) {
                    continue;
                }
            }
            progressing = Progressing::since(self.cost(f));
            stage = match stage.next() {
                Some(next) => next,
                None if is_changed && progressing.best < at_first => {
                    (is_changed, at_first) = (false, progressing.best);
                    Stage::FIRST
                }
                None => return,
            };
        }
        self.is_cut_short = true;
    }

    /// Whether proposals of that shape were refused so often that more of them are a waste.
    fn is_hopeless(&self, shape: &Shape, more: usize) -> bool {
        let (refused, accepted) = self.given_up.get(shape).copied().unwrap_or_default();
        refused + more >= MAX_REFUSALS + MAX_REFUSALS / 2 * accepted
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
                let mut found = self.search(f, facts, fence);
                found.retain(|r| arena::keeps_arena(self.proven.program(), f, &r.edits));
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
        let shapes: Vec<Shape> = batch.iter().map(|r| shape(self.proven.program().function(f), r)).collect();
        let before = self.proven.applied().len();
        let texts: Vec<String> = match self.options.explain {
            true => batch.iter().map(|r| explain::rewrite(self.proven.program(), r)).collect(),
            false => Vec::new(),
        };
        let verdicts = self.apply(f, facts, batch);
        let stats = &mut self.stats.rules;
        for (i, (((verdict, rule), key), saved)) in verdicts.iter().zip(rules).zip(keys).zip(saved).enumerate() {
            let Some(verdict) = verdict else { continue };
            let tally = self.given_up.entry(shapes[i].clone()).or_default();
            match verdict {
                Ok(_) => tally.1 += 1,
                Err(why) => tally.0 += is_costly(why) as usize,
            }
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
        let context = Context::new(self.proven.program(), f, facts, &|f| self.prover.signature(f));
        let prices = self.prices(f);
        let allowed = fence.map_or(0..context.len(), |w| w.within(&facts.flow.positions, context.len()));
        let mut proposals: Vec<((i64, i64), &Pass, Proposal)> = Vec::new();
        for pass in passes::ALL {
            if !pass.has_turn(stage, self.options.level, self.options.goal) || self.is_skipped(pass.name) {
                continue;
            }
            let mut found = Vec::new();
            (pass.propose)(&context, &mut found);
            found.retain(|p| p.edits.iter().all(|e| allowed.start <= e.at.start && e.at.end <= allowed.end));
            found.retain(|p| !self.is_skipped(p.rule) && p.is_gain(&context, &prices));
            found.retain(|p| self.is_welcome(&context, f, &p.edits));
            proposals.extend(found.into_iter().map(|p| {
                let (old, new) = p.costs(&context, &prices);
                (growth(&old, &new), pass, p)
            }));
        }
        proposals.sort_by_key(|(growth, ..)| *growth);
        let (mut batch, mut keys) = (Vec::new(), Vec::new());
        let mut more: HashMap<Shape, usize> = HashMap::new();
        for (_, pass, proposal) in &proposals {
            let shape = (proposal.rule.to_string(), sort(context.insn(proposal.edits[0].at.start)));
            // What is rarely right is only tried a few at a time.
            let waiting = more.get(&shape).copied().unwrap_or(0);
            let waiting = if stage > Stage::FIRST { waiting } else { waiting / 8 };
            if self.is_hopeless(&shape, waiting) {
                continue;
            }
            for rewrite in window::rewrites(&context, proposal, pass.extensions) {
                let key = memo::key(&context, &rewrite);
                let is_minded = self.options.avoid.contains(context.function, &rewrite);
                if !is_minded && !self.memo.contains(key) {
                    *more.entry(shape.clone()).or_insert(0) += 1;
                    batch.push(rewrite);
                    keys.push(key);
                }
            }
        }
        (batch, keys)
    }

    /// What the window search finds; its proposals were judged once already.
    fn search(&mut self, f: FuncId, facts: &Facts, fence: Option<Fence>) -> Vec<Rewrite> {
        if self.options.level < Level::O2 || self.is_skipped(search::RULE) || self.budget.is_over() {
            return Vec::new();
        }
        let program = self.proven.program();
        let within = fence.map(|w| w.within(&facts.flow.positions, facts.before.len()));
        let mut options = SearchOptions { within, ..SearchOptions::default() };
        options.seed = options.seed.wrapping_add(self.options.seed);
        if self.options.level < Level::O3 {
            (options.candidates_per_window, options.judgements_per_window) = (4_000, 2);
            options.questions_per_window = 0;
        }
        let before = self.budget.judgements;
        let search = Search { program, function: f, facts, prover: &self.quick, options: &options };
        let mut found = search.find(&mut self.budget);
        if let (true, Some(walk)) = (found.is_empty(), &self.options.walk) {
            found = search.walk(&mut self.budget, walk);
        }
        let mut found: Vec<Rewrite> = found.into_iter().map(|f| f.rewrite).collect();
        self.judged += before - self.budget.judgements;
        let (function, prices) = (self.proven.program().function(f), self.prices(f));
        let context = Context::new(self.proven.program(), f, facts, &|f| self.prover.signature(f));
        found.retain(|rewrite| {
            let (old, new) = prices.of_edits(function, &rewrite.edits);
            new < old && self.is_welcome(&context, f, &rewrite.edits) && !self.options.avoid.contains(function, rewrite)
        });
        found
    }

    /// Whether kernels that take the program as it is will take it with these edits, for all that is known.
    fn is_welcome(&self, context: &Context, f: FuncId, edits: &[Edit]) -> bool {
        portable::is_portable(context, edits) && arena::keeps_arena(self.proven.program(), f, edits)
    }

    fn is_skipped(&self, rule: &str) -> bool {
        let family = rule.split('/').next().unwrap_or(rule);
        self.options.skip.contains(rule) || self.options.skip.contains(family)
    }
}

/// Whether rounds still make a function cheaper. Each proposal promises so, but how often code runs
/// is estimated anew for the changed function, so that promises may cancel one another out.
struct Progressing {
    best: Cost,
    idle_rounds: usize,
}

impl Progressing {
    const MAX_IDLE: usize = 8;

    fn since(best: Cost) -> Progressing {
        Progressing { best, idle_rounds: 0 }
    }

    fn goes_on(&mut self, now: Cost) -> bool {
        self.idle_rounds = if now < self.best { 0 } else { self.idle_rounds + 1 };
        self.best = self.best.min(now);
        self.idle_rounds < Progressing::MAX_IDLE
    }
}

/// What a change adds to the cost: time, where that is the goal, then slots.
fn growth(old: &Cost, new: &Cost) -> (i64, i64) {
    (new.time_fs as i64 - old.time_fs as i64, new.slots as i64 - old.slots as i64)
}

/// Whether it took more than a look to refuse it.
fn is_costly(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::TooLarge(_) | Refusal::Unsafe(_) | Refusal::Different(_) | Refusal::Undecided(_))
}

/// What is counted together: rule and the first instruction that is replaced.
fn shape(function: &Function, rewrite: &Rewrite) -> Shape {
    let first = rewrite.edits.first().and_then(|e| function.nodes.get(e.at.start));
    (rewrite.rule.clone(), first.map_or(0, |n| sort(&n.insn)))
}

/// A number for the sort of an instruction: what it does, not to which registers.
fn sort(insn: &Insn) -> u64 {
    let mut h = DefaultHasher::new();
    std::mem::discriminant(insn).hash(&mut h);
    match insn {
        Insn::Alu { width, op, src, .. } => (width, op, std::mem::discriminant(src)).hash(&mut h),
        Insn::Mov { width, src, .. } => (width, std::mem::discriminant(src)).hash(&mut h),
        Insn::Load { size, .. } => size.hash(&mut h),
        Insn::Store { size, src, .. } => (size, std::mem::discriminant(src)).hash(&mut h),
        _ => {}
    }
    h.finish()
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
