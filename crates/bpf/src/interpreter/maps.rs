//! Maps with contents.
//!
//! [`Map`] is what user space sees: [`Map::get`], [`Map::set`], [`Map::remove`], [`Map::entries`].
//! What programs see (addresses of values, update flags, error numbers) is private to the interpreter.

mod array;
mod hash;
mod queue;
mod trie;
mod values;

use super::address::{self, Kind};
use super::errno::*;
use super::fault::Limit;
use crate::insn::FuncId;
use crate::map::{Behaviour, MapDef, MapType};
use array::Array;
use hash::{Hash, WhenFull};
use queue::Queue;
use std::collections::BTreeMap;
use std::fmt;
use trie::Trie;
use values::Values;

/// A map and what is in it.
#[derive(Clone, Debug)]
pub struct Map {
    def: MapDef,
    number: u32,
    copies: u32,
    contents: Contents,
}

#[derive(Clone, Debug)]
enum Contents {
    Array(Array),
    Hash(Hash),
    Trie(Trie),
    Queue(Queue),
    /// Functions to tail-call.
    Programs(BTreeMap<Vec<u8>, FuncId>),
    /// Maps in a map, by number.
    Maps(BTreeMap<Vec<u8>, u32>),
    /// What goes in becomes an event: ring buffers, perf event arrays.
    Output,
    /// Storage that the kernel hangs on its objects, and whatever is not modelled.
    Foreign,
}

/// Why user space cannot do that to a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// The key has the wrong length.
    KeySize,
    /// The value has the wrong length.
    ValueSize,
    /// The kernel refuses, with this error number.
    Errno(i32),
    /// This kind of map has no such operation.
    Kind,
    /// The limit on memory is reached.
    Memory,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            MapError::KeySize => f.write_str("the key does not have the map's key size"),
            MapError::ValueSize => f.write_str("the value does not have the map's value size"),
            MapError::Errno(errno) => write!(f, "the map refuses with error number {errno}"),
            MapError::Kind => f.write_str("a map of this type has no such operation"),
            MapError::Memory => Limit::Memory.fmt(f),
        }
    }
}

impl std::error::Error for MapError {}

impl From<Limit> for MapError {
    fn from(_: Limit) -> MapError {
        MapError::Memory
    }
}

impl Map {
    /// An empty map, or one with its initial contents. `number` is its position among the maps of a
    /// state; a per-CPU map has `cpus` values for each key; values take at most `limit` bytes.
    pub fn new(def: &MapDef, number: u32, cpus: u32, limit: usize) -> Map {
        let copies = if def.kind.is_per_cpu() { cpus.max(1) } else { 1 };
        let entries = def.max_entries;
        let queued = entries.min((limit / (def.value_size as usize + 32)).try_into().unwrap_or(u32::MAX));
        let values = Values::new(def.value_size as usize, limit);
        let contents = match def.kind.behaviour() {
            Some(Behaviour::Array) => Contents::Array(Array::new(entries, copies, values)),
            Some(Behaviour::Hash) => Contents::Hash(Hash::new(entries, copies, WhenFull::Refuse, values)),
            Some(Behaviour::Lru) => Contents::Hash(Hash::new(entries, copies, WhenFull::Evict, values)),
            Some(Behaviour::Slots) => Contents::Hash(Hash::new(entries, 1, WhenFull::Refuse, values)),
            Some(Behaviour::Trie) => Contents::Trie(Trie::new(entries, def.key_size, values)),
            Some(Behaviour::Queue) => Contents::Queue(Queue::new(queued, false)),
            Some(Behaviour::Stack) => Contents::Queue(Queue::new(queued, true)),
            Some(Behaviour::Programs) => Contents::Programs(BTreeMap::new()),
            Some(Behaviour::Maps) => Contents::Maps(BTreeMap::new()),
            Some(Behaviour::Output) => Contents::Output,
            Some(Behaviour::Storage | Behaviour::Closed) | None => Contents::Foreign,
        };
        let mut map = Map { def: def.clone(), number, copies, contents };
        if let (Contents::Array(array), Some(initial)) = (&mut map.contents, &def.initial)
            && entries > 0
            && array.values.touch(0).is_ok()
            && let Some(value) = array.values.slot_mut(0)
        {
            let len = value.len().min(initial.len());
            value[..len].copy_from_slice(&initial[..len]);
        }
        map
    }

