//! One thing in each program, to see what it takes: entering a program, looking something up, a lock. The same
//! in C is in `primitives.c`. A program lets packets pass when it found what it looked for.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};
use karakoram_extension::{Mutex, Xdp, XdpVerdict, kernel_map, xdp};

/// Entries of each table.
const ENTRIES: u32 = 5000;
/// The key that is looked for.
const KEY: u32 = 2500;

kernel_map!(static ARRAY: Array<u64>, 5000);
kernel_map!(static HASH: Hash<u32, u64>, 8192);
kernel_map!(static LRU: Lru<u32, u64>, 8192);
static FILLED: AtomicU32 = AtomicU32::new(0);
static LOCKED: Mutex<u64> = Mutex::new(0);

fn verdict(value: Option<u64>) -> XdpVerdict {
    if value == Some(value_of(KEY)) { XdpVerdict::Pass } else { XdpVerdict::Drop }
}

fn value_of(key: u32) -> u64 {
    u64::from(key) + 1
}

/// Fills the tables: one entry in each run, since in C the verifier takes no loop of so many.
#[xdp]
pub fn fill(_packet: &mut Xdp) -> XdpVerdict {
    let key = FILLED.fetch_add(1, Ordering::Relaxed);
    let value = value_of(key);
    let is_put = || ARRAY.set(key, &value) && HASH.insert(&key, &value).is_ok() && LRU.insert(&key, &value).is_ok();
    if key >= ENTRIES || is_put() { XdpVerdict::Pass } else { XdpVerdict::Drop }
}

/// Nothing.
#[xdp]
pub fn nothing(_packet: &mut Xdp) -> XdpVerdict {
    XdpVerdict::Pass
}

/// A lookup in an array.
#[xdp]
pub fn array(_packet: &mut Xdp) -> XdpVerdict {
    verdict(ARRAY.get(KEY))
}

/// A lookup in a hash map.
#[xdp]
pub fn hash(_packet: &mut Xdp) -> XdpVerdict {
    verdict(HASH.get(&KEY))
}

/// A lookup in an LRU map.
#[xdp]
pub fn lru(_packet: &mut Xdp) -> XdpVerdict {
    verdict(LRU.get(&KEY))
}

/// A number behind a lock.
#[xdp]
pub fn lock(_packet: &mut Xdp) -> XdpVerdict {
    *LOCKED.lock() += 1;
    XdpVerdict::Pass
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_extension::testing;

    #[test]
    fn what_was_filled_in_is_found() {
        let run = |program| testing::xdp(program, &mut vec![0; 64]);
        assert_eq!(run(array), XdpVerdict::Drop);
        assert!((0..ENTRIES).all(|_| run(fill) == XdpVerdict::Pass));
        for program in [nothing, array, hash, lru, lock] {
            assert_eq!(run(program), XdpVerdict::Pass);
        }
    }
}
