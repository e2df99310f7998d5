//! Function and line records of the flat program.

use super::image::SourceLine;
use crate::btf::Btf;
use crate::btf::ext::{BtfExt, Record, Table};
use crate::code::SLOT_BYTES;
use crate::object::Object;
use karakoram_bpf::insn::FuncId;

/// Records as the kernel takes them.
#[derive(Default)]
pub(super) struct Records {
    pub functions: Vec<u8>,
    pub function_bytes: u32,
    pub lines: Vec<u8>,
    pub line_bytes: u32,
    pub source: Vec<SourceLine>,
}

/// The records of some functions, placed at those slots. The kernel takes function records only for
/// all functions, line records only with function records and when every function begins with one.
pub(super) fn collect(object: &Object, functions: &[(FuncId, usize)]) -> Records {
    let (Some(btf), Some(ext)) = (&object.btf, &object.ext) else { return Records::default() };
    let mut out = Records::default();
    let (mut all_functions, mut all_lines) = (true, true);
    for &(id, start) in functions {
        let found = placed(object, btf, ext, Table::Functions, id, start);
        all_functions &= found.first().is_some_and(|r| r.offset() as usize == start);
        out.functions.extend(found.iter().take(1).flat_map(|r| &r.bytes));
        let lines = placed(object, btf, ext, Table::Lines, id, start);
        all_lines &= lines.first().is_some_and(|r| r.offset() as usize == start);
        out.lines.extend(lines.iter().flat_map(|r| &r.bytes));
        out.source.extend(lines.iter().map(|r| source_line(btf, r)));
    }
    if !all_functions {
        out.functions.clear();
    }
    if !all_functions || !all_lines {
        out.lines.clear();
    }
    let bytes = |table| ext.record_bytes(table).unwrap_or(0) as u32;
    out.function_bytes = if out.functions.is_empty() { 0 } else { bytes(Table::Functions) };
    out.line_bytes = if out.lines.is_empty() { 0 } else { bytes(Table::Lines) };
    out
}

/// The records of one table inside a function, with offsets in slots of the flat program, in strictly
/// ascending order.
fn placed(object: &Object, btf: &Btf, ext: &BtfExt, table: Table, id: FuncId, start: usize) -> Vec<Record> {
    let origin = &object.origins[id.0 as usize];
    let section = &object.container.sections[origin.section].name;
    let mut found: Vec<Record> = ext
        .records(table, btf, section)
        .filter(|r| origin.range.contains(&(r.offset() as u64)))
        .map(|r| {
            let slot = (r.offset() as u64 - origin.range.start) / SLOT_BYTES;
            r.with_offset((start as u64 + slot) as u32)
        })
        .collect();
    found.sort_by_key(Record::offset);
    found.dedup_by_key(|r| r.offset());
    found
}

/// `struct bpf_line_info`: instruction, file name, text, line and column in one word.
fn source_line(btf: &Btf, record: &Record) -> SourceLine {
    let text = |n| btf.string(record.word(n)).unwrap_or("").to_string();
    let place = record.word(3);
    SourceLine {
        slot: record.offset() as usize,
        file: text(1),
        text: text(2).trim().to_string(),
        line: place >> 10,
        column: place & 0x3ff,
    }
}
