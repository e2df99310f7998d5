//! What is in a map: dump, restore, compare.

use super::Map;
use crate::errno::Errno;
use crate::error::KernelError;
use karakoram_bpf::map::MapType;
use std::cmp::Ordering;

/// Most bytes of contents that are dumped of one map.
const MOST_BYTES: usize = 1 << 28;
/// Room for elements beyond those of the last dump, in the first batch.
const FIRST_BATCH: usize = 32;

/// Why the contents of a map cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotComparable(pub &'static str);

/// How the contents of a kind of map lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// All indices always exist.
    Flat,
    /// Keys come and go.
    Elements,
}

/// Whether two maps of this kind can be compared by their contents.
pub fn comparable(kind: MapType) -> Result<(), NotComparable> {
    layout(kind).map(drop)
}

fn layout(kind: MapType) -> Result<Layout, NotComparable> {
    const CGROUP_STORAGE: MapType = MapType(19);
    Ok(match kind {
        MapType::ARRAY | MapType::PERCPU_ARRAY => Layout::Flat,
        MapType::HASH | MapType::PERCPU_HASH | MapType::LRU_HASH | MapType::LRU_PERCPU_HASH | MapType::LPM_TRIE => {
            Layout::Elements
        }
        MapType::PERF_EVENT_ARRAY | MapType::RINGBUF => {
            return Err(NotComparable("a stream of events, which user space consumes"));
        }
        MapType::QUEUE | MapType::STACK => return Err(NotComparable("looking at its elements removes them")),
        MapType::STACK_TRACE => return Err(NotComparable("stack traces differ between programs")),
        MapType::PROG_ARRAY
        | MapType::CGROUP_ARRAY
        | MapType::ARRAY_OF_MAPS
        | MapType::HASH_OF_MAPS
        | MapType::DEVMAP
        | MapType::DEVMAP_HASH
        | MapType::CPUMAP
        | MapType::XSKMAP => return Err(NotComparable("programs cannot change it")),
        MapType::SOCKMAP | MapType::SOCKHASH => return Err(NotComparable("it holds sockets")),
        MapType::SK_STORAGE | CGROUP_STORAGE => {
            return Err(NotComparable("its elements hang on kernel objects"));
        }
        _ => return Err(NotComparable("its contents are of a kind that is not dumped")),
    })
}

/// Contents of one map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contents {
    /// All values of an array by index, each padded with zeros to `stride` bytes.
    Flat {
        /// Bytes from one to the next.
        stride: usize,
        /// The values.
        values: Vec<u8>,
    },
    /// Elements sorted by the bytes of their keys.
    Elements {
        /// Bytes of a key.
        key_bytes: usize,
        /// Bytes of a value; of all CPUs together for per-CPU maps.
        value_bytes: usize,
        /// Keys one after the other.
        keys: Vec<u8>,
        /// Values in the order of the keys.
        values: Vec<u8>,
    },
    /// Not dumped.
    NotComparable(NotComparable),
}

/// One element that is not the same in two maps. None where the key is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElementDifference {
    /// Key; for arrays the index as four bytes in this machine's order.
    pub key: Vec<u8>,
    /// Value in the first.
    pub a: Option<Vec<u8>>,
    /// Value in the second.
    pub b: Option<Vec<u8>>,
}

impl Contents {
    /// An element list; keys in any order, without duplicates.
    pub fn elements(key_bytes: usize, value_bytes: usize, keys: Vec<u8>, values: Vec<u8>) -> Contents {
        let mut contents = Contents::Elements { key_bytes, value_bytes, keys, values };
        contents.sort();
        contents
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Contents::Flat { stride, values } => values.len().checked_div(*stride).unwrap_or(0),
            Contents::Elements { key_bytes, keys, .. } => keys.len().checked_div(*key_bytes).unwrap_or(0),
            Contents::NotComparable(_) => 0,
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Key of an element list at a position.
    fn key(&self, at: usize) -> &[u8] {
        match self {
            Contents::Elements { key_bytes, keys, .. } => &keys[at * key_bytes..(at + 1) * key_bytes],
            _ => &[],
        }
    }

    /// Value at a position.
    pub fn value(&self, at: usize) -> &[u8] {
        match self {
            Contents::Flat { stride, values } => &values[at * stride..(at + 1) * stride],
            Contents::Elements { value_bytes, values, .. } => &values[at * value_bytes..(at + 1) * value_bytes],
            Contents::NotComparable(_) => &[],
        }
    }

    /// Keys and values; keys of arrays are their indices.
    pub fn iter(&self) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
        (0..self.len()).map(|at| {
            let key = match self {
                Contents::Flat { .. } => (at as u32).to_ne_bytes().to_vec(),
                _ => self.key(at).to_vec(),
            };
            (key, self.value(at))
        })
    }

