//! Maps on the host: the same answers, for as long as the process runs.

use super::Definition;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is in a map: values by key, each with the time of its last use.
pub struct Content {
    entries: Mutex<Entries>,
}

struct Entries {
    values: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
    uses: u64,
}

impl Content {
    pub const fn new() -> Content {
        Content { entries: Mutex::new(Entries { values: BTreeMap::new(), uses: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // A test that panicked leaves it whole: nothing here stops half way.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn forget_oldest(&mut self) {
        let oldest = self.values.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
        oldest.map(|key| self.values.remove(&key));
    }
}

/// Whether a map has a place for that key without asking what is in it.
fn is_behind_end(map: &Definition, key: &[u8]) -> bool {
    map.is_array() && key.try_into().map_or(true, |k| u32::from_ne_bytes(k) >= map.entries)
}

/// # Safety
/// `key` must be valid for reading a key of the map, `to` for writing a value.
pub unsafe fn map_get(map: &Definition, key: *const u8, to: *mut u8) -> u32 {
    // SAFETY: the caller's promise.
    let (key, to) = unsafe {
        let key = std::slice::from_raw_parts(key, map.key_bytes as usize);
        (key, std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<u8>>(), map.value_bytes as usize))
    };
    let mut entries = map.content.lock();
    let now = entries.next_use();
    match entries.values.get_mut(key) {
        Some((used, value)) => {
            *used = now;
            to.iter_mut().zip(value).for_each(|(to, byte)| _ = to.write(*byte));
            1
        }
        None if map.is_array() && !is_behind_end(map, key) => {
            to.iter_mut().for_each(|to| _ = to.write(0));
            1
        }
        None => 0,
    }
}

/// # Safety
/// `key` and `value` must be valid for reading a key and a value of the map.
pub unsafe fn map_set(map: &Definition, key: *const u8, value: *const u8) -> i32 {
    const E2BIG: i32 = -7;
    // SAFETY: the caller's promise.
    let (key, value) = unsafe {
        let key = std::slice::from_raw_parts(key, map.key_bytes as usize);
        (key, std::slice::from_raw_parts(value, map.value_bytes as usize))
    };
    let mut entries = map.content.lock();
    let is_new = !entries.values.contains_key(key);
    let is_full = is_new && entries.values.len() >= map.entries as usize;
    if is_behind_end(map, key) || is_full && !map.forgets() {
        return E2BIG;
    }
    if is_full {
        entries.forget_oldest();
    }
    let now = entries.next_use();
    entries.values.insert(key.to_vec(), (now, value.to_vec()));
    0
}

/// # Safety
/// `key` must be valid for reading a key of the map.
pub unsafe fn map_remove(map: &Definition, key: *const u8) -> i32 {
    const ENOENT: i32 = -2;
    // SAFETY: the caller's promise.
    let key = unsafe { std::slice::from_raw_parts(key, map.key_bytes as usize) };
    if map.content.lock().values.remove(key).is_some() { 0 } else { ENOENT }
}

#[cfg(test)]
mod tests {
    use crate::map::{Array, Full, Hash, Lru};

    #[test]
    fn a_full_hash_takes_no_more_keys() {
        let map = Hash::<u16, u32>::new(2);
        assert_eq!([map.insert(&1, &10), map.insert(&2, &20), map.insert(&3, &30)], [Ok(()), Ok(()), Err(Full)]);
        assert_eq!(map.insert(&2, &21), Ok(()), "what is there may change");
        assert!(map.remove(&1) && !map.remove(&1));
        assert_eq!(map.insert(&3, &30), Ok(()));
        assert_eq!([1, 2, 3].map(|k| map.get(&k)), [None, Some(21), Some(30)]);
    }

    #[test]
    fn the_least_recently_used_goes() {
        let map = Lru::<u16, u32>::new(2);
        map.insert(&1, &10).unwrap();
        map.insert(&2, &20).unwrap();
        assert_eq!(map.get(&1), Some(10));
        map.insert(&3, &30).unwrap();
        assert_eq!([1, 2, 3].map(|k| map.get(&k)), [Some(10), None, Some(30)]);
    }

    #[test]
    fn an_array_is_zeros_up_to_its_end() {
        let map = Array::<[u8; 3]>::new(4);
        assert_eq!([map.get(3), map.get(4)], [Some([0; 3]), None]);
        assert!(map.set(3, &[1, 2, 3]) && !map.set(4, &[0; 3]));
        assert_eq!(map.get(3), Some([1, 2, 3]));
    }
}
