//! The kinds of trials there are.

use crate::trial::Kind;

/// All kinds, by name.
pub fn kinds() -> &'static [&'static dyn Kind] {
    &[]
}

/// The kind of that name.
pub fn named(name: &str) -> Option<&'static dyn Kind> {
    kinds().iter().find(|k| k.name() == name).copied()
}
