//! Programs that keep what they know in maps of the kernel.

#![cfg(not(target_os = "none"))]

use karakoram_extension::{Plain, kernel_map, map};

/// What is known of a flow. Nine bytes, for copies of every width.
#[derive(Clone, Copy, PartialEq, Plain)]
#[repr(C)]
struct Flow {
    bytes: [u8; 8],
    packets: u8,
}

kernel_map!(static FLOWS: Hash<[u8; 3], Flow>, 256);
kernel_map!(static SIZES: Array<u64>, 32);
kernel_map!(static RECENT: Lru<u32, u32>, 4096);
kernel_map!(static EVEN: Hash<u16, u16>, 64);
kernel_map!(static ODD: Hash<u16, u16>, 64);
kernel_map!(static SMALL: Hash<u64, u8>, 4);

#[inline(never)]
fn count(map: &map::Hash<u16, u16>, key: u16) -> u64 {
    let count = map.get(&key).unwrap_or(0).wrapping_add(1);
    match map.insert(&key, &count) {
        Ok(()) => count.into(),
        Err(map::Full) => u64::MAX,
    }
}

programs! {
    /// Bytes and packets by the first bytes of a packet.
    fn flows_by_source(bytes) {
        let [a, b, c, ..] = bytes else { return 0 };
        let key = [a & 3, b & 3, c & 3];
        let known = FLOWS.get(&key).unwrap_or(Flow { bytes: [0; 8], packets: 0 });
        let total = u64::from_le_bytes(known.bytes) + bytes.len() as u64;
        let flow = Flow { bytes: total.to_le_bytes(), packets: known.packets.saturating_add(1) };
        if FLOWS.insert(&key, &flow).is_err() {
            return u64::MAX;
        }
        if flow.packets == 9 && !FLOWS.remove(&key) {
            return u64::MAX - 1;
        }
        total * 256 + u64::from(flow.packets)
    }

    /// How many packets there were of each size.
    fn histogram(bytes) {
        let slot = bytes.len() as u32 / 8;
        let count = SIZES.get(slot).map(|count| count + 1);
        match count {
            Some(count) if SIZES.set(slot, &count) => count,
            _ => u64::from(slot) << 32,
        }
    }

    /// How many packets ago a sender was seen.
    fn recent_senders(bytes) {
        let now = RECENT.get(&u32::MAX).unwrap_or(0) + 1;
        let key = u32::from(bytes.first().copied().unwrap_or(0));
        let last = RECENT.get(&key).unwrap_or(now);
        let kept = RECENT.insert(&key, &now).is_ok() && RECENT.insert(&u32::MAX, &now).is_ok();
        if kept { u64::from(now - last) } else { u64::MAX }
    }

    /// Which map it is is only known at run time.
    fn chosen_map(bytes) {
        let [a, b, ..] = bytes else { return 0 };
        count(if a % 2 == 0 { &EVEN } else { &ODD }, u16::from(*b))
    }

    /// What does not fit is refused.
    fn map_until_full(bytes) {
        let key = u64::from(bytes.first().copied().unwrap_or(0) % 8);
        let refused = SMALL.insert(&key, &(bytes.len() as u8)).is_err();
        let there = (0..8).filter(|key| SMALL.get(key).is_some()).count() as u64;
        if there == 4 && bytes.len().is_multiple_of(5) {
            (0..8).for_each(|key| _ = SMALL.remove(&key));
        }
        there * 2 + u64::from(refused)
    }
}
