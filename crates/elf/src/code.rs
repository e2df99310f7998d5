//! Which bytes of the code sections are which function.

use crate::container::Container;
use crate::relocation::{self, RelocationTable};
use crate::symbol::{SymbolKind, Symbols};
use karakoram_bpf::encode::Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 8;

/// A stretch of a code section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    /// Section number.
    pub section: usize,
    /// Bytes of the section.
    pub range: Range<u64>,
    /// Function name, or why this is no function.
    pub content: Result<String, String>,
    /// The function's symbol, when it has one.
    pub symbol: Option<u32>,
}

/// The opcodes that the layout of code can be told from without decoding it all.
pub(crate) mod opcode {
    pub const LOAD_IMM64: u8 = 0x18;
    pub const CALL: u8 = 0x85;
    /// The jump whose distance is in the constant.
    pub const LONG_JUMP: u8 = 0x06;
    /// Source register number of a call to a local function.
    pub const LOCAL_CALL: u8 = 1;
}

/// The slots of a section; a rest of fewer than eight bytes is left out.
pub(crate) fn slots(data: &[u8]) -> Vec<Slot> {
    data.chunks_exact(8).map(|c| Slot::from_bytes(c.try_into().unwrap_or_default())).collect()
}

/// Splits all code sections, without gap or overlap, in order.
pub(crate) fn stretches(
    container: &Container,
    symbols: &Symbols,
    relocations: &BTreeMap<usize, RelocationTable>,
) -> Vec<Stretch> {
    let targets = call_targets(container, symbols, relocations);
    let mut out = Vec::new();
    for (number, section) in container.sections.iter().enumerate().filter(|(_, s)| s.is_code() && s.size > 0) {
        let opaque = |range, why: &str| Stretch { section: number, range, content: Err(why.into()), symbol: None };
        if !section.size.is_multiple_of(SLOT_BYTES) {
            out.push(opaque(0..section.size, "the section does not end on an 8-byte boundary"));
            continue;
        }
        let mut at = 0;
        for function in functions(number, section.size, &section.name, symbols, &targets) {
            if function.range.start < at {
                // Functions that share code are one stretch that nobody may change.
                let why = "functions overlap";
                let last = out.pop().filter(|s: &Stretch| s.section == number);
                let start = last.map_or(function.range.start, |s| s.range.start);
                at = at.max(function.range.end);
                out.push(opaque(start..at, why));
                continue;
            }
            if at < function.range.start {
                out.push(opaque(at..function.range.start, "the code belongs to no function"));
            }
            at = function.range.end;
            out.push(function);
        }
        if at < section.size {
            out.push(opaque(at..section.size, "the code belongs to no function"));
        }
    }
    out
}

/// The functions of a section by start, each start once.
fn functions(
    section: usize,
    size: u64,
    section_name: &str,
    symbols: &Symbols,
    targets: &BTreeSet<(usize, u64)>,
) -> Vec<Stretch> {
    // The first symbol at a place names the function; global ones first, as others know it by them.
    let mut starts: BTreeMap<u64, (u64, Option<u32>)> = BTreeMap::new();
    let here = |kind| {
        move |(_, s): &(u32, &crate::symbol::Symbol)| s.section == Some(section) && s.kind == kind && s.value < size
    };
    let mut named: Vec<_> = symbols.iter().filter(here(SymbolKind::Function)).collect();
    let has_function_symbols = !named.is_empty();
    if !has_function_symbols {
        named = symbols.iter().filter(here(SymbolKind::Unspecified)).filter(|(_, s)| s.is_global).collect();
        let called = targets.iter().filter(|(s, at)| *s == section && *at < size).map(|(_, at)| *at);
        starts.extend([0].into_iter().chain(called).map(|at| (at, (0, None))));
    }
    named.sort_by_key(|(_, s)| !s.is_global);
    for (number, symbol) in named {
        let entry = starts.entry(symbol.value).or_default();
        entry.0 = entry.0.max(symbol.size);
        entry.1 = entry.1.or(Some(number));
    }
    let ends: Vec<u64> = starts.keys().skip(1).copied().chain([size]).collect();
    let mut out = Vec::with_capacity(starts.len());
    for (n, ((start, (bytes, symbol)), next)) in starts.into_iter().zip(ends).enumerate() {
        let end = if bytes == 0 { next } else { start.saturating_add(bytes).min(size) };
        let name = match symbol.and_then(|n| symbols.get(n)) {
            Some(symbol) => symbol.name.clone(),
            None if start == 0 => section_name.to_string(),
            None => format!("{section_name}#{n}"),
        };
        let aligned = start.is_multiple_of(SLOT_BYTES) && end.is_multiple_of(SLOT_BYTES);
        let content = if aligned { Ok(name) } else { Err(format!("{name} does not lie on 8-byte boundaries")) };
        out.push(Stretch { section, range: start..end, content, symbol });
    }
    out
}

