//! Experiments about packet extensions: kinds of trials that build extensions from source and compare
//! them with the same programs in C.

mod bmc;
mod footprint;
mod lines;
mod primitives;
mod programs;
mod recursion;
mod verifier;

pub use bmc::instructions::count;

use karakoram_lab::trial::Kind;

/// All kinds, by name.
pub fn kinds() -> &'static [&'static dyn Kind] {
    &[
        &bmc::times::Times,
        &bmc::instructions::Instructions,
        &bmc::load::Load,
        &footprint::Footprint,
        &lines::Lines,
        &primitives::Primitives,
        &recursion::Recursion,
        &verifier::Verifier,
    ]
}
