//! Two programs side by side on the running kernel.

mod common;

use common::differential::*;
use common::*;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::map::MapType;
use karakoram_kernel::differential::{Difference, Differential, Side};
use karakoram_kernel::map::{Contents, MapSet, MapSetOptions};

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
