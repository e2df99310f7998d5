//! Contents of maps, as experiments give them.

use crate::error::LabError;
use crate::object::Loaded;
use serde::Deserialize;

/// A value for a key, both as hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    map: String,
    key: String,
    value: String,
}

/// Puts them into the maps of an object.
pub fn apply(settings: &[Setting], loaded: &Loaded) -> Result<(), LabError> {
    for setting in settings {
        let (key, value) = (bytes(&setting.key)?, bytes(&setting.value)?);
        loaded.map(&setting.map)?.update(&key, &value).map_err(|e| LabError::Request(e.to_string()))?;
    }
    Ok(())
}

fn bytes(digits: &str) -> Result<Vec<u8>, LabError> {
    let clean: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let parsed: Option<Vec<u8>> = clean.chunks(2).map(pair).collect();
    parsed
        .filter(|_| clean.len().is_multiple_of(2))
        .ok_or_else(|| LabError::Request(format!("`{digits}` is not a row of bytes in hexadecimal digits")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_to_bytes() {
        assert_eq!(bytes("00 ff0a").unwrap(), [0, 255, 10]);
        assert!(bytes("0").is_err() && bytes("xy").is_err());
    }
}
