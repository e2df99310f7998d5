//! Maps declared in BTF: a variable in `.maps` whose structure type says everything
//! (libbpf `bpf_helpers.h`: `__uint` is a pointer to an array of that many, `__type` a pointer to the
//! type, `__ulong` an enumeration of one value, `__array` an array of pointers).

use super::{MapOrigin, ObjectMap};
use crate::btf::{Btf, BtfError, Kind, Type};
use crate::bytes::u32_at;
use crate::error::{ElfError, malformed};
use crate::symbol::{SymbolKind, Symbols};
use karakoram_bpf::map::{MapDef, MapType};

/// The maps of a `.maps` section. One whose declaration is not understood is left out: no program
/// that uses it is understood either.
pub(super) fn collect(section: usize, data: &[u8], symbols: &Symbols, btf: &Btf) -> Result<Vec<ObjectMap>, ElfError> {
    let Some(variables) = btf.find(".maps", Kind::DataSection) else {
        return Ok(Vec::new());
    };
    let mut maps = Vec::new();
    for variable in variables.variables() {
        let ty = btf.get(variable.ty)?;
        let Some(inner) = ty.inner().filter(|_| ty.kind == Kind::Variable) else {
            return malformed("something in .maps is no variable");
        };
        // Before linking BTF does not know where a variable lies; its symbol does.
        let symbol = symbols
            .entries
            .iter()
            .find(|s| s.section == Some(section) && s.name == ty.name && s.kind != SymbolKind::Section);
        let start = symbol.map_or(variable.offset as u64, |s| s.value);
        let mut map = ObjectMap {
            def: empty(ty.name),
            origin: MapOrigin::Declared,
            section,
            range: start..start.saturating_add(variable.size.max(1) as u64),
            key_type: 0,
            value_type: 0,
            numa_node: None,
            extra: 0,
            is_pinned: false,
        };
        let contents = data.get(start as usize..).unwrap_or(&[]);
        if read(&mut map, contents, btf, btf.resolve(inner)?, true).is_ok() {
            maps.push(map);
        }
    }
    maps.sort_by_key(|m| m.range.start);
    Ok(maps)
}

fn empty(name: &str) -> MapDef {
    MapDef {
        name: name.to_string(),
        kind: MapType(0),
        key_size: 0,
        value_size: 0,
        max_entries: 0,
        flags: 0,
        fd: None,
        initial: None,
        frozen: false,
        inner: None,
    }
}

/// Fills in what the structure type says. Unknown members are left alone, as they change nothing for programs.
fn read(map: &mut ObjectMap, contents: &[u8], btf: &Btf, ty: Type, outer: bool) -> Result<(), ElfError> {
    if ty.kind != Kind::Struct {
        return malformed(format!("map {} is not declared as a structure", map.def.name));
    }
    for member in ty.members() {
        let number = || number(btf, member.ty, contents.get(member.bit_offset as usize / 8..).unwrap_or(&[]));
        match member.name {
            "type" => map.def.kind = MapType(number()? as u32),
            "max_entries" => map.def.max_entries = number()? as u32,
            "map_flags" => map.def.flags = number()? as u32,
            "numa_node" => map.numa_node = Some(number()? as u32),
            "map_extra" => map.extra = number()?,
            "pinning" => map.is_pinned = number()? != 0,
            "key_size" => map.def.key_size = number()? as u32,
            "value_size" => map.def.value_size = number()? as u32,
            "key" => (map.key_type, map.def.key_size) = pointee(btf, member.ty)?,
            "value" => (map.value_type, map.def.value_size) = pointee(btf, member.ty)?,
            "values" if outer => {
                map.def.key_size = map.def.key_size.max(4);
                map.def.value_size = 4;
                map.def.inner = inner(map, btf, member.ty)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A number in a declaration. The first compilers with BTF initialized plain integers instead.
fn number(btf: &Btf, ty: u32, contents: &[u8]) -> Result<u64, BtfError> {
    let ty = btf.resolve(ty)?;
    if let (Kind::Int, Some(value)) = (ty.kind, u32_at(contents, 0)) {
        return Ok(value as u64);
    }
    if let Some(variant) = ty.variants().next() {
        return Ok(variant.value);
    }
    match ty.inner().map(|inner| btf.resolve(inner)).transpose()?.and_then(|t| t.array()) {
        Some(array) => Ok(array.count as u64),
        None => Err(BtfError("a number in a map declaration has an unknown form".into())),
    }
}

/// Type and size of what a member points to.
fn pointee(btf: &Btf, ty: u32) -> Result<(u32, u32), BtfError> {
    match btf.resolve(ty)?.inner() {
        Some(inner) => Ok((inner, btf.size_of(inner)?)),
        None => Err(BtfError("a type in a map declaration is no pointer".into())),
    }
}

/// The declaration of the maps inside, from `values`: an array of pointers to it, or to a function
/// for arrays of programs.
fn inner(map: &ObjectMap, btf: &Btf, ty: u32) -> Result<Option<Box<MapDef>>, ElfError> {
    let element = btf.resolve(ty)?.array().map_or(0, |a| a.element);
    let Some(target) = btf.resolve(element)?.inner() else {
        return malformed(format!("the values of map {} are no pointers", map.def.name));
    };
    let target = btf.resolve(target)?;
    if target.kind != Kind::Struct {
        return Ok(None);
    }
    let mut found = map.clone();
    found.def = empty(&format!("{}.inner", map.def.name));
    read(&mut found, &[], btf, target, false)?;
    Ok(Some(Box::new(found.def)))
}
