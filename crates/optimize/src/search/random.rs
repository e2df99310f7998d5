//! A small seeded generator, so that a search is the same every time.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n as u64) as usize
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of the members, when there is any.
    pub fn pick<'a, T>(&mut self, members: &'a [T]) -> Option<&'a T> {
        if members.is_empty() { None } else { Some(&members[self.below(members.len())]) }
    }

    /// A number of the kind that arithmetic goes wrong with: small, negative, around powers of two.
    pub fn interesting(&mut self) -> u64 {
        match self.below(6) {
            0 => self.draw() % 16,
            1 => (self.draw() % 16).wrapping_neg(),
            2 => (1u64 << self.below(64)).wrapping_sub(self.draw() % 3),
            3 => self.draw() as u32 as u64,
            _ => self.draw(),
        }
    }
}

/// A number that has nothing to do with its argument, but is always the same for it.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
