//! `.BTF.ext` of an edited program.

use super::layout::{Layout, Piece};
use super::lines;
use crate::btf::ext::{Block, BtfExt, Record, Table};
use crate::code::SLOT_BYTES;
use crate::container::Container;
use crate::error::{ElfError, unwritable};
use crate::object::Object;
use crate::relocation::{self, Relocation};
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::{Node, Patch, Program};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn write(
    object: &Object,
    program: &Program,
    layout: &Layout,
    container: &mut Container,
) -> Result<(), ElfError> {
    let (Some(btf), Some(ext), Some(section)) = (&object.btf, &object.ext, object.container.find(".BTF.ext")) else {
        return check_patched(object, program, &BTreeSet::new());
    };
    let mut edited = ext.clone();
    let mut patched = BTreeSet::new();
    add_blocks(&mut edited);
    for records in &mut edited.tables {
        for block in &mut records.blocks {
            let Some(code) = code_section(object, btf.string(block.section_name).unwrap_or(""))? else { continue };
            let mover = Mover { object, program, layout, section: code };
            mover.block(records.table, block, &mut patched)?;
        }
    }
    check_patched(object, program, &patched)?;
    container.sections[section].set_data(edited.to_bytes());
    if let Some(table) = object.relocations.get(&section) {
        let entries = moved_relocations(&table.entries, &edited);
        container.sections[table.section].set_data(relocation::to_bytes(&entries));
    }
    Ok(())
}

/// Makes room for relocations in the sections that have none yet, where others have: code may have come
/// there from those. What stays empty is not written.
fn add_blocks(ext: &mut BtfExt) {
    let names: BTreeSet<u32> = ext.tables.iter().flat_map(|t| &t.blocks).map(|b| b.section_name).collect();
    for records in ext.tables.iter_mut().filter(|t| t.table == Table::Relocations) {
        let known: BTreeSet<u32> = records.blocks.iter().map(|b| b.section_name).collect();
        let new = names.difference(&known).map(|name| Block { section_name: *name, records: Vec::new() });
        records.blocks.extend(new);
    }
}

/// The code section of that name.
fn code_section(object: &Object, name: &str) -> Result<Option<usize>, ElfError> {
    let sections = object.container.sections.iter().enumerate();
    let mut named = sections.filter(|(_, s)| s.is_code() && s.size > 0 && s.name == name).map(|(i, _)| i);
    match (named.next(), named.next()) {
        (Some(_), Some(_)) => unwritable(format!("several sections are called {name}")),
        (section, _) => Ok(section),
    }
}

/// Instructions that the loader patches must be those of the input, but for what it does not look at, and
/// their functions must have got records.
fn check_patched(object: &Object, program: &Program, recorded: &BTreeSet<FuncId>) -> Result<(), ElfError> {
    let mut known: BTreeMap<Patch, Vec<&Node>> = BTreeMap::new();
    for node in object.program.functions.iter().flat_map(|f| &f.nodes) {
        node.patch.iter().for_each(|p| known.entry(*p).or_default().push(node));
    }
    for (i, function) in program.functions.iter().enumerate() {
        for (node, patch) in function.nodes.iter().filter_map(|n| Some((n, n.patch?))) {
            let is_known = known.get(&patch).is_some_and(|k| k.iter().any(|k| k.is_patched_like(node)));
            if !is_known || !recorded.contains(&FuncId(i as u32)) {
                return unwritable(format!(
                    "function {}: an instruction that is patched at load was altered",
                    function.name
                ));
            }
        }
    }
    Ok(())
}

/// The relocations of `.BTF.ext`, for the records that are left.
fn moved_relocations(entries: &[Relocation], edited: &BtfExt) -> Vec<Relocation> {
    let mut places: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (old, new) in edited.places() {
        places.entry(old as u64).or_default().push(new as u64);
    }
    let mut out = Vec::with_capacity(entries.len());
    for entry in entries {
        let new = places.get(&entry.offset).map_or(&[][..], Vec::as_slice);
        out.extend(new.iter().map(|&offset| Relocation { offset, ..*entry }));
    }
    out.sort_by_key(|r| r.offset);
    out
}

/// Moves the records about one section.
struct Mover<'a> {
    object: &'a Object,
    program: &'a Program,
    layout: &'a Layout,
    section: usize,
}

impl Mover<'_> {
    fn block(&self, table: Table, block: &mut Block, patched: &mut BTreeSet<FuncId>) -> Result<(), ElfError> {
        let mut moved = Vec::with_capacity(block.records.len());
        for piece in self.layout.pieces(self.section) {
            let records: Vec<&Record> =
                block.records.iter().filter(|r| piece.old.contains(&(r.offset() as u64))).collect();
            match (table, piece.function) {
                // Nothing is left that could have a type.
                (Table::Functions, Some(id)) if self.program.function(id).nodes.is_empty() => {}
                (Table::Lines, Some(id)) => {
                    let (before, after) = (self.object.program.function(id), self.program.function(id));
                    moved.extend(lines::moved(before, piece.old.start, &records, after, piece.new.start));
                }
                (Table::Relocations, Some(id)) => {
                    if patched.insert(id) {
                        moved.extend(self.core_relocations(id, piece));
                    }
                }
                _ => moved.extend(records.iter().map(|r| self.shifted(r))),
            }
        }
        block.records = moved;
        Ok(())
    }

    fn shifted(&self, record: &Record) -> Record {
        record.with_offset(self.layout.moved(self.section, record.offset() as u64) as u32)
    }

    /// The CO-RE relocations of a function's instructions.
    fn core_relocations(&self, id: FuncId, piece: &Piece) -> impl Iterator<Item = Record> {
        let function = self.program.function(id);
        let offsets = function.slot_offsets();
        function.nodes.iter().zip(offsets).flat_map(move |(node, slot)| {
            let records = node.patch.iter().flat_map(|p| self.object.patches.records(*p));
            records.map(move |r| r.with_offset((piece.new.start + slot as u64 * SLOT_BYTES) as u32))
        })
    }
}
