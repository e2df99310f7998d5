//! Global variables: every data section becomes an array map with one element.

use super::{MapOrigin, ObjectMap};
use crate::btf::{Btf, Kind};
use crate::container::{Container, Section, section_kind};
use crate::error::{ElfError, unsupported};
use karakoram_bpf::map::{MapDef, MapType};

/// `BPF_F_RDONLY_PROG`.
const READ_ONLY_FOR_PROGRAMS: u32 = 1 << 7;
/// `BPF_F_MMAPABLE`.
const MAPPABLE: u32 = 1 << 10;
/// All data sections of an object together.
const MAX_BYTES: u64 = 64 << 20;

pub(super) fn collect(container: &Container, btf: Option<&Btf>) -> Result<Vec<ObjectMap>, ElfError> {
    let mut maps = Vec::new();
    let mut total = 0u64;
    for (i, section) in container.sections.iter().enumerate() {
        let Some(flags) = flags(section) else { continue };
        total = total.saturating_add(section.size);
        if total > MAX_BYTES {
            return unsupported(format!("more than {MAX_BYTES} bytes of global data"));
        }
        maps.push(map(i, section, flags, btf));
    }
    Ok(maps)
}

/// Creation flags of the map that libbpf makes of a section; `None` when it makes none.
fn flags(section: &Section) -> Option<u32> {
    let is = |base: &str| section.name.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let stored = section.kind == section_kind::PROGBITS;
    if section.size == 0 {
        None
    } else if stored && is(".rodata") {
        Some(READ_ONLY_FOR_PROGRAMS)
    } else if (stored && is(".data")) || (section.kind == section_kind::NOBITS && is(".bss")) {
        Some(MAPPABLE)
    } else {
        None
    }
}

fn map(number: usize, section: &Section, flags: u32, btf: Option<&Btf>) -> ObjectMap {
    let initial = match section.kind {
        section_kind::NOBITS => vec![0; section.size as usize],
        _ => section.data.clone(),
    };
    ObjectMap {
        def: MapDef {
            name: section.name.clone(),
            kind: MapType::ARRAY,
            key_size: 4,
            value_size: section.size as u32,
            max_entries: 1,
            flags,
            fd: None,
            initial: Some(initial),
            frozen: flags & READ_ONLY_FOR_PROGRAMS != 0,
            inner: None,
        },
        origin: MapOrigin::Data,
        section: number,
        range: 0..section.size,
        key_type: 0,
        value_type: btf.and_then(|b| b.find(&section.name, Kind::DataSection)).map_or(0, |t| t.id),
        numa_node: None,
        extra: 0,
        is_pinned: false,
    }
}
