//! BTF, the kernel's type format (kernel `Documentation/bpf/btf.rst`): a bounds-checked view of the
//! bytes, small and fast enough for the running kernel's own BTF.

pub mod ext;
mod query;
mod types;

pub use types::{Array, Int, Kind, Linkage, Member, Parameter, Type, Variable, Variant};

use crate::bytes::{u16_at, u32_at};
use std::fmt;

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
/// The kernel's own limit on type ids.
const MAX_TYPES: usize = 0x100_0000;

/// What is wrong with BTF.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BtfError(pub(crate) String);

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "BTF: {}", self.0)
    }
}

impl std::error::Error for BtfError {}

pub(crate) fn bad<T>(what: impl Into<String>) -> Result<T, BtfError> {
    Err(BtfError(what.into()))
}

/// A set of types. Type 0 is `void`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Btf {
    types: Vec<u8>,
    /// Where in `types` each type begins, type 1 first.
    starts: Vec<u32>,
    strings: String,
}

impl Btf {
    /// Reads a `.BTF` section or `/sys/kernel/btf/vmlinux`.
    pub fn parse(bytes: &[u8]) -> Result<Btf, BtfError> {
        let (types, strings) = split(bytes)?;
        let Ok(strings) = String::from_utf8(strings.to_vec()) else {
            return bad("the strings are not UTF-8");
        };
        let framed = strings.starts_with('\0') && strings.ends_with('\0');
        if !framed && !strings.is_empty() {
            return bad("the strings do not begin and end with a zero byte");
        }
        let mut btf = Btf { types: types.to_vec(), starts: Vec::new(), strings };
        let mut at = 0;
        while at < types.len() {
            if btf.starts.len() >= MAX_TYPES {
                return bad("too many types");
            }
            btf.starts.push(at as u32);
            at = btf.check_type(at)?;
        }
        Ok(btf)
    }

    /// Checks the type at `at` and gives the end of it.
    fn check_type(&self, at: usize) -> Result<usize, BtfError> {
        let id = self.starts.len();
        let Some((name, info)) = u32_at(&self.types, at).zip(u32_at(&self.types, at + 4)) else {
            return bad(format!("type {id} is cut off"));
        };
        if self.string(name).is_none() {
            return bad(format!("type {id} has a name outside the strings"));
        }
        let Some(kind) = Kind::from_number(info >> 24 & 31) else {
            return bad(format!("type {id} is of unknown kind {}", info >> 24 & 31));
        };
        let end = at + types::HEAD_BYTES + kind.tail_bytes((info & 0xffff) as usize);
        if end > self.types.len() {
            return bad(format!("type {id} is cut off"));
        }
        Ok(end)
    }

    /// Number of types, `void` not counted: ids run from 1 to this.
    pub fn len(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Whether there are no types.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The string at an offset.
    pub fn string(&self, offset: u32) -> Option<&str> {
        if offset == 0 {
            return Some("");
        }
        let tail = self.strings.get(offset as usize..)?;
        Some(&tail[..tail.find('\0')?])
    }

    /// A type by id.
    pub fn get(&self, id: u32) -> Result<Type<'_>, BtfError> {
        if id == 0 {
            return Ok(Type::void(self));
        }
        let Some(&start) = self.starts.get(id as usize - 1) else {
            return bad(format!("type {id} does not exist"));
        };
        let end = self.starts.get(id as usize).map_or(self.types.len(), |e| *e as usize);
        match Type::parse(self, id, &self.types[start as usize..end]) {
            Some(ty) => Ok(ty),
            None => bad(format!("type {id} is cut off")),
        }
    }

    /// All types but `void`, by id.
    pub fn types(&self) -> impl Iterator<Item = Type<'_>> {
        (1..=self.len()).filter_map(|id| self.get(id).ok())
    }

    /// The types and strings as bytes, to be edited and joined again with [`join`].
    pub(crate) fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        (self.types.clone(), self.strings.clone().into_bytes())
    }

    /// Where in the bytes of all types a type begins.
    pub(crate) fn start(&self, id: u32) -> Option<usize> {
        self.starts.get((id as usize).checked_sub(1)?).map(|s| *s as usize)
    }
}

/// The bytes of the types and of the strings.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), BtfError> {
    let field = |at| u32_at(bytes, at).map(|v| v as usize);
    if u16_at(bytes, 0) != Some(MAGIC) {
        return bad("wrong magic number");
    }
    if bytes.get(2) != Some(&1) {
        return bad("unknown version");
    }
    let Some(header) = field(4).filter(|h| (HEADER_BYTES..=bytes.len()).contains(h)) else {
        return bad("the header is cut off");
    };
    let part = |offset, len| {
        let start = header.checked_add(field(offset)?)?;
        bytes.get(start..start.checked_add(field(len)?)?)
    };
    match (part(8, 12), part(16, 20)) {
        (Some(types), Some(strings)) => Ok((types, strings)),
        _ => bad("types or strings lie outside the section"),
    }
}

/// A `.BTF` section of these types and strings.
pub(crate) fn join(types: &[u8], strings: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + types.len() + strings.len());
    out.extend(MAGIC.to_le_bytes());
    out.extend([1, 0]);
    for field in [HEADER_BYTES, 0, types.len(), types.len(), strings.len()] {
        out.extend((field as u32).to_le_bytes());
    }
    out.extend(types);
    out.extend(strings);
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// `int`, then `struct s { int a; int b : 3; }` with the kind flag.
    pub(crate) fn sample() -> Vec<u8> {
        let strings = b"\0int\0s\0a\0b\0";
        let mut types = Vec::new();
        let words = [
            [1, 1 << 24, 4].as_slice(),
            &[0x0100_0020],
            &[5, 1 << 31 | 4 << 24 | 2, 8],
            &[7, 1, 0],
            &[9, 1, 3 << 24 | 32],
        ];
        for word in words.concat() {
            types.extend((word as u32).to_le_bytes());
        }
        join(&types, strings)
    }

    #[test]
    fn reads_a_struct_with_a_bit_field() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.len(), 2);
        let s = btf.get(2).unwrap();
        assert_eq!((s.name, s.kind, s.size()), ("s", Kind::Struct, Some(8)));
        let members: Vec<_> = s.members().map(|m| (m.name, m.ty, m.bit_offset, m.bit_size)).collect();
        assert_eq!(members, [("a", 1, 0, 0), ("b", 1, 32, 3)]);
        let (types, strings) = btf.parts();
        assert_eq!(join(&types, &strings), bytes);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert!(Btf::parse(&bytes[..end]).is_err(), "cut at {end}");
        }
    }
}
