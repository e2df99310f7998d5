//! The symbol table.

use crate::bytes::{array, put, text_at, u16_at, u32_at, u64_at};
use crate::container::{Container, section_kind};
use crate::error::{ElfError, malformed, unsupported};

const ENTRY_BYTES: usize = 24;
const MAX_SYMBOLS: usize = 4_000_000;
/// Section numbers from here on mean something else than a section.
const FIRST_RESERVED_SECTION: u16 = 0xff00;

/// What a symbol names (`STT_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolKind {
    /// Not said: labels, extern symbols, and what old compilers emit.
    Unspecified,
    /// Data.
    Object,
    /// A function.
    Function,
    /// A whole section.
    Section,
    /// Anything else.
    Other,
}

/// An entry of the symbol table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Name; that of the section for section symbols.
    pub name: String,
    /// What it names.
    pub kind: SymbolKind,
    /// Whether other objects see it (`STB_GLOBAL` or `STB_WEAK`).
    pub is_global: bool,
    /// Whether it may stay undefined, or give way to another definition (`STB_WEAK`).
    pub is_weak: bool,
    /// Whether it is visible inside its object only (`STV_HIDDEN` or `STV_INTERNAL`).
    pub is_hidden: bool,
    /// Section that defines it; `None` when undefined, absolute or common.
    pub section: Option<usize>,
    /// Whether another object, or the kernel, must define it.
    pub is_undefined: bool,
    /// Offset in its section.
    pub value: u64,
    /// Size in bytes, 0 when unknown.
    pub size: u64,
}

/// All symbols, numbered as relocations number them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Symbols {
    /// Section number of the table; `None` in an object without symbols.
    pub section: Option<usize>,
    /// Entries, the null symbol first.
    pub entries: Vec<Symbol>,
}

impl Symbols {
    /// Reads the object's symbol table.
    pub fn parse(container: &Container) -> Result<Symbols, ElfError> {
        let mut tables = container.sections.iter().enumerate().filter(|(_, s)| s.kind == section_kind::SYMTAB);
        let Some((section, table)) = tables.next() else {
            return Ok(Symbols::default());
        };
        if tables.next().is_some() {
            return unsupported("more than one symbol table");
        }
        let Some(names) = container.sections.get(table.link as usize) else {
            return malformed("the table of symbol names does not exist");
        };
        if table.data.len() / ENTRY_BYTES > MAX_SYMBOLS {
            return unsupported(format!("more than {MAX_SYMBOLS} symbols"));
        }
        let mut entries = Vec::with_capacity(table.data.len() / ENTRY_BYTES);
        for (i, bytes) in table.data.chunks_exact(ENTRY_BYTES).enumerate() {
            match parse_entry(bytes, &names.data, container) {
                Some(symbol) => entries.push(symbol),
                None => return malformed(format!("symbol {i} has a bad name or section")),
            }
        }
        Ok(Symbols { section: Some(section), entries })
    }

    /// A symbol by number.
    pub fn get(&self, number: u32) -> Option<&Symbol> {
        self.entries.get(number as usize)
    }

    /// Symbols with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Symbol)> {
        self.entries.iter().enumerate().map(|(i, s)| (i as u32, s))
    }
}

fn parse_entry(bytes: &[u8], names: &[u8], container: &Container) -> Option<Symbol> {
    let [info, other] = array(bytes, 4)?;
    let number = u16_at(bytes, 6)?;
    let section = (number != 0 && number < FIRST_RESERVED_SECTION).then_some(number as usize);
    let kind = match info & 15 {
        0 => SymbolKind::Unspecified,
        1 => SymbolKind::Object,
        2 => SymbolKind::Function,
        3 => SymbolKind::Section,
        _ => SymbolKind::Other,
    };
    let mut name = match u32_at(bytes, 0)? {
        0 => "",
        at => text_at(names, at as usize)?,
    };
    if let Some(section) = section {
        let section = container.sections.get(section)?;
        if kind == SymbolKind::Section && name.is_empty() {
            name = &section.name;
        }
    }
    Some(Symbol {
        name: name.to_string(),
        kind,
        is_global: matches!(info >> 4, 1 | 2),
        is_weak: info >> 4 == 2,
        is_hidden: matches!(other & 3, 1 | 2),
        section,
        is_undefined: number == 0,
        value: u64_at(bytes, 8)?,
        size: u64_at(bytes, 16)?,
    })
}

/// Overwrites value and size of one entry of a symbol table.
pub(crate) fn write_place(table: &mut [u8], number: u32, value: u64, size: u64) {
    let at = number as usize * ENTRY_BYTES;
    put(table, at + 8, &value.to_le_bytes());
    put(table, at + 16, &size.to_le_bytes());
}

/// Makes one entry of a symbol table name a place and nothing more.
pub(crate) fn make_label(table: &mut [u8], number: u32) {
    if let Some(info) = table.get_mut(number as usize * ENTRY_BYTES + 4) {
        *info &= 0xf0;
    }
}
