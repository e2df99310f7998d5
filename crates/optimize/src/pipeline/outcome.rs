//! What the optimizer tells, on the way and in the end.

use crate::cost::Cost;
use karakoram_bpf::insn::FuncId;
use karakoram_proof::apply::Proven;
use std::collections::BTreeMap;
use std::time::Duration;

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
    /// Refused proposals, when they were asked for.
    pub refused: Vec<Refused>,
    /// Judgements.
    pub judged: u64,
    /// Whether work was left: the budget was used up, or it was interrupted.
    pub is_partial: bool,
}
