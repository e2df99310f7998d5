//! Two programs side by side on the running kernel.

mod common;

use common::*;
use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_kernel::differential::{Difference, Differential, Divergence, Side};
use karakoram_kernel::load::LoadedProgram;
use karakoram_kernel::map::{Contents, MapSet, MapSetOptions};
use karakoram_kernel::run::RunInput;
use std::time::Instant;

/// Adds `step` to the eight bytes at the key in packet byte 0 of map 0, when it is there; returns
/// `verdict`, and writes packet byte 0 plus one to byte 1.
fn counter(step: i32, verdict: i32) -> Vec<Slot> {
    let [low, high] = map(R1, 0);
    vec![
        ldxw(R2, R1, 0),
        ldxw(R3, R1, 4),
        mov_reg(R4, R2),
        add(R4, 14),
        mov(R0, 1),
        jgt_reg(R4, R3, 14),
        ldxb(R5, R2, 0),
        stxw(R10, -4, R5),
        add(R5, 1),
        stxb(R2, 1, R5),
        mov_reg(R2, R10),
        add(R2, -4),
        low,
        high,
        call(1),
        jeq(R0, 0, 3),
        ldxd(R1, R0, 0),
        add(R1, step),
        stxd(R0, 0, R1),
        mov(R0, verdict),
        exit(),
    ]
}

/// Counts in a hash table: `map[packet byte 0] = step`, inserted when missing.
fn inserter(step: i32) -> Vec<Slot> {
    let [low, high] = map(R1, 0);
    vec![
        ldxw(R2, R1, 0),
        ldxw(R3, R1, 4),
        mov_reg(R4, R2),
        add(R4, 14),
        mov(R0, 1),
        jgt_reg(R4, R3, 12),
        ldxb(R5, R2, 0),
        stxw(R10, -4, R5),
        std(R10, -16, step),
        mov_reg(R2, R10),
        add(R2, -4),
        mov_reg(R3, R10),
        add(R3, -16),
        mov(R4, 0),
        low,
        high,
        call(2),
        mov(R0, 2),
        exit(),
    ]
}

/// Puts `value` into ring buffer 0.
fn reporter(value: i32) -> Vec<Slot> {
    let [low, high] = map(R1, 0);
    vec![
        std(R10, -8, value),
        low,
        high,
        mov_reg(R2, R10),
        add(R2, -8),
        mov(R3, 8),
        mov(R4, 0),
        call(130),
        mov(R0, 2),
        exit(),
    ]
}

/// Loads both and runs them on `packets` packets whose first byte counts up.
fn compare(defs: &[MapDef], a: &[Slot], b: &[Slot], packets: u32) -> (Option<Divergence>, usize) {
    let options = MapSetOptions { mapped: true, most_entries: Some(64), ..Default::default() };
    let (maps_a, maps_b) = (MapSet::create(defs, &options).unwrap(), MapSet::create(defs, &options).unwrap());
    let (program_a, program_b) = (load_with(ProgramType::XDP, a, &maps_a), load_with(ProgramType::XDP, b, &maps_b));
    let sides = (Side { program: &program_a, maps: &maps_a }, Side { program: &program_b, maps: &maps_b });
    let mut differential = Differential::new(sides.0, sides.1).unwrap();
    let inputs = packets_for(&program_a, packets);
    (differential.run_all(&inputs).unwrap(), differential.interval())
}

fn packets_for(program: &LoadedProgram, packets: u32) -> Vec<RunInput> {
    (0..packets).map(|n| RunInput::packet(program, vec![n as u8; 64])).collect()
}

#[test]
fn equal_programs() {
    let Some(()) = permitted("equal_programs") else { return };
    let array = [map_def("counters", MapType::ARRAY, 4, 8, 300)];
    assert_eq!(compare(&array, &counter(1, 2), &counter(1, 2), 1000).0, None);
    for kind in [MapType::HASH, MapType::LRU_HASH, MapType::PERCPU_HASH] {
        let table = [map_def("table", kind, 4, 8, 300)];
        assert_eq!(compare(&table, &inserter(7), &inserter(7), 1000).0, None, "{}", kind.name());
    }
    let ring = [map_def("events", MapType::RINGBUF, 0, 0, 4096)];
    assert_eq!(compare(&ring, &reporter(7), &reporter(7), 1000).0, None);
}

#[test]
fn another_verdict() {
    let Some(()) = permitted("another_verdict") else { return };
    let array = [map_def("counters", MapType::ARRAY, 4, 8, 5)];
    // Only packets whose first byte is a key of the map get the verdict of the lookup's other branch.
    let mut other = counter(1, 2);
    other[17] = add(R1, 1);
    let last = other.len() - 2;
    other[last] = mov(R0, 3);
    let found = compare(&array, &counter(1, 2), &other, 10).0.unwrap();
    assert_eq!(found.run, Some(1));
    assert_eq!(found.differences, [Difference::Retval { a: 2, b: 3 }]);
}

