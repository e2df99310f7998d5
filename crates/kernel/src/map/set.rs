//! All maps of a program together.

use super::{Contents, Map, MapOptions};
use crate::btf::Btf;
use crate::error::KernelError;
use karakoram_bpf::map::{MapDef, MapType};

/// What the object says of a map besides its definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapDetails {
    /// Type numbers of key and value in the object's BTF, 0 for none.
    pub types: (u32, u32),
    /// `map_extra`: hash functions of a bloom filter, address of an arena.
    pub extra: u64,
    /// NUMA node its memory shall be on.
    pub numa_node: Option<u32>,
}

/// How to create the maps of a program.
#[derive(Clone, Copy, Default)]
pub struct MapSetOptions<'a> {
    /// Type information of the object.
    pub btf: Option<&'a Btf>,
    /// What the definitions do not say, in their order. May be shorter than the list of maps.
    pub details: &'a [MapDetails],
    /// Map the memory of arrays into this process, for fast comparison.
    pub mapped: bool,
    /// Create hash tables (not arrays) with at most that many entries. Programs behave the same but
    /// for tables running full earlier; a dump of a table looks at every bucket, used or not.
    pub most_entries: Option<u32>,
}

/// Maps of one program, in the order of their definitions. Load two programs with the same set to
/// let them share it, or create it twice.
#[derive(Debug, Default)]
pub struct MapSet {
    maps: Vec<Map>,
}

fn is_table(kind: MapType) -> bool {
    [
        MapType::HASH,
        MapType::PERCPU_HASH,
        MapType::LRU_HASH,
        MapType::LRU_PERCPU_HASH,
        MapType::LPM_TRIE,
        MapType::HASH_OF_MAPS,
    ]
    .contains(&kind)
}

impl MapSet {
    /// Creates them all; on an error none is left.
    pub fn create(defs: &[MapDef], options: &MapSetOptions) -> Result<MapSet, KernelError> {
        let create = |(i, def): (usize, &MapDef)| {
            let details = options.details.get(i).copied().unwrap_or_default();
            let (key, value) = details.types;
            let single = MapOptions {
                types: options.btf.filter(|_| (key, value) != (0, 0)).map(|btf| (btf, key, value)),
                extra: details.extra,
                numa_node: details.numa_node,
                mapped: options.mapped,
                ..Default::default()
            };
            match options.most_entries {
                Some(most) if is_table(def.kind) && def.max_entries > most => {
                    Map::create(&MapDef { max_entries: most, ..def.clone() }, single)
                }
                _ => Map::create(def, single),
            }
        };
        Ok(MapSet { maps: defs.iter().enumerate().map(create).collect::<Result<_, _>>()? })
    }

    /// The maps.
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    /// The first map of that name.
    pub fn named(&self, name: &str) -> Option<&Map> {
        self.maps.iter().find(|m| m.def().name == name)
    }

    /// Contents of all, in order.
    pub fn dump(&self) -> Result<Vec<Contents>, KernelError> {
        self.maps.iter().map(Map::dump).collect()
    }

    /// Makes the contents those of a dump of this set or of one like it.
    pub fn restore(&self, contents: &[Contents]) -> Result<(), KernelError> {
        self.maps.iter().zip(contents).try_for_each(|(map, target)| map.restore(target, None))
    }
}
