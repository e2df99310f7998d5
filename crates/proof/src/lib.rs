//! What makes a rewrite right.
pub mod apply;
pub mod arithmetic;
pub mod bytes;
pub mod call;
pub mod certificate;
pub mod check;
pub mod compare;
mod confirm;
pub mod counterexample;
mod extent;
pub mod external;
pub mod facts;
pub mod flow;
mod inline;
pub mod interface;
pub mod liveness;
pub mod range;
pub mod refusal;
pub mod region;
pub mod rewrite;
mod session;
pub mod smtlib;
pub mod solver;
mod structure;
pub mod symbolic;
pub mod term;
pub mod whole;

/// Which equivalence optimizations of the prover are on; K2's I to IV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProverOptions {
    /// I: different kinds of memory are different tables.
    pub memory_regions: bool,
    /// II: each map has its own table.
    pub map_tables: bool,
    /// III: offsets from a common base are compared as numbers.
    pub offsets: bool,
    /// IV: windows with facts at their entry, not the whole function.
    pub windows: bool,
}

impl Default for ProverOptions {
    fn default() -> ProverOptions {
        ProverOptions { memory_regions: true, map_tables: true, offsets: true, windows: true }
    }
}
