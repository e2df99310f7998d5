//! Relocation entries: which symbol an instruction or a datum refers to.

use crate::bytes::{u32_at, u64_at};
use crate::container::{Container, section_kind};
use crate::error::{ElfError, malformed, unsupported};
use crate::symbol::Symbols;
use std::collections::BTreeMap;

const ENTRY_BYTES: usize = 16;

/// `R_BPF_*` numbers (LLVM `llvm/BinaryFormat/ELFRelocs/BPF.def`).
pub mod kind {
    /// Both constants of a two-slot load; in data of old compilers, eight bytes.
    pub const IMM64: u32 = 1;
    /// Eight bytes of data.
    pub const ABS64: u32 = 2;
    /// Four bytes of data.
    pub const ABS32: u32 = 3;
    /// Four bytes of data that a loader of code need not look at (BTF).
    pub const NODYLD32: u32 = 4;
    /// The constant of a call; in data of old compilers, four bytes.
    pub const CALL: u32 = 10;
    /// Four bytes of data, in objects of binutils before 2.42.
    pub const GNU_DATA32: u32 = 11;
    /// Eight bytes of data, in objects of binutils before 2.42.
    pub const GNU_DATA64: u32 = 12;
}

/// One entry. The addend is in the relocated bytes themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Place, in bytes from the start of the relocated section.
    pub offset: u64,
    /// Number of the symbol.
    pub symbol: u32,
    /// One of [`kind`].
    pub kind: u32,
}

impl Relocation {
    /// Bytes that it covers when it lies in data.
    pub fn data_width(&self) -> Option<usize> {
        match self.kind {
            kind::IMM64 | kind::ABS64 | kind::GNU_DATA64 => Some(8),
            kind::ABS32 | kind::NODYLD32 | kind::CALL | kind::GNU_DATA32 => Some(4),
            _ => None,
        }
    }
}

/// The relocations of one section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelocationTable {
    /// Section that holds the entries.
    pub section: usize,
    /// Entries in file order.
    pub entries: Vec<Relocation>,
}

/// Reads all relocation sections, by the section they relocate.
pub fn parse(container: &Container, symbols: &Symbols) -> Result<BTreeMap<usize, RelocationTable>, ElfError> {
    let mut tables = BTreeMap::new();
    for (section, header) in container.sections.iter().enumerate() {
        match header.kind {
            section_kind::REL => {}
            section_kind::RELA => return unsupported(format!("{}: relocations with explicit addends", header.name)),
            _ => continue,
        }
        let target = header.info as usize;
        if target == 0 || target >= container.sections.len() {
            return malformed(format!("{} relocates no section", header.name));
        }
        let entries = header.data.chunks_exact(ENTRY_BYTES).map(parse_entry).collect::<Vec<_>>();
        if let Some(bad) = entries.iter().find(|r| symbols.get(r.symbol).is_none()) {
            return malformed(format!("{} names symbol {}, which does not exist", header.name, bad.symbol));
        }
        if tables.insert(target, RelocationTable { section, entries }).is_some() {
            return unsupported(format!("{} is a second relocation table of its section", header.name));
        }
    }
    Ok(tables)
}

fn parse_entry(bytes: &[u8]) -> Relocation {
    // A chunk is 16 bytes long, so that nothing is missing.
    Relocation {
        offset: u64_at(bytes, 0).unwrap_or_default(),
        kind: u32_at(bytes, 8).unwrap_or_default(),
        symbol: u32_at(bytes, 12).unwrap_or_default(),
    }
}

/// The bytes of a table.
pub(crate) fn to_bytes(entries: &[Relocation]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * ENTRY_BYTES);
    for entry in entries {
        out.extend(entry.offset.to_le_bytes());
        out.extend(entry.kind.to_le_bytes());
        out.extend(entry.symbol.to_le_bytes());
    }
    out
}
