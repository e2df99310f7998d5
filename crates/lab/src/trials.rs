//! The kinds of trials there are.

mod echo;
mod flows;
mod rate;
mod reach;
mod setting;

use crate::trial::Kind;

/// All kinds, by name.
pub fn kinds() -> &'static [&'static dyn Kind] {
    &[&echo::Echo, &rate::Rate, &reach::Reach]
}

/// The kind of that name.
pub fn named(name: &str) -> Option<&'static dyn Kind> {
    kinds().iter().find(|k| k.name() == name).copied()
}
