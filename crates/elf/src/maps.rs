//! The maps of an object: declared in BTF (`.maps`), declared as structures (`maps`), and the ones
//! that loaders make of data sections.

mod data;
mod declared;
mod legacy;

use crate::btf::Btf;
use crate::container::Container;
use crate::error::{ElfError, unsupported};
use crate::symbol::Symbols;
use karakoram_bpf::map::MapDef;
use std::ops::Range;

/// More maps than any loader would create.
const MAX_MAPS: usize = 4096;

/// How an object defines a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapOrigin {
    /// A variable in `.maps`, described by its BTF type.
    Declared,
    /// A `struct bpf_map_def` (or iproute2's `bpf_elf_map`) in a `maps` section.
    Legacy,
    /// A data section.
    Data,
}

/// A map, and where in the object it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectMap {
    /// What programs see of it.
    pub def: MapDef,
    /// How it is defined.
    pub origin: MapOrigin,
    /// Section that defines it.
    pub section: usize,
    /// Bytes of that section.
    pub range: Range<u64>,
    /// BTF type of the keys, 0 when unknown.
    pub key_type: u32,
    /// BTF type of the values, 0 when unknown.
    pub value_type: u32,
    /// NUMA node it asks for.
    pub numa_node: Option<u32>,
    /// `map_extra` of map creation.
    pub extra: u64,
    /// Whether loaders pin it under its name.
    pub is_pinned: bool,
}

/// All maps of an object: declared ones first, then legacy ones, then data sections.
pub(crate) fn collect(container: &Container, symbols: &Symbols, btf: Option<&Btf>) -> Result<Vec<ObjectMap>, ElfError> {
    let mut maps = Vec::new();
    if let (Some(section), Some(btf)) = (container.find(".maps"), btf) {
        maps.extend(declared::collect(section, &container.sections[section].data, symbols, btf)?);
    }
    maps.extend(legacy::collect(container, symbols)?);
    maps.extend(data::collect(container, btf)?);
    if maps.len() > MAX_MAPS {
        return unsupported(format!("{} maps, more than {MAX_MAPS}", maps.len()));
    }
    Ok(maps)
}
