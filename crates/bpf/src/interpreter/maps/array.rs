//! Arrays: every element exists from the start.

use super::super::errno::*;
use super::super::fault::Limit;
use super::Values;

/// Update flag: the element must not exist yet (`BPF_NOEXIST`).
pub(super) const NOEXIST: u64 = 1;
/// Update flag: the element must exist already (`BPF_EXIST`).
pub(super) const EXIST: u64 = 2;
/// Update and lookup flag: under the value's spin lock (`BPF_F_LOCK`).
pub(super) const LOCK: u64 = 4;

/// An array of values, `copies` of each (one per CPU, or one).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    entries: u32,
    copies: u32,
    pub(super) values: Values,
}

impl Array {
    pub(super) fn new(entries: u32, copies: u32, values: Values) -> Array {
        Array { entries, copies, values }
    }

    fn index(&self, key: &[u8]) -> Option<u32> {
        let index = u32::from_le_bytes(key.try_into().ok()?);
        (index < self.entries).then_some(index)
    }

    /// First slot of an element.
    pub(super) fn find(&self, key: &[u8]) -> Option<u64> {
        self.index(key).map(|i| i as u64 * self.copies as u64)
    }

    /// As the kernel's `array_map_update_elem`: what to write where, or an error number.
    pub(super) fn prepare_update(&mut self, key: &[u8], flags: u64) -> Result<Result<u64, i64>, Limit> {
        if flags & !LOCK > EXIST {
            return Ok(Err(EINVAL));
        }
        let Some(slot) = self.find(key) else { return Ok(Err(E2BIG)) };
        if flags & NOEXIST != 0 {
            return Ok(Err(EEXIST));
        }
        for copy in 0..self.copies as u64 {
            self.values.touch(slot + copy)?;
        }
        Ok(Ok(slot))
    }

    /// Keys of elements that are not all zero.
    pub(super) fn used_keys(&self) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let mut last = None;
        for slot in self.values.touched() {
            let index = slot / self.copies as u64;
            if index >= self.entries as u64 || last == Some(index) {
                continue;
            }
            if self.values.slot(slot).is_some_and(|v| v.iter().any(|b| *b != 0)) {
                last = Some(index);
                keys.push((index as u32).to_le_bytes().to_vec());
            }
        }
        keys
    }

    /// Keys of all elements.
    pub(super) fn keys(&self) -> impl Iterator<Item = Vec<u8>> + use<> {
        (0..self.entries).map(|i| i.to_le_bytes().to_vec())
    }
}
