//! The clock that BPF programs and user space share.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`, which is what `bpf_ktime_get_ns` gives.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
