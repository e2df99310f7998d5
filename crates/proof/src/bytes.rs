//! Sets of bytes of the frame and of the packet.

/// A set of stack bytes: bit `i` is the byte at offset `i - 512`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StackBytes([u64; 8]);

impl StackBytes {
    /// None.
    pub const NONE: StackBytes = StackBytes([0; 8]);
    /// All 512.
    pub const ALL: StackBytes = StackBytes([u64::MAX; 8]);

    /// Bytes `from..to` relative to the frame pointer; those outside the frame are ignored.
    pub fn range(from: i64, to: i64) -> StackBytes {
        let mut set = StackBytes::NONE;
        for i in from.max(-512)..to.min(0) {
            let bit = (i + 512) as usize;
            set.0[bit / 64] |= 1 << (bit % 64);
        }
        set
    }
    /// Whether the byte at that offset is in it.
    pub fn contains(&self, offset: i64) -> bool {
        (-512..0).contains(&offset) && self.0[(offset + 512) as usize / 64] >> ((offset + 512) % 64) & 1 == 1
    }
    /// Union.
    pub fn union(&self, other: &StackBytes) -> StackBytes {
        StackBytes(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }
    /// Difference.
    pub fn minus(&self, other: &StackBytes) -> StackBytes {
        StackBytes(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 8]
    }
}

/// A set of packet bytes by their offset from the first one; of the bytes from 512 on only whether
/// all of them are in it is known: they always are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PacketBytes(StackBytes);

impl PacketBytes {
    /// No byte below 512.
    pub const NONE: PacketBytes = PacketBytes(StackBytes::NONE);
    /// All.
    pub const ALL: PacketBytes = PacketBytes(StackBytes::ALL);

    /// Bytes `from..to`.
    pub fn range(from: i64, to: i64) -> PacketBytes {
        PacketBytes(StackBytes::range(from.saturating_sub(512), to.saturating_sub(512)))
    }
    /// Whether the byte at that offset is in it.
    pub fn contains(&self, offset: i64) -> bool {
        !(0..512).contains(&offset) || self.0.contains(offset - 512)
    }
    /// Union.
    pub fn union(&self, other: &PacketBytes) -> PacketBytes {
        PacketBytes(self.0.union(&other.0))
    }
    /// Difference.
    pub fn minus(&self, other: &PacketBytes) -> PacketBytes {
        PacketBytes(self.0.minus(&other.0))
    }
}
