//! Maps of the kernel that a module declares: statics exported as `kara_map_NAME`, which say what they want.

use crate::error::{TranslateError, unsupported};
use crate::module::Module;
use serde::{Deserialize, Serialize};

/// What a static's export begins with.
pub const EXPORT: &str = "kara_map_";
/// Bytes on the kernel's stack that a key and a value may take together.
const MOST_BYTES: u32 = 320;

/// A map.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelMap {
    /// Name.
    pub name: String,
    /// Where its static is, by which calls name it.
    pub address: u32,
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Keys at most.
    pub entries: u32,
}

/// All that a module declares, in the order of their names.
pub(crate) fn declared(module: &Module) -> Result<Vec<KernelMap>, TranslateError> {
    let exports = module.exported_globals.iter();
    let exports = exports.filter_map(|(export, global)| Some((export.strip_prefix(EXPORT)?, *global)));
    exports.map(|(name, global)| declaration(module, name, module.globals[global as usize].value as u32)).collect()
}

fn declaration(module: &Module, name: &str, address: u32) -> Result<KernelMap, TranslateError> {
    // Programs, functions of the runtime and the arena have names in small letters.
    if name.contains(|c: char| c.is_ascii_lowercase()) {
        return unsupported(format!("a map named {name}: names of maps are in capitals"));
    }
    let number = |n: u32| word(module, address.checked_add(4 * n)?);
    let [Some(kind), Some(key_bytes), Some(value_bytes), Some(entries)] = [0, 1, 2, 3].map(number) else {
        return unsupported(format!("a map {name} that is not declared with kernel_map!"));
    };
    if key_bytes == 0 || value_bytes == 0 || key_bytes.saturating_add(value_bytes) > MOST_BYTES {
        return unsupported(format!("a map {name} with keys of {key_bytes} and values of {value_bytes} bytes"));
    }
    Ok(KernelMap { name: name.to_string(), address, kind, key_bytes, value_bytes, entries })
}

/// A number in the module's memory as it is at first.
fn word(module: &Module, address: u32) -> Option<u32> {
    let (start, bytes) =
        module.data.iter().find(|(start, bytes)| (*start..*start + bytes.len() as u32).contains(&address))?;
    let at = (address - start) as usize;
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
