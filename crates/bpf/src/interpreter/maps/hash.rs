//! Hash tables, in the order of their keys so that every run visits them alike.

use super::super::errno::*;
use super::super::fault::Limit;
use super::Values;
use super::array::{EXIST, LOCK, NOEXIST};
use std::collections::BTreeMap;

/// What the index costs for each element apart from the key, about.
const NODE_BYTES: usize = 48;

/// What an insertion into a full table does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WhenFull {
    /// Fails.
    Refuse,
    /// Removes the element that was written by `update` the longest time ago. The kernel also counts
    /// lookups, approximately and per CPU; here they do not count, so that leaving out a lookup
    /// nobody needs cannot change what a later insertion removes.
    Evict,
}

/// A hash table of values, `copies` of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hash {
    entries: u32,
    copies: u32,
    when_full: WhenFull,
    index: BTreeMap<Vec<u8>, u32>,
    /// Deleted in this run: programs may still hold pointers to them.
    resting: Vec<u32>,
    free: Vec<u32>,
    next: u32,
    /// When each element was last updated.
    updated: Vec<u64>,
    clock: u64,
    pub(super) values: Values,
}

impl Hash {
    pub(super) fn new(entries: u32, copies: u32, when_full: WhenFull, values: Values) -> Hash {
        Hash {
            entries,
            copies,
            when_full,
            index: BTreeMap::new(),
            resting: Vec::new(),
            free: Vec::new(),
            next: 0,
            updated: Vec::new(),
            clock: 0,
            values,
        }
    }

    /// First slot of an element.
    pub(super) fn find(&self, key: &[u8]) -> Option<u64> {
        self.index.get(key).map(|e| *e as u64 * self.copies as u64)
    }

    /// As the kernel's `htab_map_update_elem`: finds or makes the element. The flag says whether it is new.
    pub(super) fn prepare_update(&mut self, key: &[u8], flags: u64) -> Result<Result<(u64, bool), i64>, Limit> {
        if flags & !LOCK > EXIST {
            return Ok(Err(EINVAL));
        }
        self.clock += 1;
        if let Some(&element) = self.index.get(key) {
            if flags & NOEXIST != 0 {
                return Ok(Err(EEXIST));
            }
            self.updated[element as usize] = self.clock;
            return Ok(Ok((element as u64 * self.copies as u64, false)));
        }
        if flags & EXIST != 0 {
            return Ok(Err(ENOENT));
        }
        if self.index.len() >= self.entries as usize {
            match self.when_full {
                WhenFull::Evict if self.entries > 0 => self.evict(),
                _ => return Ok(Err(E2BIG)),
            }
        }
        if (self.index.len() + 1).saturating_mul(key.len() + NODE_BYTES) > self.values.limit() {
            return Err(Limit::Memory);
        }
        let element = self.allocate()?;
        self.index.insert(key.to_vec(), element);
        self.updated[element as usize] = self.clock;
        Ok(Ok((element as u64 * self.copies as u64, true)))
    }

    fn allocate(&mut self) -> Result<u32, Limit> {
        let element = match self.free.pop() {
            Some(element) => element,
            None => {
                let element = self.next;
                self.next = element.checked_add(1).ok_or(Limit::Memory)?;
                self.updated.push(0);
                element
            }
        };
        for copy in 0..self.copies as u64 {
            let slot = element as u64 * self.copies as u64 + copy;
            self.values.touch(slot)?;
            if let Some(value) = self.values.slot_mut(slot) {
                value.fill(0);
            }
        }
        Ok(element)
    }

    fn evict(&mut self) {
        let oldest = self.index.iter().min_by_key(|(_, e)| self.updated[**e as usize]).map(|(k, _)| k.clone());
        if let Some(key) = oldest {
            self.remove(&key);
        }
    }

    /// Removes an element; says whether there was one.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        match self.index.remove(key) {
            Some(element) => {
                self.resting.push(element);
                true
            }
            None => false,
        }
    }

    /// Lets the memory of removed elements be used again.
    pub(super) fn start_run(&mut self) {
        self.free.append(&mut self.resting);
    }

    /// All keys in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.index.keys()
    }
}
