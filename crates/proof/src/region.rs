//! Kinds of memory, and which of them can be the same bytes.

/// What an address points into.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Region {
    /// The stack frame of the function at hand.
    Stack,
    /// The hook's context.
    Context,
    /// Packet bytes, including metadata before the packet; the buffer of a plain-buffer hook.
    Packet,
    /// Values of the map at that position of the program.
    MapValue(usize),
    /// Values of some map of the program or of a map inside a map.
    SomeMapValue,
    /// A stack frame of a function that called this one, directly or not.
    CallerFrame,
    /// Any memory but the function's own stack frame: kernel objects, callers' frames, values of maps
    /// that are not known.
    Foreign,
    /// Anything at all.
    Any,
}

impl Region {
    /// Whether an address of the one kind can be an address of the other.
    pub fn may_alias(self, other: Region) -> bool {
        use Region::*;
        match (self, other) {
            (Any, _) | (_, Any) => true,
            (Stack, r) | (r, Stack) => r == Stack,
            (Foreign, _) | (_, Foreign) => true,
            (a, b) if a.is_map_value() && b.is_map_value() => a == b || a == SomeMapValue || b == SomeMapValue,
            (a, b) => a == b,
        }
    }

    /// Whether it is memory of maps.
    pub fn is_map_value(self) -> bool {
        matches!(self, Region::MapValue(_) | Region::SomeMapValue)
    }

    /// The smallest region that holds both.
    pub fn join(self, other: Region) -> Region {
        match (self, other) {
            (a, b) if a == b => a,
            (a, b) if a.is_map_value() && b.is_map_value() => Region::SomeMapValue,
            (Region::Stack | Region::Any, _) | (_, Region::Stack | Region::Any) => Region::Any,
            _ => Region::Foreign,
        }
    }

    /// Memory that other CPUs or user space can see while the program runs.
    pub fn is_shared(self) -> bool {
        self.is_map_value() || matches!(self, Region::Foreign | Region::Any)
    }
}
