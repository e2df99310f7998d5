//! How much a search may do, and what it did already. Work is counted, never time, so that results do not depend on the machine.

use super::canonical::Searched;
use crate::store::Store;
use std::sync::atomic::{AtomicBool, Ordering};

/// Work that is left.
#[derive(Clone)]
pub struct Budget<'a> {
    /// Candidates that may still be evaluated.
    pub candidates: u64,
    /// Questions that may still be put to the prover.
    pub judgements: u64,
    /// When set by someone else, the search ends with what it has.
    pub interrupted: Option<&'a AtomicBool>,
    /// Windows that need not be searched again.
    pub searched: Searched,
    /// What is known from other runs.
    pub store: Option<&'a dyn Store>,
}

impl Budget<'_> {
    /// That much.
    pub fn new(candidates: u64, judgements: u64) -> Budget<'static> {
        Budget { candidates, judgements, interrupted: None, searched: Searched::default(), store: None }
    }

    /// Whether the search is to end.
    pub fn is_over(&self) -> bool {
        self.candidates == 0 || self.judgements == 0 || self.is_interrupted()
    }

    /// Whether someone asked to stop.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Takes candidates off, as many as there are.
    pub(crate) fn evaluated(&mut self, candidates: u64) {
        self.candidates = self.candidates.saturating_sub(candidates);
    }

    /// Takes one judgement off.
    pub(crate) fn judged(&mut self) {
        self.judgements = self.judgements.saturating_sub(1);
    }
}
