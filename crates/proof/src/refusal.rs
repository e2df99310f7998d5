//! Why a rewrite was not applied.

use karakoram_bpf::insn::InsnId;
use std::fmt;

/// The reason a rewrite is not proven. None of them means that the rewrite is wrong, except
/// [`Refusal::Different`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The rewrite does not fit the program it is for.
    Malformed(&'static str),
    /// Control can enter the window other than through its entry.
    SideEntry(InsnId),
    /// The window contains a loop.
    Loop,
    /// The window has too many paths or instructions to be checked.
    TooLarge(&'static str),
    /// An instruction in the window cannot be reasoned about.
    Barrier(InsnId, &'static str),
    /// The replacement reads something whose value does not matter in the original there.
    ReadsDead(String),
    /// The replacement touches memory that the original does not touch on that path.
    Unsafe(String),
    /// The two differ, or could not be shown to agree, in that respect.
    Different(String),
    /// The solver gave up on that question.
    Undecided(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refusal::Malformed(why) => write!(f, "malformed rewrite: {why}"),
            Refusal::SideEntry(id) => write!(f, "control can enter the window at instruction {}", id.0),
            Refusal::Loop => f.write_str("the window contains a loop"),
            Refusal::TooLarge(what) => write!(f, "the window has too many {what}"),
            Refusal::Barrier(id, why) => write!(f, "instruction {}: {why}", id.0),
            Refusal::ReadsDead(what) => write!(f, "the replacement reads {what}, which the original leaves undefined"),
            Refusal::Unsafe(what) => write!(f, "unsafe: {what}"),
            Refusal::Different(what) => write!(f, "not equivalent: {what} may differ"),
            Refusal::Undecided(what) => write!(f, "undecided: whether {what} may differ"),
        }
    }
}

impl std::error::Error for Refusal {}
