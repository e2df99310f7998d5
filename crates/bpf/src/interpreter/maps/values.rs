//! The memory of a map's values: slots of equal size, made when they are first used, so that a large
//! map costs only what is touched. Slots lie a power of two apart in the address space, with a gap
//! between them, so that an access past the end of one value never meets the next.

use crate::interpreter::address::MAX_PLACE;
use crate::interpreter::fault::Limit;

const CHUNK_BYTES: usize = 16 << 10;

/// Values by slot number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Values {
    size: usize,
    padded: usize,
    slot_shift: u32,
    chunk_shift: u32,
    chunks: Vec<Option<Box<[u8]>>>,
    allocated: usize,
    limit: usize,
}

impl Values {
    /// No values yet, each of `size` bytes, together at most `limit`.
    pub fn new(size: usize, limit: usize) -> Values {
        let padded = size.next_multiple_of(8).max(8);
        Values {
            size,
            padded,
            slot_shift: (padded + 8).next_power_of_two().trailing_zeros(),
            chunk_shift: (CHUNK_BYTES / padded).max(1).ilog2(),
            chunks: Vec::new(),
            allocated: 0,
            limit,
        }
    }

    /// Makes sure that a slot has memory; returns its distance from the start of the map's region.
    pub fn touch(&mut self, slot: u64) -> Result<u64, Limit> {
        let chunk = (slot >> self.chunk_shift) as usize;
        let place = slot << self.slot_shift;
        if slot > MAX_PLACE >> self.slot_shift || chunk.saturating_mul(16) > self.limit {
            return Err(Limit::Memory);
        }
        if chunk >= self.chunks.len() {
            self.chunks.resize(chunk + 1, None);
        }
        if self.chunks[chunk].is_none() {
            let bytes = self.padded << self.chunk_shift;
            if self.allocated + bytes > self.limit {
                return Err(Limit::Memory);
            }
            self.allocated += bytes;
            self.chunks[chunk] = Some(vec![0; bytes].into_boxed_slice());
        }
        Ok(place)
    }

    /// The bytes of one value, when its slot was touched.
    pub fn slot(&self, slot: u64) -> Option<&[u8]> {
        let chunk = self.chunks.get((slot >> self.chunk_shift) as usize)?.as_ref()?;
        let at = (slot as usize & ((1 << self.chunk_shift) - 1)) * self.padded;
        chunk.get(at..at + self.size)
    }

    /// The bytes of one value, to be written.
    pub fn slot_mut(&mut self, slot: u64) -> Option<&mut [u8]> {
        let chunk = self.chunks.get_mut((slot >> self.chunk_shift) as usize)?.as_mut()?;
        let at = (slot as usize & ((1 << self.chunk_shift) - 1)) * self.padded;
        chunk.get_mut(at..at + self.size)
    }

    /// Slot number and distance into the slot of a place in the map's region.
    #[inline]
    pub fn locate(&self, place: u64) -> (u64, usize) {
        (place >> self.slot_shift, (place & ((1 << self.slot_shift) - 1)) as usize)
    }

    /// Bytes at a place; `None` when they are not all in one value.
    #[inline]
    pub fn bytes(&self, place: u64, len: usize) -> Option<&[u8]> {
        let (slot, inner) = self.locate(place);
        self.slot(slot)?.get(inner..inner.checked_add(len)?)
    }

    /// Bytes at a place, to be written.
    #[inline]
    pub fn bytes_mut(&mut self, place: u64, len: usize) -> Option<&mut [u8]> {
        let (slot, inner) = self.locate(place);
        self.slot_mut(slot)?.get_mut(inner..inner.checked_add(len)?)
    }

    /// Numbers of all slots that have memory, in order; some of them may never have been used.
    pub fn touched(&self) -> impl Iterator<Item = u64> {
        let per_chunk = 1u64 << self.chunk_shift;
        let made = self.chunks.iter().enumerate().filter(|(_, c)| c.is_some());
        made.flat_map(move |(i, _)| i as u64 * per_chunk..(i as u64 + 1) * per_chunk)
    }

    /// Most bytes that all values may take.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of a value rounded up to eight, as system calls on per-CPU maps count them.
    pub fn padded(&self) -> usize {
        self.padded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_gaps_between_them() {
        let mut values = Values::new(12, 1 << 20);
        let first = values.touch(0).expect("within the limit");
        let second = values.touch(1).expect("within the limit");
        assert!(second - first >= 20);
        assert!(values.bytes(first, 12).is_some());
        assert!(values.bytes(first + 1, 12).is_none());
        assert!(values.bytes(second - 1, 1).is_none());
        assert!(values.bytes(second + 4, usize::MAX).is_none());
    }

    #[test]
    fn a_large_map_costs_what_is_touched() {
        let mut values = Values::new(64, 1 << 20);
        assert!(values.touch(10_000_000).is_ok());
        assert!(values.allocated <= 2 * CHUNK_BYTES);
        assert_eq!(values.touch(u64::MAX >> 8), Err(Limit::Memory));
    }
}
