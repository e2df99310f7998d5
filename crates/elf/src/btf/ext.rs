//! `.BTF.ext`: records that hang on instructions (function types, source lines, CO-RE relocations).

use super::{Btf, BtfError, bad};
use crate::bytes::{array, put, u16_at, u32_at};
use std::ops::Range;

const MAGIC: u16 = 0xeb9f;
/// Header up to the fields of the first two tables.
const SHORT_HEADER_BYTES: usize = 24;
/// Header with the fields of the third.
const LONG_HEADER_BYTES: usize = 32;
const MAX_RECORD_BYTES: usize = 4096;

/// Which of the three tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Type of each function (`struct bpf_func_info`).
    Functions,
    /// Source lines (`struct bpf_line_info`).
    Lines,
    /// CO-RE relocations (`struct bpf_core_relo`).
    Relocations,
}

impl Table {
    /// All tables, in the order of their header fields.
    pub const ALL: [Table; 3] = [Table::Functions, Table::Lines, Table::Relocations];

    fn header_field(self) -> usize {
        8 + 8 * self as usize
    }

    /// Smallest record the format allows.
    fn least_record_bytes(self) -> usize {
        match self {
            Table::Functions => 8,
            Table::Lines | Table::Relocations => 16,
        }
    }
}

/// One record, verbatim; the first four bytes are the instruction's offset in its section, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where in the section they lay.
    pub place: usize,
}

impl Record {
    /// Offset of the instruction in its section, in bytes.
    pub fn offset(&self) -> u32 {
        self.word(0)
    }

    /// The `n`th 32-bit field.
    pub fn word(&self, n: usize) -> u32 {
        u32_at(&self.bytes, 4 * n).unwrap_or(0)
    }

    /// The same record for another instruction.
    pub fn with_offset(&self, offset: u32) -> Record {
        let mut record = self.clone();
        put(&mut record.bytes, 0, &offset.to_le_bytes());
        record
    }
}

/// The records about one ELF section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Offset in the BTF strings of the section's name.
    pub section_name: u32,
    /// Records in file order.
    pub records: Vec<Record>,
}

/// One table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Records {
    /// Which.
    pub table: Table,
    /// Size of each record.
    pub record_bytes: usize,
    /// By section.
    pub blocks: Vec<Block>,
}

/// The whole section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BtfExt {
    header: Vec<u8>,
    /// Tables in file order; absent ones are left out.
    pub tables: Vec<Records>,
    /// Bytes after the tables, which gcc writes.
    rest: Vec<u8>,
}

impl BtfExt {
    /// Reads a `.BTF.ext` section.
    pub fn parse(bytes: &[u8]) -> Result<BtfExt, BtfError> {
        if u16_at(bytes, 0) != Some(MAGIC) || bytes.get(2) != Some(&1) {
            return bad("the extension has a wrong magic number or version");
        }
        let Some(header) = u32_at(bytes, 4).and_then(|len| bytes.get(..len as usize)) else {
            return bad("the header of the extension is cut off");
        };
        if header.len() < SHORT_HEADER_BYTES {
            return bad("the header of the extension is too short");
        }
        let mut placed: Vec<(Range<usize>, Table)> = Vec::new();
        for table in Table::ALL {
            let field = table.header_field();
            if header.len() < LONG_HEADER_BYTES && table == Table::Relocations {
                continue;
            }
            let Some((offset, len)) = u32_at(header, field).zip(u32_at(header, field + 4)) else { continue };
            if len > 0 {
                let start = header.len() + offset as usize;
                placed.push((start..start + len as usize, table));
            }
        }
        placed.sort_by_key(|(range, _)| range.start);
        let mut at = header.len();
        let mut tables = Vec::new();
        for (range, table) in placed {
            if range.start != at || range.end > bytes.len() {
                return bad("the tables of the extension overlap, leave holes, or lie outside it");
            }
            at = range.end;
            tables.push(Records::parse(table, bytes, range)?);
        }
        Ok(BtfExt { header: header.to_vec(), tables, rest: bytes[at..].to_vec() })
    }

