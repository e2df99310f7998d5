//! What makes a rewrite right.
pub mod term;
