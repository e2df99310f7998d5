//! The passes. Each looks at one function and proposes; none is trusted. To add one, write a file
//! and a line here.

use crate::context::Context;
use crate::cost::Goal;
use crate::pipeline::Level;
use crate::proposal::Proposal;
use crate::rules;

mod addresses;
mod advance;
mod again;
mod alike;
mod arrange;
mod bases;
mod begun;
mod branch;
mod choice;
mod chosen;
mod clear_bits;
mod constants;
mod copies;
mod dead;
mod deletion;
mod doubled;
mod earlier;
mod exchange;
mod exits;
mod extensions;
mod folded;
mod gather;
mod hoist;
mod joins;
mod jumps;
mod keep;
mod known;
mod legacy;
mod locked_add;
mod movable;
mod near;
mod numbers;
mod offsets;
mod overlap;
mod preload;
mod prompt;
mod rebase;
mod reload;
mod returns;
mod rotate;
mod select;
mod share;
mod shifted;
mod sink;
mod slots;
mod spills;
mod sums;
mod switch;
mod tails;
mod thread;
mod unreachable;
mod wide_load;
mod wide_store;

/// When a pass has its turn: later stages only when earlier ones find nothing more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stage(u8);

impl Stage {
    /// The first: where control goes, while the code is as it was written.
    pub const FIRST: Stage = Stage(0);
    const SECOND: Stage = Stage(1);
    const THIRD: Stage = Stage(2);
    const LAST: Stage = Stage(3);
    /// The window search.
    pub const SEARCH: Stage = Stage(4);

    /// The one after it.
    pub fn next(self) -> Option<Stage> {
        (self < Stage::SEARCH).then_some(Stage(self.0 + 1))
    }
}

/// A pass.
pub struct Pass {
    /// Its name, the first part of its rules' names.
    pub name: &'static str,
    /// Lowest level that has it.
    pub level: Level,
    /// When it has its turn.
    pub stage: Stage,
    /// The only goal that asks for it; `None`: all do.
    pub goal: Option<Goal>,
    /// How many larger windows are tried when the smallest does not do.
    pub extensions: usize,
    /// Proposes.
    pub propose: fn(&Context, &mut Vec<Proposal>),
}

const fn pass(
    name: &'static str,
    level: Level,
    stage: Stage,
    extensions: usize,
    propose: fn(&Context, &mut Vec<Proposal>),
) -> Pass {
    Pass { name, level, stage, goal: None, extensions, propose }
}

impl Pass {
    const fn only_for(self, goal: Goal) -> Pass {
        Pass { goal: Some(goal), ..self }
    }

    /// Whether it has a turn in that stage, at that level, for that goal.
    pub fn has_turn(&self, stage: Stage, level: Level, goal: Goal) -> bool {
        self.stage == stage && self.level <= level && self.goal.is_none_or(|only| only == goal)
    }
}

/// All passes, in the order in which they propose.
pub const ALL: &[Pass] = &[
    pass("unreachable", Level::O1, Stage::FIRST, 0, unreachable::propose),
    pass("dead", Level::O1, Stage::SECOND, 0, dead::propose),
    pass("branch", Level::O1, Stage::FIRST, 0, branch::propose),
    pass("jumps", Level::O1, Stage::FIRST, 0, jumps::propose),
    pass("thread", Level::O2, Stage::FIRST, 0, thread::propose),
    pass("rules", Level::O1, Stage::SECOND, 1, rules::pass::propose),
    pass("known", Level::O1, Stage::SECOND, 1, known::propose),
    pass("wide_load", Level::O2, Stage::SECOND, 0, wide_load::propose),
    pass("wide_store", Level::O2, Stage::SECOND, 0, wide_store::propose),
    pass("reload", Level::O2, Stage::SECOND, 0, reload::propose),
    pass("legacy", Level::O2, Stage::SECOND, 0, legacy::propose),
    pass("offsets", Level::O2, Stage::SECOND, 0, offsets::propose),
    pass("sums", Level::O2, Stage::SECOND, 0, sums::propose),
    pass("bases", Level::O2, Stage::SECOND, 0, bases::propose),
    pass("folded", Level::O2, Stage::SECOND, 0, folded::propose),
    pass("prompt", Level::O2, Stage::SECOND, 0, prompt::propose),
    pass("rebase", Level::O2, Stage::SECOND, 0, rebase::propose),
    pass("locked_add", Level::O2, Stage::SECOND, 0, locked_add::propose).only_for(Goal::Slots),
    pass("copies", Level::O1, Stage::THIRD, 1, copies::propose),
    pass("slots", Level::O2, Stage::THIRD, 0, slots::propose),
    pass("spills", Level::O2, Stage::THIRD, 0, spills::propose),
    pass("choice", Level::O2, Stage::THIRD, 0, choice::propose),
    pass("alike", Level::O2, Stage::THIRD, 0, alike::propose),
    pass("overlap", Level::O2, Stage::THIRD, 0, overlap::propose),
    pass("advance", Level::O2, Stage::THIRD, 0, advance::propose),
    pass("exchange", Level::O2, Stage::THIRD, 0, exchange::propose),
    pass("earlier", Level::O2, Stage::THIRD, 0, earlier::propose),
    pass("keep", Level::O2, Stage::THIRD, 0, keep::propose),
    pass("preload", Level::O2, Stage::THIRD, 0, preload::propose),
    pass("rotate", Level::O2, Stage::THIRD, 0, rotate::propose),
    pass("shifted", Level::O2, Stage::THIRD, 0, shifted::propose),
    pass("joins", Level::O2, Stage::THIRD, 0, joins::propose),
    pass("near", Level::O2, Stage::THIRD, 0, near::propose),
    pass("chosen", Level::O2, Stage::THIRD, 0, chosen::propose),
    pass("begun", Level::O2, Stage::THIRD, 0, begun::propose),
    pass("select", Level::O2, Stage::THIRD, 0, select::propose),
    pass("sink", Level::O2, Stage::THIRD, 0, sink::propose),
    pass("again", Level::O2, Stage::THIRD, 0, again::propose),
    pass("clear_bits", Level::O2, Stage::THIRD, 0, clear_bits::propose),
    pass("share", Level::O2, Stage::THIRD, 0, share::propose),
    pass("hoist", Level::O2, Stage::THIRD, 0, hoist::propose),
    pass("gather", Level::O2, Stage::THIRD, 0, gather::propose),
    pass("constants", Level::O2, Stage::THIRD, 0, constants::propose),
    pass("extensions", Level::O2, Stage::THIRD, 0, extensions::propose),
    pass("exits", Level::O2, Stage::THIRD, 0, exits::propose),
    pass("returns", Level::O2, Stage::THIRD, 0, returns::propose),
    pass("switch", Level::O2, Stage::THIRD, 0, switch::propose),
    pass("arrange", Level::O2, Stage::THIRD, 0, arrange::propose),
    pass("tails", Level::O2, Stage::THIRD, 0, tails::propose),
    pass("doubled", Level::O2, Stage::LAST, 0, doubled::propose),
    pass("addresses", Level::O2, Stage::LAST, 0, addresses::propose),
    pass("rules", Level::O1, Stage::LAST, 1, rules::pass::propose_branches),
    pass("deletion", Level::O2, Stage::LAST, 2, deletion::propose),
    pass("deletion", Level::O3, Stage::LAST, 2, deletion::propose_all),
    pass("deletion", Level::O3, Stage::LAST, 1, deletion::propose_pairs),
];
