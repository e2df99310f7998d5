//! Programs as text, in and out. Every reader takes any input without panicking and says the line,
//! the word and the reason when it refuses.

pub mod asm;
mod error;

pub use error::TextError;

use crate::hook::Hook;

/// The hook of a program whose text does not say one: a plain buffer of this many bytes.
pub const DEFAULT_HOOK: Hook = Hook::Buffer(2048);

/// Longest text that is read, in bytes.
pub const MAX_SOURCE: usize = 64 << 20;

/// Longest program that is read, in slots: the kernel's own limit.
pub const MAX_SLOTS: usize = 1_000_000;
