//! Windows that were searched before, kept from run to run.
//!
//! A store holds what a search came to, under everything that the search looked at, and what it cost.
//! Whoever finds an entry goes on as if the search had just been done, so results do not depend on
//! whether there is a store or on what was run before. Nothing in it is trusted: a replacement is put to
//! the prover like any other, and where that refuses it the search is done after all. What a forged entry
//! can do is waste time, or hide an improvement.

mod digest;
mod sqlite;

pub use digest::Digest;
pub use sqlite::{Sqlite, Statistics, StoreError};

use karakoram_bpf::insn::Insn;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm;

/// What a search came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The replacement, one instruction on each line; `None`: nothing was found with that effort.
    pub found: Option<String>,
    /// Candidates that were evaluated.
    pub candidates: u64,
    /// Questions that were put to the prover.
    pub judgements: u64,
}

/// Where entries are kept. Reading and writing may fail, and then there is no entry.
pub trait Store: Sync {
    /// The entry under that key.
    fn get(&self, key: &Digest) -> Option<Entry>;
    /// Keeps an entry.
    fn put(&self, key: &Digest, entry: &Entry);
}

/// Instructions as text.
pub fn print(insns: &[Insn], program: &Program) -> String {
    insns.iter().map(|i| asm::print_insn(i, program)).collect::<Vec<_>>().join("\n")
}

/// Instructions from text, when they are some.
pub fn parse(text: &str, program: &Program) -> Option<Vec<Insn>> {
    text.lines().map(|line| asm::parse_insn(line, program).ok()).collect()
}
