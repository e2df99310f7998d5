//! What kernel helpers do, as far as this model goes; one file per family.
//!
//! A helper takes the machine and `r1` to `r5` and gives `r0`. A negative error number is a result;
//! a [`Trap`] ends the run and is for what the verifier would have refused, and for what is not
//! modelled. Effects that nothing else keeps are recorded as events.

mod checksum;
mod control;
mod map;
mod output;
mod print;
mod probe;
mod redirect;
mod ring;
mod skb;
mod socket;
mod task;
mod text;
mod unknown;
mod xdp;

use super::fault::Trap;
use super::machine::Machine;

pub(super) use unknown::model as model_unknown;

/// A helper.
type Helper = fn(&mut Machine, [u64; 5]) -> Result<u64, Trap>;
/// Numbers, names (without `bpf_`) and meanings of a family.
type Family = &'static [(i32, &'static str, Helper)];

const FAMILIES: &[Family] = &[
    checksum::FAMILY,
    control::FAMILY,
    map::FAMILY,
    output::FAMILY,
    print::FAMILY,
    probe::FAMILY,
    redirect::FAMILY,
    ring::FAMILY,
    skb::FAMILY,
    socket::FAMILY,
    task::FAMILY,
    text::FAMILY,
    xdp::FAMILY,
];

const COUNT: usize = 256;

static BY_NUMBER: [Option<(&'static str, Helper)>; COUNT] = {
    let mut table: [Option<(&'static str, Helper)>; COUNT] = [None; COUNT];
    let mut family = 0;
    while family < FAMILIES.len() {
        let mut i = 0;
        while i < FAMILIES[family].len() {
            let (id, name, helper) = FAMILIES[family][i];
            assert!(table[id as usize].is_none(), "a helper is defined twice");
            table[id as usize] = Some((name, helper));
            i += 1;
        }
        family += 1;
    }
    table
};

fn entry(id: i32) -> Option<(&'static str, Helper)> {
    *BY_NUMBER.get(usize::try_from(id).ok()?)?
}

/// The meaning of a helper.
pub(super) fn find(id: i32) -> Option<Helper> {
    entry(id).map(|(_, helper)| helper)
}

/// The name of a helper that is modelled.
pub(super) fn name(id: i32) -> Option<&'static str> {
    entry(id).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_helper_table() {
        for (id, name, _) in FAMILIES.iter().flat_map(|f| f.iter()) {
            if let Some(expected) = crate::helper::name(*id) {
                assert_eq!(*name, expected, "helper {id}");
            }
        }
    }
}
