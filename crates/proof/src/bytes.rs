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

/// A set of packet bytes by their offset from the first one, kept as those of a frame that ends with
/// byte 511. All bytes from 512 on are always in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PacketBytes(pub(crate) StackBytes);

impl PacketBytes {
    /// All.
    pub const ALL: PacketBytes = PacketBytes(StackBytes::ALL);
    /// What is added to an offset in the packet to find it in the frame.
    pub(crate) const BASE: i64 = -512;

    /// Whether the byte at that offset is in it.
    pub fn contains(&self, offset: i64) -> bool {
        !(0..512).contains(&offset) || self.0.contains(offset + PacketBytes::BASE)
    }
}
