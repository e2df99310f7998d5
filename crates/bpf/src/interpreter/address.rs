//! The address space of a run: disjoint objects, far apart, so that no pointer arithmetic that a
//! program gets wrong leads from one object into another.
//!
//! ```text
//! 63          52 51   48 47        36 35                     0
//! +-------------+-------+------------+------------------------+
//! |    0xffc    | kind  |   index    |  GUARD + place         |
//! +-------------+-------+------------+------------------------+
//! ```
//!
//! The high bits make addresses look like the kernel's. `place` is the distance from the start of
//! the object; stack frames and map elements lie [`FRAME_SPACING`] and a power of two apart.

use std::fmt;

const TAG: u64 = 0xffc;
const GUARD: u64 = 1 << 30;
const PLACE_BITS: u32 = 36;
const INDEX_BITS: u32 = 12;

/// Largest index of a region of any kind.
pub const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;
/// Largest distance from the start of a region that has an address.
pub const MAX_PLACE: u64 = (1 << PLACE_BITS) - 2 * GUARD;
/// Bytes of stack a function has.
pub const FRAME_BYTES: usize = 512;
/// Distance between the stack frames of a caller and its callee.
pub const FRAME_SPACING: u64 = 1 << 20;

/// What kind of thing an address leads to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Kind {
    /// A stack frame; the index is the call depth, 0 for the function that was run.
    Stack,
    /// The context.
    Context,
    /// The packet, with the metadata before it.
    Packet,
    /// A value of a map; the index is the map.
    MapValue,
    /// A map itself; the index is the map. Nothing can be read there.
    Map,
    /// Memory that a helper made, such as a reserved ring buffer record; the index counts them.
    Record,
    /// A function of the program, for callbacks; the index is the function. Nothing can be read there.
    Function,
    /// An object of the kernel, known by its address only.
    Object,
}

const KINDS: [Kind; 8] =
    [Kind::Stack, Kind::Context, Kind::Packet, Kind::MapValue, Kind::Map, Kind::Record, Kind::Function, Kind::Object];

impl Kind {
    /// Name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Stack => "stack",
            Kind::Context => "context",
            Kind::Packet => "packet",
            Kind::MapValue => "map value",
            Kind::Map => "map",
            Kind::Record => "record",
            Kind::Function => "function",
            Kind::Object => "kernel object",
        }
    }
}

/// An address taken apart: the kind and number of its region, and the distance from its start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// Kind of region.
    pub kind: Kind,
    /// Which one of that kind.
    pub index: u32,
    /// Bytes from the start of the region; negative before it.
    pub offset: i64,
}

/// Start of a region.
pub const fn base(kind: Kind, index: u32) -> u64 {
    TAG << 52 | (kind as u64) << 48 | (index as u64) << PLACE_BITS | GUARD
}

/// The value of `r10` in a function at that call depth.
pub const fn frame_pointer(depth: usize) -> u64 {
    base(Kind::Stack, 0) + depth as u64 * FRAME_SPACING + FRAME_BYTES as u64
}

/// Takes an address apart; `None` when it belongs to no region, as plain numbers do.
#[inline]
pub fn place(address: u64) -> Option<Place> {
    if address >> 52 != TAG {
        return None;
    }
    let kind = *KINDS.get((address >> 48 & 15) as usize)?;
    let index = (address >> PLACE_BITS) as u32 & MAX_INDEX;
    let offset = (address & ((1 << PLACE_BITS) - 1)) as i64 - GUARD as i64;
    Some(Place { kind, index, offset })
}

/// Where an address leads, in the program's terms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// Kind of object.
    pub kind: Kind,
    /// Which one: call depth, map, record or function.
    pub index: u32,
    /// Which element of a map, by its place in the map's memory; 0 for other kinds.
    pub element: u32,
    /// Bytes from the frame pointer (stack), the first packet byte (packet), the start of the
    /// element (map value) or of the object (others).
    pub offset: i64,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match self.kind {
            Kind::Context | Kind::Packet => {}
            Kind::MapValue => write!(f, " {}[{}]", self.index, self.element)?,
            Kind::Stack | Kind::Map | Kind::Record | Kind::Function | Kind::Object => write!(f, " {}", self.index)?,
        }
        if self.offset != 0 {
            write!(f, "{:+}", self.offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_leads_back_to_its_place() {
        for (n, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, n);
            for index in [0, 1, 77, MAX_INDEX] {
                for offset in [-4096i64, -1, 0, 1, 511, 1 << 20, MAX_PLACE as i64] {
                    let address = base(kind, index).wrapping_add(offset as u64);
                    assert_eq!(place(address), Some(Place { kind, index, offset }));
                }
            }
        }
    }

    #[test]
    fn numbers_and_error_codes_are_no_addresses() {
        for number in [0, 1, u64::MAX, -4095i64 as u64, 1 << 47, 0xffff_8880_0000_0000] {
            assert_eq!(place(number), None, "{number:#x}");
        }
    }
}
