//! Bytes as a person writes them down: `u32:5 be16:80 ipv4:10.0.0.1 zeros:4`.
//!
//! | word | bytes |
//! |---|---|
//! | `u8:N` `u16:N` `u32:N` `u64:N` | a number in the machine's (little-endian) order |
//! | `be16:N` `be32:N` `be64:N` | a number in the network's order |
//! | `ipv4:A` `ipv6:A` `mac:A` | an address |
//! | `hex:DIGITS` | those |
//! | `text:WORD` | its characters |
//! | `zeros:N` | N zeros |
//! | `@N` | what follows is at offset N |

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Largest offset and length.
const MOST_BYTES: usize = 1 << 20;

/// Bytes, each piece at its offset.
pub type Patches = Vec<(usize, Vec<u8>)>;

/// The pieces of such a text; without `@` one follows the other.
pub fn patches(text: &str) -> Result<Patches, String> {
    let mut out = Patches::new();
    let mut at = 0;
    for word in text.split_whitespace() {
        if let Some(offset) = word.strip_prefix('@') {
            at = limited(word, number(offset)?)?;
            continue;
        }
        let bytes = bytes_of(word)?;
        let length = bytes.len();
        out.push((at, bytes));
        at = limited(word, (at + length) as u64)?;
    }
    Ok(out)
}

/// The bytes of such a text, zeros where it says nothing.
pub fn parse(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    apply(&patches(text)?, &mut out);
    Ok(out)
}

/// Writes pieces over bytes, which grow where they are too short.
pub fn apply(patches: &Patches, to: &mut Vec<u8>) {
    for (at, bytes) in patches {
        let end = at + bytes.len();
        to.resize(to.len().max(end), 0);
        to[*at..end].copy_from_slice(bytes);
    }
}

fn limited(word: &str, length: u64) -> Result<usize, String> {
    usize::try_from(length).ok().filter(|n| *n <= MOST_BYTES).ok_or_else(|| format!("`{word}`: too long"))
}

fn bytes_of(word: &str) -> Result<Vec<u8>, String> {
    let (kind, value) = word.split_once(':').ok_or_else(|| format!("`{word}`: expected KIND:VALUE, as in u32:5"))?;
    let wrong = |e: String| format!("`{word}`: {e}");
    let integer = |bytes: usize| {
        let n = number(value)?;
        if bytes < 8 && n >> (bytes * 8) != 0 { Err("the number does not fit".to_string()) } else { Ok(n) }
    };
    let little = |bytes: usize| integer(bytes).map(|n| n.to_le_bytes()[..bytes].to_vec());
    let big = |bytes: usize| integer(bytes).map(|n| n.to_be_bytes()[8 - bytes..].to_vec());
    match kind {
        "u8" => little(1),
        "u16" => little(2),
        "u32" => little(4),
        "u64" => little(8),
        "be16" => big(2),
        "be32" => big(4),
        "be64" => big(8),
        "ipv4" => address::<Ipv4Addr>(value).map(|a| a.octets().to_vec()),
        "ipv6" => address::<Ipv6Addr>(value).map(|a| a.octets().to_vec()),
        "mac" => mac(value).map(|m| m.to_vec()),
        "hex" => hex(value),
        "text" => Ok(value.as_bytes().to_vec()),
        "zeros" => number(value).and_then(|n| limited(word, n)).map(|n| vec![0; n]),
        _ => Err("unknown kind of value".to_string()),
    }
    .map_err(wrong)
}

/// A number, decimal or `0x` hexadecimal.
pub fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x");
    digits.map_or_else(|| text.parse(), |d| u64::from_str_radix(d, 16)).map_err(|_| format!("`{text}` is not a number"))
}

/// An IP address.
pub fn address<A: FromStr>(text: &str) -> Result<A, String> {
    text.parse().map_err(|_| format!("`{text}` is not such an address"))
}

/// Six bytes with colons between them.
pub fn mac(text: &str) -> Result<[u8; 6], String> {
    let parts: Option<Vec<u8>> = text.split(':').map(|p| u8::from_str_radix(p, 16).ok()).collect();
    parts.and_then(|p| p.try_into().ok()).ok_or_else(|| format!("`{text}` is not a MAC address"))
}

/// Bytes from hexadecimal text; white space and colons only separate.
pub fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    let byte = |pair: &[char]| Some((pair[0].to_digit(16)? << 4 | pair.get(1)?.to_digit(16)?) as u8);
    digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(|| "not hexadecimal bytes".to_string())
}

/// Bytes as hexadecimal text.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_bytes() {
        assert_eq!(parse("u16:258 be16:258 u8:0xff").unwrap(), [2, 1, 1, 2, 255]);
        assert_eq!(parse("ipv4:10.0.0.1 mac:02:00:00:00:00:ff text:ab").unwrap(), *b"\x0a\0\0\x01\x02\0\0\0\0\xffab");
        assert_eq!(parse("@2 hex:0a0b").unwrap(), [0, 0, 10, 11]);
        assert_eq!(parse("ipv6:::1 zeros:2").unwrap().len(), 18);
    }

    #[test]
    fn what_is_no_bytes_is_refused() {
        for text in ["5", "u8:256", "u32:x", "ipv4:1.2.3", "hex:0", "mac:1:2", "zeros:9999999999", "@5000000", "y:1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn patches_leave_the_rest_alone() {
        let mut bytes = vec![1; 4];
        apply(&patches("@1 u8:9 @5 u8:8").unwrap(), &mut bytes);
        assert_eq!(bytes, [1, 9, 1, 1, 0, 8]);
    }
}