    /// The definition.
    pub fn def(&self) -> &MapDef {
        &self.def
    }

    /// The value of a key. For a per-CPU map the values of all CPUs one after the other, each padded
    /// to eight bytes, as the system call gives them. Queues have no keys: the next value.
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        match &self.contents {
            Contents::Array(a) => a.find(key).map(|slot| self.all_copies(&a.values, slot)),
            Contents::Hash(h) => h.find(key).map(|slot| self.all_copies(&h.values, slot)),
            Contents::Trie(t) => t.find(key).map(|slot| self.all_copies(&t.table.values, slot)),
            Contents::Queue(q) => q.clone().next(false),
            Contents::Programs(p) => p.get(key).map(|f| f.0.to_le_bytes().to_vec()),
            Contents::Maps(m) => m.get(key).map(|m| m.to_le_bytes().to_vec()),
            Contents::Output | Contents::Foreign => None,
        }
    }

    fn all_copies(&self, values: &Values, slot: u64) -> Vec<u8> {
        let size = self.def.value_size as usize;
        let width = if self.def.kind.is_per_cpu() { values.padded() } else { size };
        let mut all = Vec::with_capacity(width * self.copies as usize);
        for copy in 0..self.copies as u64 {
            let start = all.len();
            match values.slot(slot + copy) {
                Some(value) => all.extend_from_slice(value),
                None => all.resize(start + size, 0),
            }
            all.resize(start + width, 0);
        }
        all
    }

    /// Sets the value of a key. A value of a per-CPU map is either one value for all CPUs or the
    /// values of all, each padded to eight bytes. For a map of programs the value is the number of a
    /// function, for a map of maps that of a map of the state (four bytes, little-endian). A queue
    /// takes an empty key and appends.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), MapError> {
        if key.len() != self.def.key_size as usize {
            return Err(MapError::KeySize);
        }
        let number = || value.try_into().map(u32::from_le_bytes).map_err(|_| MapError::ValueSize);
        match &mut self.contents {
            Contents::Programs(p) => {
                check_index(&self.def, key)?;
                p.insert(key.to_vec(), FuncId(number()?));
                return Ok(());
            }
            Contents::Maps(m) => {
                check_index(&self.def, key)?;
                m.insert(key.to_vec(), number()?);
                return Ok(());
            }
            Contents::Queue(q) => {
                return if value.len() != self.def.value_size as usize {
                    Err(MapError::ValueSize)
                } else {
                    errno_result(q.push(value, 0))
                };
            }
            Contents::Output | Contents::Foreign => return Err(MapError::Kind),
            Contents::Array(_) | Contents::Hash(_) | Contents::Trie(_) => {}
        }
        self.set_values(key, value)
    }

    fn set_values(&mut self, key: &[u8], value: &[u8]) -> Result<(), MapError> {
        check_index(&self.def, key)?;
        let size = self.def.value_size as usize;
        let padded = size.next_multiple_of(8).max(8);
        let one_for_all = value.len() == size;
        if !one_for_all && (!self.def.kind.is_per_cpu() || value.len() != padded * self.copies as usize) {
            return Err(MapError::ValueSize);
        }
        let (slot, _) = self.prepare(key, 0)?.map_err(|e| MapError::Errno(e as i32))?;
        for copy in 0..self.copies as usize {
            let start = if one_for_all { 0 } else { copy * padded };
            if let Some(target) = self.values_mut().and_then(|v| v.slot_mut(slot + copy as u64)) {
                target.copy_from_slice(&value[start..start + size]);
            }
        }
        Ok(())
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8]) -> Result<(), MapError> {
        match &mut self.contents {
            Contents::Programs(p) => p.remove(key).map(drop).ok_or(MapError::Errno(ENOENT as i32)),
            Contents::Maps(m) => m.remove(key).map(drop).ok_or(MapError::Errno(ENOENT as i32)),
            Contents::Output | Contents::Foreign | Contents::Queue(_) => Err(MapError::Kind),
            Contents::Array(_) | Contents::Hash(_) | Contents::Trie(_) => errno_result(self.delete(key)),
        }
    }

    /// Keys and values in order of keys; of an array only the elements that are not all zero; of a
    /// queue the values, oldest first, under empty keys.
    pub fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs =
            |keys: Vec<Vec<u8>>| keys.into_iter().map(|k| (k.clone(), self.get(&k).unwrap_or_default())).collect();
        match &self.contents {
            Contents::Array(a) => pairs(a.used_keys()),
            Contents::Hash(h) => pairs(h.keys().cloned().collect()),
            Contents::Trie(t) => pairs(t.table.keys().cloned().collect()),
            Contents::Queue(q) => q.items().map(|v| (Vec::new(), v.clone())).collect(),
            Contents::Programs(p) => pairs(p.keys().cloned().collect()),
            Contents::Maps(m) => pairs(m.keys().cloned().collect()),
            Contents::Output | Contents::Foreign => Vec::new(),
        }
    }

    /// Whether the interpreter knows what is in maps of this type.
    pub fn is_modelled(&self) -> bool {
        !matches!(self.contents, Contents::Foreign)
    }

    fn values(&self) -> Option<&Values> {
        match &self.contents {
            Contents::Array(a) => Some(&a.values),
            Contents::Hash(h) => Some(&h.values),
            Contents::Trie(t) => Some(&t.table.values),
            _ => None,
        }
    }

    fn values_mut(&mut self) -> Option<&mut Values> {
        match &mut self.contents {
            Contents::Array(a) => Some(&mut a.values),
            Contents::Hash(h) => Some(&mut h.values),
            Contents::Trie(t) => Some(&mut t.table.values),
            _ => None,
        }
    }

    /// Finds or makes the element for an update: its first slot and whether it is new.
    fn prepare(&mut self, key: &[u8], flags: u64) -> Result<Result<(u64, bool), i64>, Limit> {
        match &mut self.contents {
            Contents::Array(a) => Ok(a.prepare_update(key, flags)?.map(|slot| (slot, false))),
            Contents::Hash(h) => h.prepare_update(key, flags),
            Contents::Trie(t) => t.prepare_update(key, flags),
            _ => Ok(Err(EOPNOTSUPP)),
        }
    }
}

