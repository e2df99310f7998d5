//! Maps of every kind on the running kernel: creation, dump, restore.

mod common;

use common::*;
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_kernel::map::{Contents, Map, MapOptions, MapSet, MapSetOptions};
use karakoram_kernel::sys::os::possible_cpus;

fn create(def: &MapDef) -> Map {
    Map::create(def, MapOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn all_kinds_can_be_created() {
    let Some(()) = permitted("all_kinds_can_be_created") else { return };
    let inner = Box::new(map_def("inner", MapType::ARRAY, 4, 8, 1));
    let of_maps = |kind| MapDef { inner: Some(inner.clone()), ..map_def("outer", kind, 4, 4, 3) };
    let plain = [
        (MapType::HASH, 4, 8, 16),
        (MapType::ARRAY, 4, 8, 16),
        (MapType::PROG_ARRAY, 4, 4, 3),
        (MapType::PERF_EVENT_ARRAY, 0, 0, 0),
        (MapType::PERCPU_HASH, 4, 12, 3),
        (MapType::PERCPU_ARRAY, 4, 12, 3),
        (MapType::STACK_TRACE, 4, 8 * 16, 8),
        (MapType::LRU_HASH, 4, 8, 16),
        (MapType::LRU_PERCPU_HASH, 4, 8, 16),
        (MapType::LPM_TRIE, 8, 8, 16),
        (MapType::DEVMAP, 4, 4, 4),
        (MapType::DEVMAP_HASH, 4, 8, 4),
        (MapType::SOCKMAP, 4, 4, 4),
        (MapType::SOCKHASH, 4, 4, 4),
        (MapType::CPUMAP, 4, 4, 2),
        (MapType::QUEUE, 0, 4, 4),
        (MapType::STACK, 0, 4, 4),
        (MapType::SK_STORAGE, 4, 12, 0),
        (MapType::RINGBUF, 0, 0, 5000),
    ];
    for (kind, key, value, entries) in plain {
        create(&map_def("m", kind, key, value, entries)).dump().unwrap();
    }
    create(&of_maps(MapType::ARRAY_OF_MAPS));
    let outer = create(&of_maps(MapType::HASH_OF_MAPS));
    use std::os::fd::AsFd;
    outer.update_fd(&[1, 0, 0, 0], outer.inner().unwrap().as_fd()).unwrap();
}

#[test]
fn wrong_definitions_are_explained() {
    let Some(()) = permitted("wrong_definitions_are_explained") else { return };
    let error = Map::create(&map_def("odd", MapType::ARRAY, 8, 8, 1), MapOptions::default()).unwrap_err();
    assert!(error.to_string().contains("key size 8"), "{error}");
    let def = MapDef { initial: Some(vec![0; 9]), ..map_def("small", MapType::ARRAY, 4, 8, 1) };
    let error = Map::create(&def, MapOptions::default()).unwrap_err();
    assert!(error.to_string().contains("9 bytes of initial contents, 8 fit"), "{error}");
    let error = create(&map_def("m", MapType::HASH, 4, 4, 1)).update(&[0; 3], &[0; 4]).unwrap_err();
    assert!(error.to_string().contains("EINVAL"), "{error}");
}

#[test]
fn elements_come_and_go() {
    let Some(()) = permitted("elements_come_and_go") else { return };
    let cpus = possible_cpus().unwrap();
    for kind in [MapType::HASH, MapType::LRU_HASH, MapType::PERCPU_HASH, MapType::LPM_TRIE] {
        let map = create(&map_def("m", kind, 5, 8, 3000));
        let copies = if kind.is_per_cpu() { cpus } else { 1 };
        // Keys double as prefixes: 8 bits long, then the data.
        let key = |n: u32| [8, 0, 0, 0, n as u8];
        for n in (0..200u32).rev() {
            map.update(&key(n), &u64::from(n).to_ne_bytes().repeat(copies)).unwrap();
        }
        assert!(map.delete(&key(7)).unwrap());
        assert!(!map.delete(&key(7)).unwrap());
        assert_eq!(map.lookup(&key(7)).unwrap(), None);
        let full = map.dump().unwrap();
        assert_eq!(full.len(), 199, "{}", kind.name());
        let expected: Vec<_> = (0..200u32).filter(|n| *n != 7).map(|n| key(n).to_vec()).collect();
        assert_eq!(full.iter().map(|(k, _)| k).collect::<Vec<_>>(), expected);
        map.update(&key(7), &[1; 8].repeat(copies)).unwrap();
        map.delete(&key(8)).unwrap();
        map.update(&key(9), &[1; 8].repeat(copies)).unwrap();
        let changed = map.dump().unwrap();
        assert_eq!(full.differences(&changed, 99).len(), 3);
        map.restore(&full, Some(&changed)).unwrap();
        assert_eq!(map.dump().unwrap(), full, "{}", kind.name());
    }
}

#[test]
fn arrays_mapped_or_not() {
    let Some(()) = permitted("arrays_mapped_or_not") else { return };
    for (mapped, value_size) in [(false, 8), (false, 3), (true, 8), (true, 3)] {
        let def = map_def("m", MapType::ARRAY, 4, value_size, 700);
        let map = Map::create(&def, MapOptions { mapped, ..Default::default() }).unwrap();
        let empty = map.dump().unwrap();
        assert!(matches!(empty, Contents::Flat { stride: 8, .. }));
        map.update(&699u32.to_ne_bytes(), &vec![5; value_size as usize]).unwrap();
        let changed = map.dump().unwrap();
        let found = empty.differences(&changed, 9);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].key, 699u32.to_ne_bytes());
        map.restore(&empty, None).unwrap();
        assert_eq!(map.dump().unwrap(), empty);
    }
}

#[test]
fn per_cpu_arrays() {
    let Some(()) = permitted("per_cpu_arrays") else { return };
    let map = create(&map_def("m", MapType::PERCPU_ARRAY, 4, 4, 10));
    let value: Vec<u8> = (0..map.fd().value_bytes()).map(|i| if i % 8 < 4 { 1 } else { 0 }).collect();
    map.update(&3u32.to_ne_bytes(), &value).unwrap();
    let contents = map.dump().unwrap();
    assert_eq!(contents.value(3), value);
    assert!(contents.value(2).iter().all(|b| *b == 0));
}

#[test]
fn smaller_tables() {
    let Some(()) = permitted("smaller_tables") else { return };
    let defs = [map_def("h", MapType::HASH, 4, 4, 1 << 20), map_def("a", MapType::ARRAY, 4, 4, 5000)];
    let set = MapSet::create(&defs, &MapSetOptions { most_entries: Some(64), ..Default::default() }).unwrap();
    assert_eq!(set.maps()[0].fd().info().max_entries, 64);
    assert_eq!(set.maps()[1].fd().info().max_entries, 5000);
}

#[test]
fn one_value_is_for_all_cpus() {
    let Some(()) = permitted("one_value_is_for_all_cpus") else { return };
    for kind in [MapType::PERCPU_ARRAY, MapType::PERCPU_HASH] {
        let map = create(&map_def("m", kind, 4, 12, 3));
        let value: Vec<u8> = (1..=12).collect();
        map.update(&[1, 0, 0, 0], &value).unwrap();
        let all = map.lookup(&[1, 0, 0, 0]).unwrap().unwrap();
        let cpus = possible_cpus().unwrap();
        assert_eq!(all.len(), 16 * cpus);
        assert!(all.chunks(16).all(|one| one[..12] == value && one[12..] == [0; 4]), "{all:?}");
    }
}
