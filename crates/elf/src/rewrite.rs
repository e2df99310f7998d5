//! An edited program back into its object. Code sections are made anew; symbols, relocations and
//! `.BTF.ext` follow; DWARF is left out; every other byte stays.

mod dwarf;
mod emit;
mod layout;
mod lines;
mod records;

use crate::bytes::{put, u32_at, u64_at};
use crate::container::Container;
use crate::error::{ElfError, unwritable};
use crate::object::Object;
use crate::relocation::{self, Relocation};
use crate::symbol::{self, Symbol, SymbolKind};
use emit::Emitter;
use karakoram_bpf::program::{Entry, Program};
use layout::Layout;
use std::collections::BTreeSet;

pub(crate) fn rewrite(object: &Object, program: &Program) -> Result<Vec<u8>, ElfError> {
    check(object, program)?;
    let layout = Layout::new(object, program);
    let mut container = object.container.clone();
    dwarf::leave_out(&mut container);
    let emitter = Emitter::new(object, program, &layout);
    for section in layout.sections() {
        let code = emitter.section(section)?;
        container.sections[section].set_data(code.bytes);
        write_relocations(object, &mut container, section, code.relocations)?;
    }
    move_data_addends(object, &layout, &mut container)?;
    move_symbols(object, program, &layout, &mut container);
    records::write(object, program, &layout, &mut container)?;
    Ok(container.write())
}

/// The edited program must be about this object.
fn check(object: &Object, program: &Program) -> Result<(), ElfError> {
    let same = |(a, b): (&karakoram_bpf::program::Function, &karakoram_bpf::program::Function)| {
        // Only code that others cannot name may be gone.
        let is_kept = !b.nodes.is_empty() || a.entry == Entry::Subprogram { global: false };
        a.name == b.name && a.section == b.section && is_kept
    };
    let functions = (&object.program.functions, &program.functions);
    if functions.0.len() != functions.1.len() || !functions.0.iter().zip(functions.1).all(same) {
        return unwritable("its functions are not those of the object");
    }
    if object.program.maps != program.maps {
        return unwritable("its maps are not those of the object");
    }
    if object.btf.is_none() && object.container.find(".BTF.ext").is_some() {
        return unwritable("the object has .BTF.ext without .BTF");
    }
    Ok(())
}

fn write_relocations(
    object: &Object,
    container: &mut Container,
    section: usize,
    entries: Vec<Relocation>,
) -> Result<(), ElfError> {
    match object.relocations.get(&section) {
        Some(table) if table.entries != entries => {
            container.sections[table.section].set_data(relocation::to_bytes(&entries));
        }
        None if !entries.is_empty() => {
            let name = &container.sections[section].name;
            return unwritable(format!("section {name} has no relocations, and now needs some"));
        }
        _ => {}
    }
    Ok(())
}

/// Where a symbol points now.
fn new_value(layout: &Layout, symbol: &Symbol) -> u64 {
    symbol.section.map_or(symbol.value, |s| layout.moved(s, symbol.value))
}

/// Data that refers to code by section and distance: the distance lies in the data.
fn move_data_addends(object: &Object, layout: &Layout, container: &mut Container) -> Result<(), ElfError> {
    for (&target, table) in &object.relocations {
        let section = &mut container.sections[target];
        if layout.contains(target) || section.name == ".BTF.ext" || dwarf::is_dwarf(&section.name) {
            continue;
        }
        for entry in &table.entries {
            let Some(symbol) = object.symbols.get(entry.symbol) else { continue };
            let Some(code) = symbol.section.filter(|s| layout.contains(*s)) else { continue };
            let (Ok(at), Some(width)) = (usize::try_from(entry.offset), entry.data_width()) else { continue };
            let addend = match width {
                8 => u64_at(&section.data, at),
                _ => u32_at(&section.data, at).map(|v| v as i32 as i64 as u64),
            };
            let Some(addend) = addend else {
                return unwritable(format!("a relocation of section {} lies outside it", section.name));
            };
            let moved = layout.moved(code, symbol.value.wrapping_add(addend));
            let addend = moved.wrapping_sub(new_value(layout, symbol)).to_le_bytes();
            put(&mut section.data, at, &addend[..width]);
        }
    }
    Ok(())
}

fn move_symbols(object: &Object, program: &Program, layout: &Layout, container: &mut Container) {
    let Some(table) = object.symbols.section else { return };
    let removed: BTreeSet<(usize, u64)> = (object.origins.iter().zip(&program.functions))
        .filter(|(_, function)| function.nodes.is_empty())
        .map(|(origin, _)| (origin.section, origin.range.start))
        .collect();
    for (number, symbol) in object.symbols.iter() {
        if let Some(section) = symbol.section.filter(|s| layout.contains(*s)) {
            let value = layout.moved(section, symbol.value);
            let end = layout.moved(section, symbol.value.saturating_add(symbol.size));
            let size = if symbol.size == 0 { 0 } else { end.saturating_sub(value) };
            symbol::write_place(&mut container.sections[table].data, number, value, size);
            // A loader takes every symbol of a function for one; a label keeps its number and says nothing.
            if symbol.kind == SymbolKind::Function && removed.contains(&(section, symbol.value)) {
                symbol::make_label(&mut container.sections[table].data, number);
            }
        }
    }
}
