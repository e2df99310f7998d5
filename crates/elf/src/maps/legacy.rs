//! Maps declared as C structures: `struct bpf_map_def` of the kernel samples, of libbpf before 1.0
//! and of aya, and the longer `struct bpf_elf_map` of iproute2. All begin with the same five words.

use super::{MapOrigin, ObjectMap};
use crate::bytes::u32_at;
use crate::container::Container;
use crate::error::{ElfError, malformed};
use crate::symbol::{SymbolKind, Symbols};
use karakoram_bpf::map::{MapDef, MapType};

/// Type, key size, value size, number of elements, flags.
const COMMON_BYTES: u64 = 20;
/// iproute2 adds an id, pinning, and id and index of an inner map.
const IPROUTE2_BYTES: u64 = 36;

pub(super) fn collect(container: &Container, symbols: &Symbols) -> Result<Vec<ObjectMap>, ElfError> {
    let mut maps = Vec::new();
    for (number, section) in container.sections.iter().enumerate() {
        if section.name == "maps" || section.name.starts_with("maps/") {
            maps.extend(section_maps(number, &section.data, symbols)?);
        }
    }
    Ok(maps)
}

fn section_maps(section: usize, data: &[u8], symbols: &Symbols) -> Result<Vec<ObjectMap>, ElfError> {
    let mut named: Vec<(u64, &str)> = symbols
        .entries
        .iter()
        .filter(|s| s.section == Some(section) && matches!(s.kind, SymbolKind::Object | SymbolKind::Unspecified))
        // Labels without a name, and those of the compiler, name no map.
        .filter(|s| !s.name.is_empty() && !s.name.starts_with(".L"))
        .map(|s| (s.value, s.name.as_str()))
        .collect();
    named.sort();
    named.dedup_by_key(|(at, _)| *at);
    let ends = named.iter().skip(1).map(|(at, _)| *at).chain([data.len() as u64]);
    let mut maps = Vec::new();
    for (&(start, name), end) in named.iter().zip(ends) {
        if end > data.len() as u64 || end.saturating_sub(start) < COMMON_BYTES {
            return malformed(format!("the definition of map {name} is cut off"));
        }
        maps.push(map(section, name, start, &data[start as usize..end as usize]));
    }
    link_inner(&mut maps, data);
    Ok(maps)
}

fn map(section: usize, name: &str, start: u64, bytes: &[u8]) -> ObjectMap {
    let word = |n: usize| u32_at(bytes, 4 * n).unwrap_or(0);
    ObjectMap {
        def: MapDef {
            name: name.to_string(),
            kind: MapType(word(0)),
            key_size: word(1),
            value_size: word(2),
            max_entries: word(3),
            flags: word(4),
            fd: None,
            initial: None,
            frozen: false,
            inner: None,
        },
        origin: MapOrigin::Legacy,
        section,
        range: start..start + bytes.len() as u64,
        key_type: 0,
        value_type: 0,
        numa_node: None,
        extra: 0,
        is_pinned: bytes.len() as u64 >= IPROUTE2_BYTES && word(6) != 0,
    }
}

/// Finds the inner map of every map of maps: iproute2 names it by id, the kernel samples by index.
fn link_inner(maps: &mut [ObjectMap], data: &[u8]) {
    let word = |map: &ObjectMap, n: usize| u32_at(data, map.range.start as usize + 4 * n).unwrap_or(0);
    let long = |map: &ObjectMap| map.range.end - map.range.start >= IPROUTE2_BYTES;
    for i in 0..maps.len() {
        let map = &maps[i];
        if !matches!(map.def.kind, MapType::ARRAY_OF_MAPS | MapType::HASH_OF_MAPS) {
            continue;
        }
        let inner = match long(map) {
            true => maps.iter().find(|m| long(m) && word(m, 5) == word(map, 7)),
            false if map.range.end - map.range.start > COMMON_BYTES => maps.get(word(map, 5) as usize),
            false => None,
        };
        maps[i].def.inner = inner.map(|m| Box::new(m.def.clone()));
    }
}
