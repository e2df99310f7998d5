//! What makes a rewrite right.
pub mod solver;
pub mod term;
