//! The maps to create for a program.

use super::externs::{Externs, Resolution};
use super::flatten::nodes;
use super::image::LoadMap;
use crate::btf::Kind;
use crate::object::Object;
use karakoram_bpf::insn::{FuncId, Imm64, Insn, MapRef};
use karakoram_bpf::map::{MapDef, MapType};

/// `BPF_F_RDONLY_PROG`.
const READ_ONLY_FOR_PROGRAMS: u32 = 1 << 7;

/// The maps that the functions use, and the one of configuration variables if they use any.
pub(super) fn used(object: &Object, functions: &[FuncId], externs: &Externs) -> Vec<LoadMap> {
    let mut used = vec![false; object.maps.len()];
    let mut config = false;
    for node in nodes(object, functions) {
        let Insn::LoadImm { value, .. } = node.insn else { continue };
        match value {
            Imm64::Map(MapRef::Index(map)) | Imm64::MapValue(MapRef::Index(map), _) => {
                if let Some(used) = used.get_mut(map as usize) {
                    *used = true;
                }
            }
            Imm64::Extern(n) => config |= matches!(externs.get(n), Some(Resolution::Config(_))),
            _ => {}
        }
    }
    let mut maps: Vec<LoadMap> = Vec::new();
    for (i, map) in object.maps.iter().enumerate().filter(|(i, _)| used[*i]) {
        let typed = may_have_types(map.def.kind);
        maps.push(LoadMap {
            def: map.def.clone(),
            object_map: Some(i),
            key_type: if typed { map.key_type } else { 0 },
            value_type: if typed { map.value_type } else { 0 },
            extra: map.extra,
            numa_node: map.numa_node,
        });
    }
    if config {
        maps.push(config_map(object, externs));
    }
    maps
}

/// Kinds of maps that the kernel creates only without types.
fn may_have_types(kind: MapType) -> bool {
    !matches!(
        kind,
        MapType::PROG_ARRAY
            | MapType::PERF_EVENT_ARRAY
            | MapType::CGROUP_ARRAY
            | MapType::STACK_TRACE
            | MapType::ARRAY_OF_MAPS
            | MapType::HASH_OF_MAPS
            | MapType::DEVMAP
            | MapType::DEVMAP_HASH
            | MapType::CPUMAP
            | MapType::XSKMAP
            | MapType::SOCKMAP
            | MapType::SOCKHASH
            | MapType::QUEUE
            | MapType::STACK
            | MapType::RINGBUF
    )
}

fn config_map(object: &Object, externs: &Externs) -> LoadMap {
    let section = object.btf.as_ref().and_then(|b| b.find(".kconfig", Kind::DataSection)).map_or(0, |t| t.id);
    LoadMap {
        def: MapDef {
            name: ".kconfig".into(),
            kind: MapType::ARRAY,
            key_size: 4,
            value_size: externs.config().len() as u32,
            max_entries: 1,
            flags: READ_ONLY_FOR_PROGRAMS,
            fd: None,
            initial: Some(externs.config().to_vec()),
            frozen: true,
            inner: None,
        },
        object_map: None,
        key_type: 0,
        value_type: section,
        extra: 0,
        numa_node: None,
    }
}