fn errno_result(result: i64) -> Result<(), MapError> {
    if result == 0 { Ok(()) } else { Err(MapError::Errno(-result as i32)) }
}

/// Maps that are arrays of optional elements have keys below their size.
fn check_index(def: &MapDef, key: &[u8]) -> Result<(), MapError> {
    // Of the maps of maps only the array is indexed.
    let indexed = matches!(def.kind.behaviour(), Some(Behaviour::Slots | Behaviour::Programs))
        || def.kind == MapType::ARRAY_OF_MAPS;
    match <[u8; 4]>::try_from(key) {
        Ok(index) if indexed && u32::from_le_bytes(index) >= def.max_entries => Err(MapError::Errno(E2BIG as i32)),
        Err(_) if indexed => Err(MapError::KeySize),
        _ => Ok(()),
    }
}

/// What programs do to maps.
impl Map {
    /// The address of the value of a key as seen by `cpu`.
    pub(super) fn lookup(&mut self, key: &[u8], cpu: u32) -> Result<Option<u64>, Limit> {
        let copy = if self.copies > 1 { cpu } else { 0 } as u64;
        let (slot, values) = match &mut self.contents {
            Contents::Array(a) => (a.find(key), &mut a.values),
            Contents::Hash(h) => (h.find(key), &mut h.values),
            Contents::Trie(t) => (t.find(key), &mut t.table.values),
            Contents::Maps(m) => return Ok(m.get(key).map(|inner| address::base(Kind::Map, *inner))),
            _ => return Ok(None),
        };
        match slot {
            Some(slot) => {
                let place = values.touch(slot + copy)?;
                Ok(Some(address::base(Kind::MapValue, self.number) + place))
            }
            None => Ok(None),
        }
    }

