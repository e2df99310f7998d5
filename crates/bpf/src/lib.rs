//! What a BPF program is and what it means. One half of the trusted pair (with `karakoram-proof`):
//! a bug here could let a wrong program through, so the crate has no unsafe code and no dependencies.

pub mod barrier;
pub mod effects;
pub mod encode;
pub mod helper;
pub mod hook;
pub mod insn;
pub mod interpreter;
pub mod map;
pub mod program;
pub mod registers;
pub mod semantics;
pub mod text;
