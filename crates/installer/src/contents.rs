//! What is in an extension's maps of the kernel, for people to read.

use karakoram_kernel::map::Map;
use karakoram_translator::maps::KernelMap;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Entries that are shown of a map.
const MOST_SHOWN: usize = 64;

/// A map and its first entries.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MapContents {
    /// Name.
    pub name: String,
    /// `hash`, `array`, `lru_hash`.
    pub kind: String,
    /// Keys at most.
    pub capacity: u32,
    /// Keys and values, their bytes in hexadecimal digits. Of arrays those that are not zero.
    pub entries: Vec<(String, String)>,
    /// Whether there are more.
    pub has_more: bool,
}

/// Reads a map. Entries that come and go meanwhile may be missed.
pub(crate) fn read(map: &Map, declared: &KernelMap) -> MapContents {
    let mut entries = Vec::new();
    let mut has_more = false;
    let mut key: Option<Vec<u8>> = None;
    let is_array = map.def().kind == karakoram_bpf::map::MapType::ARRAY;
    // Keys that are taken out while we go through them lead back to the first one.
    for _ in 0..declared.entries {
        let mut next = vec![0; declared.key_bytes as usize];
        if map.fd().next_key(key.as_deref(), &mut next).is_err() {
            break;
        }
        let value = map.lookup(&next).ok().flatten();
        let value = value.filter(|v| !is_array || v.iter().any(|byte| *byte != 0));
        if let Some(value) = value {
            if entries.len() == MOST_SHOWN {
                has_more = true;
                break;
            }
            entries.push((digits(&next), digits(&value)));
        }
        key = Some(next);
    }
    let kind = map.def().kind.name();
    MapContents { name: declared.name.clone(), kind, capacity: declared.entries, entries, has_more }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
