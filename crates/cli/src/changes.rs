//! What runs did to maps.

use crate::bytes::to_hex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Contents of maps under their names.
pub type Dump = Vec<(String, Vec<(Vec<u8>, Vec<u8>)>)>;

/// An element of a map that is not as before.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    map: String,
    key: String,
    before: Option<String>,
    after: Option<String>,
}

/// Elements that differ, by map and key; both dumps are of the same maps.
pub fn between(before: &Dump, after: &Dump) -> Vec<Change> {
    let mut out = Vec::new();
    for ((map, old), (_, new)) in before.iter().zip(after) {
        let keys: BTreeSet<&Vec<u8>> = old.iter().chain(new).map(|(k, _)| k).collect();
        let old: BTreeMap<_, _> = old.iter().map(|(k, v)| (k, v)).collect();
        let new: BTreeMap<_, _> = new.iter().map(|(k, v)| (k, v)).collect();
        for key in keys.into_iter().filter(|k| old.get(k) != new.get(k)) {
            let value = |side: Option<&&Vec<u8>>| side.map(|v| to_hex(v));
            let (before, after) = (value(old.get(key)), value(new.get(key)));
            out.push(Change { map: map.clone(), key: to_hex(key), before, after });
        }
    }
    out
}

impl Change {
    /// One line.
    pub fn to_text(&self) -> String {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_string());
        let (before, after) = (side(&self.before), side(&self.after));
        format!("map {}, key {}: {before} -> {after}\n", self.map, self.key)
    }
}
