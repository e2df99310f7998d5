//! Differential runs a second: `cargo run --release -p karakoram-kernel --example differential_speed`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::differential::*;
use common::*;
use karakoram_bpf::encode::Slot;
use karakoram_bpf::map::{MapDef, MapType};
use std::time::Instant;

fn main() {
    let Some(()) = permitted("differential_speed") else { return };
    let cases: [(&str, Vec<MapDef>, Vec<Slot>); 8] = [
        ("no map", vec![], vec![mov(R0, 2), exit()]),
        ("array of 300", vec![map_def("m", MapType::ARRAY, 4, 8, 300)], counter(1, 2)),
        ("array of 1 MiB", vec![map_def("m", MapType::ARRAY, 4, 8, 1 << 17)], counter(1, 2)),
        ("per-CPU array of 256", vec![map_def("m", MapType::PERCPU_ARRAY, 4, 8, 256)], counter(1, 2)),
        ("hash of 64", vec![map_def("m", MapType::HASH, 4, 8, 64)], inserter(1)),
        ("hash of 64k (cut to 64)", vec![map_def("m", MapType::HASH, 4, 8, 1 << 16)], inserter(1)),
        ("LRU hash (cut to 64)", vec![map_def("m", MapType::LRU_HASH, 4, 8, 1 << 16)], inserter(1)),
        ("ring buffer", vec![map_def("m", MapType::RINGBUF, 0, 0, 1 << 16)], reporter(1)),
    ];
    for (name, defs, slots) in cases {
        let start = Instant::now();
        let runs = 50_000;
        let (found, interval) = compare(&defs, &slots, &slots, runs);
        assert_eq!(found, None);
        let per_second = f64::from(runs) / start.elapsed().as_secs_f64();
        println!("{name:26} {per_second:9.0} differential runs a second, maps compared every {interval}");
    }
}
