//! Numbers that look random and are the same in every run (splitmix64).

/// A sequence that its seed determines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of that seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Fills bytes with the next numbers.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Spreads a number over all 64 bits, one to one.
pub fn mix(value: u64) -> u64 {
    let z = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// One number that depends on all the given ones and their order.
pub fn hash(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0x6b61_7261, |h, v| mix(h.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(v)))
}