    /// Sets a value as `cpu` does it: a new element of a per-CPU map is zero for the others.
    pub(super) fn update(&mut self, key: &[u8], value: &[u8], flags: u64, cpu: u32) -> Result<i64, Limit> {
        let (slot, _) = match self.prepare(key, flags)? {
            Ok(found) => found,
            Err(errno) => return Ok(-errno),
        };
        let copy = if self.copies > 1 { cpu } else { 0 } as u64;
        if let Some(target) = self.values_mut().and_then(|v| v.slot_mut(slot + copy)) {
            let len = target.len().min(value.len());
            target[..len].copy_from_slice(&value[..len]);
        }
        Ok(0)
    }

    /// Removes a key; 0 or `-errno`.
    pub(super) fn delete(&mut self, key: &[u8]) -> i64 {
        match &mut self.contents {
            Contents::Array(_) => -EINVAL,
            Contents::Hash(h) => {
                if h.remove(key) {
                    0
                } else {
                    -ENOENT
                }
            }
            Contents::Trie(t) => t.remove(key).map_or_else(|e| -e, |()| 0),
            _ => -EOPNOTSUPP,
        }
    }

    /// Whether there is an element, without making memory for it.
    pub(super) fn contains(&self, key: &[u8]) -> bool {
        match &self.contents {
            Contents::Array(a) => a.find(key).is_some(),
            Contents::Hash(h) => h.find(key).is_some(),
            Contents::Trie(t) => t.find(key).is_some(),
            _ => false,
        }
    }

    /// The queue or stack inside; `None` for other maps.
    pub(super) fn push(&mut self, value: &[u8], flags: u64) -> Option<i64> {
        match &mut self.contents {
            Contents::Queue(q) => Some(q.push(value, flags)),
            _ => None,
        }
    }

    /// The next value of a queue or stack, removed when `take`; `None` for other maps.
    pub(super) fn next(&mut self, take: bool) -> Option<Option<Vec<u8>>> {
        match &mut self.contents {
            Contents::Queue(q) => Some(q.next(take)),
            _ => None,
        }
    }

    /// The function to tail-call at an index.
    pub(super) fn program(&self, index: u32) -> Option<FuncId> {
        match &self.contents {
            Contents::Programs(p) => p.get(index.to_le_bytes().as_slice()).copied(),
            _ => None,
        }
    }

    /// Keys in the order in which callbacks see them; `None` when the map cannot be walked.
    pub(super) fn keys(&self) -> Option<Box<dyn Iterator<Item = Vec<u8>>>> {
        match &self.contents {
            Contents::Array(a) => Some(Box::new(a.keys())),
            Contents::Hash(h) => Some(Box::new(h.keys().cloned().collect::<Vec<_>>().into_iter())),
            _ => None,
        }
    }

    /// Address of the first element, for global data.
    pub(super) fn first_value(&mut self) -> Result<Option<u64>, Limit> {
        match &mut self.contents {
            Contents::Array(a) if self.def.max_entries > 0 => {
                let place = a.values.touch(0)?;
                Ok(Some(address::base(Kind::MapValue, self.number) + place))
            }
            _ => Ok(None),
        }
    }

    /// Bytes at a distance from the start of the map's region, when they are all in one value.
    #[inline]
    pub(super) fn bytes(&self, place: i64, len: usize) -> Option<&[u8]> {
        self.values()?.bytes(u64::try_from(place).ok()?, len)
    }

    /// The same, to be written.
    #[inline]
    pub(super) fn bytes_mut(&mut self, place: i64, len: usize) -> Option<&mut [u8]> {
        self.values_mut()?.bytes_mut(u64::try_from(place).ok()?, len)
    }

    /// Element and distance into it of a place in the map's region.
    pub(super) fn locate(&self, place: i64) -> (u32, i64) {
        match (self.values(), u64::try_from(place)) {
            (Some(values), Ok(place)) => {
                let (slot, inner) = values.locate(place);
                (slot as u32, inner as i64)
            }
            _ => (0, place),
        }
    }

    /// To be called before each run.
    pub(super) fn start_run(&mut self) {
        match &mut self.contents {
            Contents::Hash(h) => h.start_run(),
            Contents::Trie(t) => t.table.start_run(),
            _ => {}
        }
    }
}