#[test]
fn another_packet() {
    let Some(()) = permitted("another_packet") else { return };
    let array = [map_def("counters", MapType::ARRAY, 4, 8, 5)];
    let mut other = counter(1, 2);
    other[8] = add(R5, 2);
    let found = compare(&array, &counter(1, 2), &other, 10).0.unwrap();
    assert_eq!(found.differences[0].to_string(), "packet from byte 1: 0100000000000000 and 0200000000000000");
}

#[test]
fn another_map_value_is_traced_to_its_run() {
    let Some(()) = permitted("another_map_value_is_traced_to_its_run") else { return };
    // Large enough not to be compared every time, and only the last key makes a difference.
    let array = [map_def("counters", MapType::ARRAY, 4, 8, 4000)];
    let mut other = counter(1, 2);
    let at = 16;
    // `if key == 200 goto exit` in front of the step.
    other.splice(at..at, [ldxw(R2, R10, -4), mov(R6, 0), jeq(R2, 200, 3)]);
    other[15] = jeq(R0, 0, 6);
    other[5] = jgt_reg(R4, R3, 17);
    let mut same = other.clone();
    same[18] = jeq(R2, 0x7fff, 3);
    let (found, interval) = compare(&array, &same, &other, 1000);
    let found = found.unwrap();
    assert!(interval > 1, "{interval}");
    assert_eq!(found.run, Some(201));
    assert_eq!(found.input.data[0], 200);
    let key = "map counters, key c8000000: ";
    assert!(found.differences[0].to_string().starts_with(key), "{}", found.differences[0]);
}

#[test]
fn other_table_entries_and_events() {
    let Some(()) = permitted("other_table_entries_and_events") else { return };
    let table = [map_def("table", MapType::HASH, 4, 8, 300)];
    let found = compare(&table, &inserter(7), &inserter(8), 3).0.unwrap();
    assert_eq!(found.differences[0].to_string(), "map table, key 00000000: 0700000000000000 and 0800000000000000");
    let ring = [map_def("events", MapType::RINGBUF, 0, 0, 4096)];
    let found = compare(&ring, &reporter(7), &reporter(8), 3).0.unwrap();
    let expected = "ring buffer events, record 0: 0700000000000000 and 0800000000000000";
    assert_eq!(found.differences[0].to_string(), expected);
    let silent = [mov(R0, 2), exit()];
    let found = compare(&ring, &reporter(7), &silent, 3).0.unwrap();
    assert!(found.differences[0].to_string().ends_with("0700000000000000 and nothing"));
}

#[test]
fn one_set_of_maps_for_both() {
    let Some(()) = permitted("one_set_of_maps_for_both") else { return };
    let defs = [map_def("table", MapType::HASH, 4, 8, 300), map_def("ring", MapType::RINGBUF, 0, 0, 4096)];
    let maps = MapSet::create(&defs, &MapSetOptions::default()).unwrap();
    let a = load_with(ProgramType::XDP, &inserter(7), &maps);
    let b = load_with(ProgramType::XDP, &inserter(7), &maps);
    let c = load_with(ProgramType::XDP, &inserter(8), &maps);
    let side = |program| Side { program, maps: &maps };
    let inputs = packets_for(&a, 100);
    assert_eq!(Differential::new(side(&a), side(&b)).unwrap().run_all(&inputs).unwrap(), None);
    let start = vec![Contents::elements(4, 8, vec![0; 4], vec![7; 8]), maps.maps()[1].dump().unwrap()];
    let mut differential = Differential::new(side(&a), side(&c)).unwrap();
    differential.set_contents(&start).unwrap();
    let found = differential.run_all(&inputs).unwrap().unwrap();
    assert_eq!((found.run, found.differences.len()), (Some(1), 1));
}

#[test]
fn programs_that_cannot_be_compared() {
    let Some(()) = permitted("programs_that_cannot_be_compared") else { return };
    let none = MapSet::default();
    let slots = [mov(R0, 0), exit()];
    let xdp = load_with(ProgramType::XDP, &slots, &none);
    let tc = load_with(ProgramType::SCHED_CLS, &slots, &none);
    let error = Differential::new(Side { program: &xdp, maps: &none }, Side { program: &tc, maps: &none });
    assert!(error.err().unwrap().to_string().contains("one is xdp, the other sched_cls"));
    let defs = [map_def("jumps", MapType::PROG_ARRAY, 4, 4, 3)];
    let maps = MapSet::create(&defs, &MapSetOptions::default()).unwrap();
    let with = load_with(ProgramType::XDP, &slots, &maps);
    assert!(Differential::new(Side { program: &xdp, maps: &none }, Side { program: &with, maps: &maps }).is_err());
    let side = Side { program: &with, maps: &maps };
    assert_eq!(Differential::new(side, side).unwrap().not_compared(), [("jumps", "programs cannot change it")]);
}

/// Not a test: `cargo test --release -p karakoram-kernel --test differential -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures"]
fn speed() {
    let Some(()) = permitted("speed") else { return };
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