    fn sort(&mut self) {
        let Contents::Elements { key_bytes, value_bytes, keys, values } = self else { return };
        let (k, v) = (*key_bytes, *value_bytes);
        let key = |i: &usize| &keys[i * k..(i + 1) * k];
        let n = keys.len().checked_div(k).unwrap_or(0);
        if (1..n).all(|i| key(&(i - 1)) <= key(&i)) {
            return;
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        *values = order.iter().flat_map(|i| values[i * v..(i + 1) * v].iter().copied()).collect();
        *keys = order.iter().flat_map(|i| keys[i * k..(i + 1) * k].iter().copied()).collect();
    }

    /// The first `limit` elements that differ, in the order of the keys.
    pub fn differences(&self, other: &Contents, limit: usize) -> Vec<ElementDifference> {
        let mut out = Vec::new();
        let (mut i, mut j) = (0, 0);
        while out.len() < limit && (i < self.len() || j < other.len()) {
            let order = match (i < self.len(), j < other.len()) {
                (true, true) => self.key(i).cmp(other.key(j)),
                (true, false) => Ordering::Less,
                _ => Ordering::Greater,
            };
            let a = (order != Ordering::Greater).then(|| self.value(i));
            let b = (order != Ordering::Less).then(|| other.value(j));
            if a != b {
                let key = match self {
                    Contents::Flat { .. } => (i as u32).to_ne_bytes().to_vec(),
                    _ if a.is_some() => self.key(i).to_vec(),
                    _ => other.key(j).to_vec(),
                };
                out.push(ElementDifference { key, a: a.map(<[u8]>::to_vec), b: b.map(<[u8]>::to_vec) });
            }
            i += a.is_some() as usize;
            j += b.is_some() as usize;
        }
        out
    }
}

impl Map {
    /// All contents, in a form that is the same for equal contents.
    pub fn dump(&self) -> Result<Contents, KernelError> {
        let mut contents = Contents::NotComparable(NotComparable("not dumped yet"));
        self.dump_into(&mut contents)?;
        Ok(contents)
    }

    /// As [`Map::dump`], into memory that is used again.
    pub fn dump_into(&self, contents: &mut Contents) -> Result<(), KernelError> {
        match layout(self.def().kind) {
            Err(why) => *contents = Contents::NotComparable(why),
            Ok(_) if self.most_bytes() > MOST_BYTES => {
                *contents = Contents::NotComparable(NotComparable("it is too large to dump"));
            }
            Ok(Layout::Flat) => {
                let mut values = match std::mem::replace(contents, Contents::NotComparable(NotComparable(""))) {
                    Contents::Flat { values, .. } => values,
                    _ => Vec::new(),
                };
                values.resize(self.flat_bytes(), 0);
                self.dump_flat(&mut values).map_err(|e| self.error("dump", e))?;
                *contents = Contents::Flat { stride: self.stride(), values };
            }
            Ok(Layout::Elements) => {
                let (mut keys, mut values) =
                    match std::mem::replace(contents, Contents::NotComparable(NotComparable(""))) {
                        Contents::Elements { keys, values, .. } => (keys, values),
                        _ => (Vec::new(), Vec::new()),
                    };
                self.dump_elements(&mut keys, &mut values).map_err(|e| self.error("dump", e))?;
                *contents = Contents::elements(self.fd().key_bytes(), self.fd().value_bytes(), keys, values);
            }
        }
        Ok(())
    }

    /// Bytes of keys and values when full.
    pub(crate) fn most_bytes(&self) -> usize {
        (self.fd().key_bytes() + self.stride()).saturating_mul(self.def().max_entries as usize)
    }

    fn dump_flat(&self, values: &mut [u8]) -> Result<(), Errno> {
        if let Some(mapping) = self.mapping() {
            return mapping.read(0, values);
        }
        if self.stride() == self.fd().value_bytes() && self.dump_flat_batch(values).is_ok() {
            return Ok(());
        }
        let size = self.fd().value_bytes();
        for (i, value) in values.chunks_exact_mut(self.stride()).enumerate() {
            self.fd().lookup(&(i as u32).to_ne_bytes(), &mut value[..size])?;
        }
        Ok(())
    }

