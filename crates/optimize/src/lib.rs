//! Proposes smaller or faster BPF programs. Nothing here is trusted: every change is a proposal
//! that `karakoram-proof` judges before it is applied.

pub mod arena;
pub mod avoid;
pub mod block;
pub mod context;
pub mod cost;
pub mod demand;
pub mod draft;
mod explain;
mod graph;
mod layout;
pub mod learn;
mod memo;
mod numbering;
mod parallel;
pub mod passes;
pub mod pipeline;
pub mod portable;
pub mod proposal;
pub mod registers;
pub mod renaming;
pub mod rules;
pub mod search;
pub mod store;
pub mod trial;
pub mod webs;
pub mod whole;
mod window;

pub use pipeline::{Level, Options, Outcome, Progress, optimize, resume};
