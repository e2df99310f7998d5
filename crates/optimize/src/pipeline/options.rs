//! What is asked of the optimizer.

use crate::avoid::Avoided;
use crate::cost::{Goal, Latencies};
use crate::search::McmcOptions;
use crate::store::Store;
use karakoram_bpf::insn::FuncId;
use karakoram_proof::ProverOptions;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    /// What is to become smaller.
    pub goal: Goal,
    /// What instructions take, for [`Goal::Latency`]; `None` is the model that is built in.
    pub latencies: Option<Arc<Latencies>>,
    /// Most judgements for the whole program, shared out by length; `None` is a number for each function
    /// that grows with its length.
    pub effort: Option<u64>,
    /// Only change these slots.
    pub window: Option<SlotWindow>,
    /// Rules that are not to be used, by name or by the part before the slash.
    pub skip: BTreeSet<String>,
    /// Rewrites that another judge minds.
    pub avoid: Avoided,
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
    /// Also walk as K2 does, where nothing else finds anything.
    pub walk: Option<McmcOptions>,
    /// Seed of the search.
    pub seed: u64,
    /// Functions worked on at once; 0 counts as 1.
    pub jobs: usize,
    /// What searches of other runs came to; the result is the same with and without.
    pub store: Option<&'a dyn Store>,
}
