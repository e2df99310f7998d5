//! Sequence numbers. On the wire: 16 bits and the era bit, together a counter of 17 bits. Inside: 64
//! bits that never wrap.

/// The number of the first frame. It is a whole turn of the wire's counter, so that numbers somewhat
/// before it exist.
pub const FIRST: u64 = 1 << BITS;

/// How far apart two numbers may be for the wire to tell which is later.
pub const HALF: u64 = 1 << (BITS - 1);

const BITS: u32 = 17;
const MASK: u64 = FIRST - 1;

/// A number as the wire shows it: the era is bit 16.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WireSequence(u32);

impl WireSequence {
    /// What the wire shows of a number.
    #[inline]
    pub const fn of(number: u64) -> WireSequence {
        WireSequence((number & MASK) as u32)
    }

    /// From the fields of a header.
    pub fn from_fields(era: bool, low: u16) -> WireSequence {
        WireSequence(u32::from(era) << 16 | u32::from(low))
    }

    /// The era bit, which flips after 65535.
    pub fn era(self) -> bool {
        self.0 >> 16 != 0
    }

    /// The 16 bits of the header's field.
    pub fn low(self) -> u16 {
        self.0 as u16
    }

    /// The number nearest to `base` that looks like this on the wire; `base` is at least [`FIRST`].
    /// Right while the two are less than [`HALF`] apart.
    #[inline]
    pub fn near(self, base: u64) -> u64 {
        let distance = u64::from(self.0).wrapping_sub(base) & MASK;
        if distance < HALF { base + distance } else { base + distance - (MASK + 1) }
    }

    /// The first number not before `base` that looks like this.
    pub fn at_or_after(self, base: u64) -> u64 {
        base + (u64::from(self.0).wrapping_sub(base) & MASK)
    }

    /// How many frames lie between, as the original computes it: 16 bits, without the era.
    #[inline]
    pub fn distance_16(self, base: u64) -> u64 {
        u64::from(self.0).wrapping_sub(base) & 0xffff
    }
}

/// The last number up to `limit` whose low 16 bits are these: how a loss notification, which has no
/// era for its first number, is read.
pub fn last_with_low(low: u16, limit: u64) -> u64 {
    limit - ((limit & 0xffff).wrapping_sub(u64::from(low)) & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The original's comparison: equal eras compare plainly, different ones half a turn away.
    fn is_after_in_original(a: WireSequence, b: WireSequence) -> bool {
        match a.era() == b.era() {
            true => a.low() > b.low(),
            false => a.low().wrapping_sub(32768) > b.low().wrapping_sub(32768),
        }
    }

    const STARTS: [u64; 5] = [FIRST, FIRST + 1, FIRST + 65535, FIRST + 65536, FIRST + 131_071];

    #[test]
    fn numbers_come_back_from_the_wire() {
        for base in STARTS.into_iter().flat_map(|s| [s, s + 5 * FIRST]) {
            for distance in [0, 1, 2, 255, 32767, 32768, 65534, 65535] {
                assert_eq!(WireSequence::of(base + distance).near(base), base + distance);
                assert_eq!(WireSequence::of(base - distance).near(base), base - distance);
                assert_eq!(WireSequence::of(base + distance).at_or_after(base), base + distance);
            }
        }
    }

    #[test]
    fn agrees_with_the_comparison_of_the_original_in_its_range() {
        for base in STARTS {
            for distance in [1, 2, 1000, 32766, 32767] {
                let (late, early) = (WireSequence::of(base + distance), WireSequence::of(base));
                assert!(is_after_in_original(late, early), "{base} + {distance}");
                assert!(!is_after_in_original(early, late), "{base} + {distance}");
                assert!(late.near(base) > base && early.near(base + distance) < base + distance);
            }
        }
    }

    #[test]
    fn the_era_is_bit_16() {
        assert_eq!(WireSequence::of(FIRST + 65535), WireSequence::from_fields(false, 65535));
        assert_eq!(WireSequence::of(FIRST + 65536), WireSequence::from_fields(true, 0));
        assert_eq!(WireSequence::of(FIRST + 131_072), WireSequence::from_fields(false, 0));
    }

    #[test]
    fn the_first_lost_number_has_the_era_that_fits() {
        assert_eq!(last_with_low(65535, FIRST + 65536), FIRST + 65535);
        assert_eq!(last_with_low(3, FIRST + 3), FIRST + 3);
        assert_eq!(last_with_low(4, FIRST + 3), FIRST + 4 - 65536);
    }
}
