//! The kinds of trials there are.

mod bandwidth;
mod echo;
mod flows;
mod keyvalue;
mod probe;
mod rate;
mod reach;
mod setting;
mod shrink;

use crate::trial::Kind;

/// All kinds, by name.
pub fn kinds() -> &'static [&'static dyn Kind] {
    &[
        &bandwidth::Bandwidth,
        &echo::Echo,
        &keyvalue::KeyValue,
        &probe::Probe,
        &rate::Rate,
        &reach::Reach,
        &shrink::Shrink,
    ]
}

/// The kind of that name.
pub fn named(name: &str) -> Option<&'static dyn Kind> {
    kinds().iter().find(|k| k.name() == name).copied()
}