/// Section and offset of everything that is called or whose address is taken, as far as can be seen
/// without decoding: needed to find functions in sections without function symbols.
fn call_targets(
    container: &Container,
    symbols: &Symbols,
    relocations: &BTreeMap<usize, RelocationTable>,
) -> BTreeSet<(usize, u64)> {
    let mut targets = BTreeSet::new();
    for (number, section) in container.sections.iter().enumerate().filter(|(_, s)| s.is_code()) {
        let slots = slots(&section.data);
        let mut relocated = BTreeSet::new();
        for entry in relocations.get(&number).map_or(&[][..], |t| &t.entries) {
            relocated.insert(entry.offset);
            let slot = slots.get((entry.offset / SLOT_BYTES) as usize).copied().unwrap_or_default();
            let Some(symbol) = symbols.get(entry.symbol) else { continue };
            let Some(section) = symbol.section.filter(|s| container.sections[*s].is_code()) else { continue };
            let addend = match entry.kind {
                relocation::kind::CALL => (slot.imm as i64 + 1) * SLOT_BYTES as i64,
                _ => slot.imm as i64,
            };
            targets.insert((section, symbol.value.wrapping_add_signed(addend)));
        }
        for (i, slot) in slots.iter().enumerate() {
            let at = i as u64 * SLOT_BYTES;
            if slot.code == opcode::CALL && slot.src == opcode::LOCAL_CALL && !relocated.contains(&at) {
                let distance = (slot.imm as i64 + 1) * SLOT_BYTES as i64;
                targets.insert((number, at.wrapping_add_signed(distance)));
            }
        }
    }
    targets
}

/// The byte offsets outside `range` that the instructions inside it jump or call to without a
/// relocation, with the byte offset of the instruction.
pub(crate) fn escapes(data: &[u8], range: &Range<u64>, relocated: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    let slots = slots(data);
    let mut at = range.start.div_ceil(SLOT_BYTES);
    while at < range.end / SLOT_BYTES {
        let Some(slot) = slots.get(at as usize) else { break };
        let offset = at * SLOT_BYTES;
        if let Some(distance) = distance(slot).filter(|_| !relocated(offset)) {
            let to = (offset + SLOT_BYTES).wrapping_add_signed(distance.saturating_mul(SLOT_BYTES as i64));
            if !range.contains(&to) {
                out.push((offset, to));
            }
        }
        at += if slot.code == opcode::LOAD_IMM64 { 2 } else { 1 };
    }
    out
}

/// How far, in slots from the next one, an instruction jumps or calls.
pub(crate) fn distance(slot: &Slot) -> Option<i64> {
    match (slot.code & 7, slot.code & 0xf0) {
        (5, 0x80) => (slot.code == opcode::CALL && slot.src == opcode::LOCAL_CALL).then_some(slot.imm as i64),
        (5, 0x90) => None,
        (6, 0x00) => Some(slot.imm as i64),
        (5 | 6, _) => Some(slot.off as i64),
        _ => None,
    }
}
