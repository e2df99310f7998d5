//! The optimizer and the prover as the commands use them.

use crate::interrupt;
use crate::terminal;
use indicatif::{ProgressBar, ProgressStyle};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_optimize::avoid::Avoided;
use karakoram_optimize::cost::{Goal, Latencies};
use karakoram_optimize::pipeline::SlotWindow;
use karakoram_optimize::search::McmcOptions;
use karakoram_optimize::store::{Sqlite, Store};
use karakoram_optimize::whole;
use karakoram_optimize::{Level, Options, Outcome, Progress};
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Proven;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What a user may ask of the optimizer.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How hard to try.
    pub level: Level,
    /// What is to become smaller.
    pub goal: Goal,
    /// What instructions take, for the goal that asks; `None` is the model that is built in.
    pub latencies: Option<Arc<Latencies>>,
    /// Most judgements; see [`Options::effort`].
    pub effort: Option<u64>,
    /// Slots to stay within.
    pub window: Option<SlotWindow>,
    /// Rules that are not used.
    pub skip: BTreeSet<String>,
    /// Rewrites that another judge minds.
    pub avoid: Avoided,
    /// Functions that may change, by name.
    pub only: Option<BTreeSet<String>>,
    /// Stop after so many rewrites.
    pub stop_after: Option<usize>,
    /// How the prover models memory.
    pub prover: ProverOptions,
    /// K2's Markov chain, when asked for.
    pub walk: Option<McmcOptions>,
    /// Seed of the search.
    pub seed: u64,
    /// Functions worked on at once.
    pub jobs: usize,
    /// What searches of other runs came to.
    pub cache: Option<Arc<Sqlite>>,
    /// Whether to show progress.
    pub quiet: bool,
}

impl Settings {
    fn options(&self) -> Options<'_> {
        Options {
            level: self.level,
            goal: self.goal,
            latencies: self.latencies.clone(),
            effort: self.effort,
            window: self.window,
            skip: self.skip.clone(),
            avoid: self.avoid.clone(),
            only: self.only.clone(),
            stop_after: self.stop_after,
            interrupted: Some(interrupt::flag()),
            prover: self.prover,
            walk: self.walk.clone(),
            seed: self.seed,
            jobs: self.jobs,
            store: self.cache.as_deref().map(|c| c as &dyn Store),
            ..Options::default()
        }
    }
}

/// What is done to a program as a whole first; functions that `keeps` says yes to stay as they are.
pub fn reshaped(program: &Program, settings: &Settings, keeps: &dyn Fn(FuncId) -> bool) -> Proven {
    whole::reshaped(program.clone(), &settings.options(), keeps)
}

/// Makes all functions of a program better from where it stands.
pub fn run(start: &Proven, settings: &Settings) -> Outcome {
    let functions: Vec<FuncId> = (0..start.base().functions.len() as u32).map(FuncId).collect();
    resume(start, &functions, settings)
}

/// Makes some functions of a program better from where it stands.
pub fn resume(start: &Proven, functions: &[FuncId], settings: &Settings) -> Outcome {
    let options = settings.options();
    let bar = progress_bar(settings.quiet);
    let program = start.base();
    let mut slots: Vec<usize> = program.functions.iter().map(|f| f.slots()).collect();
    let (before, mut rewrites) = (program.slots(), 0);
    let mut show = |news: Progress| {
        #[allow(clippy::single_match)]
        match news {
            Progress::Round { function, slots: now, applied } => {
                slots[function.0 as usize] = now;
                rewrites += applied;
                let name = &program.function(function).name;
                let now: usize = slots.iter().sum();
                bar.set_message(format!("{name}: {before} -> {now} slots, {rewrites} rewrites proven"));
            }
            // Other news is for people who look into the optimizer.
            #[allow(unreachable_patterns)]
            _ => {}
        }
    };
    let outcome = karakoram_optimize::resume(start, functions, &options, &mut show);
    bar.finish_and_clear();
    outcome
}

fn progress_bar(quiet: bool) -> ProgressBar {
    if quiet || !terminal::is_watched() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
