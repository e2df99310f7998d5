//! Longest-prefix-match tables (kernel `kernel/bpf/lpm_trie.c`): keys are a prefix length in bits
//! (four bytes) and that many bits of data, most significant first.

use super::super::errno::*;
use super::super::fault::Limit;
use super::Values;
use super::hash::{Hash, WhenFull};

/// A table of prefixes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trie {
    bits: u32,
    pub(super) table: Hash,
}

impl Trie {
    pub(super) fn new(entries: u32, key_size: u32, values: Values) -> Trie {
        let bits = key_size.saturating_sub(4).saturating_mul(8);
        Trie { bits, table: Hash::new(entries, 1, WhenFull::Refuse, values) }
    }

    /// The key with all bits after the prefix cleared, so that equal prefixes have equal keys.
    fn canonical(&self, key: &[u8], prefix: u32) -> Vec<u8> {
        let mut canonical = prefix.to_le_bytes().to_vec();
        for (i, byte) in key.iter().skip(4).enumerate() {
            let kept = prefix.saturating_sub(i as u32 * 8).min(8);
            canonical.push(byte & !(0xffu32 >> kept) as u8);
        }
        canonical
    }

    fn prefix(&self, key: &[u8]) -> Option<u32> {
        let prefix = u32::from_le_bytes(key.get(..4)?.try_into().ok()?);
        (prefix <= self.bits).then_some(prefix)
    }

    /// Slot of the element with the longest prefix that matches.
    pub(super) fn find(&self, key: &[u8]) -> Option<u64> {
        let longest = self.prefix(key)?;
        (0..=longest).rev().find_map(|prefix| self.table.find(&self.canonical(key, prefix)))
    }

    pub(super) fn prepare_update(&mut self, key: &[u8], flags: u64) -> Result<Result<(u64, bool), i64>, Limit> {
        match self.prefix(key) {
            Some(prefix) => self.table.prepare_update(&self.canonical(key, prefix), flags),
            None => Ok(Err(EINVAL)),
        }
    }

    /// Removes exactly that prefix; an error number when it is invalid or absent.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), i64> {
        let prefix = self.prefix(key).ok_or(EINVAL)?;
        if self.table.remove(&self.canonical(key, prefix)) { Ok(()) } else { Err(ENOENT) }
    }
}