    fn dump_flat_batch(&self, values: &mut [u8]) -> Result<(), Errno> {
        let n = self.def().max_entries as usize;
        if n == 1 {
            return self.fd().lookup(&[0; 4], values);
        }
        let mut keys = vec![0; n * self.fd().key_bytes()];
        let mut position = vec![0; self.fd().position_bytes()];
        let (moved, _) = self.fd().lookup_batch(true, &mut position, &mut keys, values)?;
        if moved == n { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    fn dump_elements(&self, keys: &mut Vec<u8>, values: &mut Vec<u8>) -> Result<(), Errno> {
        match self.dump_elements_batch(keys, values) {
            // No batches before 5.6, nor for every kind since.
            Err(Errno::EINVAL | Errno::ENOTSUPP | Errno::EOPNOTSUPP) => self.dump_elements_singly(keys, values),
            other => other,
        }
    }

    fn dump_elements_batch(&self, keys: &mut Vec<u8>, values: &mut Vec<u8>) -> Result<(), Errno> {
        let (k, v) = (self.fd().key_bytes(), self.fd().value_bytes());
        let most = self.def().max_entries as usize;
        let mut position = vec![0; self.fd().position_bytes()];
        let mut room = (keys.len() / k.max(1) + FIRST_BATCH).min(most);
        let mut n = 0;
        loop {
            keys.resize(room * k, 0);
            values.resize(room * v, 0);
            match self.fd().lookup_batch(n == 0, &mut position, &mut keys[n * k..], &mut values[n * v..]) {
                Ok((moved, last)) => {
                    n += moved;
                    if last {
                        break;
                    }
                    // More elements than the map may hold: it is being filled as we read.
                    if room > 2 * most + FIRST_BATCH {
                        return Err(Errno::EAGAIN);
                    }
                    room = (room * 2).max(n + FIRST_BATCH);
                }
                Err(Errno::ENOSPC) if room <= 2 * most + FIRST_BATCH => room = room * 2 + FIRST_BATCH,
                Err(e) => return Err(e),
            }
        }
        keys.truncate(n * k);
        values.truncate(n * v);
        Ok(())
    }

    fn dump_elements_singly(&self, keys: &mut Vec<u8>, values: &mut Vec<u8>) -> Result<(), Errno> {
        let (k, v) = (self.fd().key_bytes(), self.fd().value_bytes());
        keys.clear();
        values.clear();
        let mut key = vec![0; k];
        let mut value = vec![0; v];
        let mut before: Option<Vec<u8>> = None;
        for _ in 0..=self.def().max_entries {
            match self.fd().next_key(before.as_deref(), &mut key) {
                Err(Errno::ENOENT) => return Ok(()),
                other => other?,
            }
            self.fd().lookup(&key, &mut value)?;
            keys.extend(&key);
            values.extend(&value);
            before = Some(key.clone());
        }
        Ok(())
    }

    /// Makes the contents those. `now` is what is in it, when known; it is dumped otherwise.
    /// Frozen and not comparable maps are left alone.
    pub fn restore(&self, target: &Contents, now: Option<&Contents>) -> Result<(), KernelError> {
        if self.def().frozen || matches!(target, Contents::NotComparable(_)) {
            return Ok(());
        }
        if let (Contents::Flat { values, .. }, Some(mapping)) = (target, self.mapping()) {
            return mapping.write(0, values).map_err(|e| self.error("restore", e));
        }
        let dumped;
        let now = match now {
            Some(now) => now,
            None => {
                dumped = self.dump()?;
                &dumped
            }
        };
        for change in now.differences(target, usize::MAX) {
            let done = match &change.b {
                Some(value) => self.fd().update(&change.key, &value[..self.fd().value_bytes().min(value.len())], 0),
                None => self.fd().delete(&change.key),
            };
            done.map_err(|e| self.error("restore", e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(u8, u8)]) -> Contents {
        let (keys, values) = pairs.iter().copied().unzip();
        Contents::elements(1, 1, keys, values)
    }

    #[test]
    fn order_does_not_matter() {
        assert_eq!(list(&[(2, 20), (1, 10)]), list(&[(1, 10), (2, 20)]));
    }

    #[test]
    fn differences_name_the_key() {
        let found = list(&[(1, 10), (2, 20), (4, 40)]).differences(&list(&[(2, 21), (3, 30), (4, 40)]), 9);
        let short: Vec<_> = found.iter().map(|d| (d.key[0], d.a.as_deref(), d.b.as_deref())).collect();
        assert_eq!(
            short,
            [(1, Some(&[10][..]), None), (2, Some(&[20][..]), Some(&[21][..])), (3, None, Some(&[30][..])),]
        );
    }

    #[test]
    fn array_differences_are_indices() {
        let flat = |values: &[u8]| Contents::Flat { stride: 2, values: values.to_vec() };
        let found = flat(&[1, 1, 2, 2]).differences(&flat(&[1, 1, 2, 3]), 9);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].key, 1u32.to_ne_bytes());
    }
}