    /// The section's bytes. `place` of a record need not be right.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.header.clone();
        for records in &self.tables {
            let start = out.len();
            // Loaders refuse tables, and blocks in them, that have no records.
            if !records.is_empty() {
                out.extend((records.record_bytes as u32).to_le_bytes());
            }
            for block in records.blocks.iter().filter(|b| !b.records.is_empty()) {
                out.extend(block.section_name.to_le_bytes());
                out.extend((block.records.len() as u32).to_le_bytes());
                out.extend(block.records.iter().flat_map(|r| &r.bytes));
            }
            let field = records.table.header_field();
            put(&mut out, field, &((start - self.header.len()) as u32).to_le_bytes());
            let len = (out.len() - start) as u32;
            put(&mut out, field + 4, &len.to_le_bytes());
        }
        self.keep_absent_inside(&mut out);
        out.extend(&self.rest);
        out
    }

    /// Tables that are not there have an offset too, often that of the end, and loaders check it (aya).
    fn keep_absent_inside(&self, out: &mut [u8]) {
        let end = (out.len() - self.header.len()) as u32;
        for table in Table::ALL.iter().filter(|t| self.tables.iter().all(|present| present.table != **t)) {
            let field = table.header_field();
            if let Some(offset) = u32_at(&self.header, field) {
                put(out, field, &offset.min(end).to_le_bytes());
            }
        }
    }

    /// Where each record begins in what [`BtfExt::to_bytes`] gives, with where it was read.
    pub(crate) fn places(&self) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        let mut at = self.header.len();
        for records in self.tables.iter().filter(|t| !t.is_empty()) {
            at += 4;
            for block in records.blocks.iter().filter(|b| !b.records.is_empty()) {
                at += 8;
                for record in &block.records {
                    places.push((record.place, at));
                    at += records.record_bytes;
                }
            }
        }
        places
    }

    /// Records of one table about the ELF section of that name.
    pub fn records<'a>(&'a self, table: Table, btf: &'a Btf, section: &'a str) -> impl Iterator<Item = &'a Record> {
        let tables = self.tables.iter().filter(move |t| t.table == table);
        let blocks = tables.flat_map(|t| &t.blocks).filter(|b| btf.string(b.section_name) == Some(section));
        blocks.flat_map(|b| &b.records)
    }

    /// Size of the records of one table.
    pub fn record_bytes(&self, table: Table) -> Option<usize> {
        self.tables.iter().find(|t| t.table == table).map(|t| t.record_bytes)
    }
}

impl Records {
    fn is_empty(&self) -> bool {
        self.blocks.iter().all(|b| b.records.is_empty())
    }

    fn parse(table: Table, bytes: &[u8], range: Range<usize>) -> Result<Records, BtfError> {
        let end = range.end;
        let word = |at: usize| array(&bytes[..end], at).map(u32::from_le_bytes);
        let mut at = range.start;
        let record_bytes = word(at).unwrap_or(0) as usize;
        if record_bytes < table.least_record_bytes() || record_bytes > MAX_RECORD_BYTES {
            return bad(format!("records of {record_bytes} bytes in the extension"));
        }
        at += 4;
        let mut blocks = Vec::new();
        while at < end {
            let Some((section_name, count)) = word(at).zip(word(at + 4)) else {
                return bad("a table of the extension is cut off");
            };
            at += 8;
            let len = count as usize * record_bytes;
            let Some(data) = bytes[..end].get(at..at.saturating_add(len)).filter(|_| count > 0) else {
                return bad("a table of the extension is cut off");
            };
            let record = |(n, c): (usize, &[u8])| Record { bytes: c.to_vec(), place: at + n * record_bytes };
            blocks.push(Block {
                section_name,
                records: data.chunks_exact(record_bytes).enumerate().map(record).collect(),
            });
            at += len;
        }
        Ok(Records { table, record_bytes, blocks })
    }
}
