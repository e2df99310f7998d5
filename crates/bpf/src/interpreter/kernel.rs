//! Memory of a made-up kernel: every address can be read and holds bytes that the address determines,
//! so that two programs which look at the same places see the same things.

use super::random::mix;
use std::collections::BTreeMap;

/// Kernel memory by address. What was not given is made up from a seed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelMemory {
    /// Decides what is at addresses that were not given.
    pub seed: u64,
    given: BTreeMap<u64, Vec<u8>>,
}

impl KernelMemory {
    /// Puts bytes at an address; later calls win where they overlap with earlier ones at a lower
    /// or the same address.
    pub fn give(&mut self, address: u64, bytes: &[u8]) {
        self.given.insert(address, bytes.to_vec());
    }

    /// Reads bytes.
    pub fn read(&self, address: u64, bytes: &mut [u8]) {
        for (i, byte) in bytes.iter_mut().enumerate() {
            let at = address.wrapping_add(i as u64);
            *byte = self.given(at).unwrap_or_else(|| self.made_up(at));
        }
    }

    fn given(&self, address: u64) -> Option<u8> {
        let (start, bytes) = self.given.range(..=address).next_back()?;
        bytes.get(usize::try_from(address - start).ok()?).copied()
    }

    fn made_up(&self, address: u64) -> u8 {
        // Addresses that user space and the kernel never map read as zero.
        if address < 4096 {
            return 0;
        }
        let word = mix(mix(address >> 3) ^ self.seed);
        // Every eighth word is zero: lists end and flags are clear now and then.
        if word >> 61 == 0 { 0 } else { word.to_le_bytes()[(address & 7) as usize] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_reads_agree() {
        let memory = KernelMemory { seed: 3, ..KernelMemory::default() };
        let (mut all, mut part) = ([0; 32], [0; 5]);
        memory.read(0xffff_8880_0000_1000, &mut all);
        memory.read(0xffff_8880_0000_1007, &mut part);
        assert_eq!(all[7..12], part);
    }

    #[test]
    fn given_bytes_win() {
        let mut memory = KernelMemory::default();
        memory.give(u64::MAX - 1, b"ab");
        let mut read = [0; 2];
        memory.read(u64::MAX - 1, &mut read);
        assert_eq!(&read, b"ab");
    }
}
