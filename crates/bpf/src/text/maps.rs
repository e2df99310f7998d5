//! `.maps`: one map a line.
//!
//! ```text
//! map0 { type = 1, key_size = 4, value_size = 8, max_entries = 16, fd = 4 }
//! ```
//!
//! The closing brace may be missing: a known set of such files was cut at 128 characters.

use super::{MAX_MAPS, TextError, asm};
use crate::map::{MapDef, MapType};

/// Reads map definitions. Blank lines and comments are allowed.
pub fn parse(source: &str) -> Result<Vec<MapDef>, TextError> {
    let mut maps: Vec<MapDef> = Vec::new();
    for (index, text) in source.lines().enumerate() {
        let text = text.trim();
        if asm::is_remark(text) {
            continue;
        }
        if maps.len() >= MAX_MAPS {
            return Err(TextError::at(index + 1, text, format!("more than {MAX_MAPS} maps")));
        }
        let map = line(text, index + 1)?;
        if maps.iter().any(|m| m.fd == map.fd) {
            return Err(TextError::at(index + 1, text, "a map of this file descriptor is there already"));
        }
        maps.push(map);
    }
    Ok(maps)
}

fn line(text: &str, line: usize) -> Result<MapDef, TextError> {
    let (name, fields) = text
        .split_once('{')
        .ok_or_else(|| TextError::at(line, text, "expected `name { type = .., key_size = .., .. }`"))?;
    let fields = fields.trim_end().trim_end_matches('}');
    let mut values: [Option<i64>; 5] = [None; 5];
    const KEYS: [&str; 5] = ["type", "key_size", "value_size", "max_entries", "fd"];
    for field in fields.split(',').map(str::trim).filter(|f| !f.is_empty()) {
        let wrong = |why: &str| TextError::at(line, field, why);
        let (key, value) = field.split_once('=').ok_or_else(|| wrong("expected `key = value`"))?;
        let place = KEYS.iter().position(|k| *k == key.trim());
        let place = place.ok_or_else(|| wrong("unknown; a map has type, key_size, value_size, max_entries, fd"))?;
        let value: i64 = value.trim().parse().map_err(|_| wrong("not a number"))?;
        let fits = if place == 4 { i32::try_from(value).is_ok() } else { u32::try_from(value).is_ok() };
        if !fits {
            return Err(wrong("the number is out of range"));
        }
        values[place] = Some(value);
    }
    let get =
        |n: usize| values[n].ok_or_else(|| TextError::at(line, name.trim(), format!("the map has no `{}`", KEYS[n])));
    Ok(MapDef {
        name: name.trim().to_string(),
        kind: MapType(get(0)? as u32),
        key_size: get(1)? as u32,
        value_size: get(2)? as u32,
        max_entries: get(3)? as u32,
        flags: 0,
        fd: Some(get(4)? as i32),
        initial: None,
        frozen: false,
        inner: None,
    })
}

/// Writes map definitions; what the format cannot say is an error.
pub fn print(maps: &[MapDef]) -> Result<String, TextError> {
    maps.iter()
        .map(|m| {
            let refuse = |why: &str| TextError { line: 0, token: m.name.clone(), reason: why.into() };
            let fd = m.fd.ok_or_else(|| refuse("this format names maps by file descriptor, and the map has none"))?;
            if m.flags != 0 || m.initial.is_some() || m.frozen || m.inner.is_some() {
                return Err(refuse("this format has no flags, contents or inner maps; use assembly"));
            }
            if m.name.contains(['{', '\n', '\r']) || m.name.trim() != m.name {
                return Err(refuse("this format cannot hold the map's name"));
            }
            let (kind, key, value) = (m.kind.0, m.key_size, m.value_size);
            let (name, entries) = (&m.name, m.max_entries);
            Ok(format!(
                "{name} {{ type = {kind}, key_size = {key}, value_size = {value}, max_entries = {entries}, fd = {fd} }}\n"
            ))
        })
        .collect()
}
