//! Code sections to a program: every function decoded, every relocation resolved into its instruction.

use crate::btf::Btf;
use crate::btf::ext::BtfExt;
use crate::code::{self, SLOT_BYTES, Stretch};
use crate::container::Container;
use crate::maps::{MapOrigin, ObjectMap};
use crate::patches::Patches;
use crate::prototype::prototype;
use crate::relocation::{self, Relocation, RelocationTable};
use crate::symbol::{Symbol, SymbolKind, Symbols};
use karakoram_bpf::encode::{self, Slot};
use karakoram_bpf::hook::{Hook, ProgramType};
use karakoram_bpf::insn::{Callee, FuncId, Imm64, Insn, InsnId, MapRef, RawInsn};
use karakoram_bpf::map::MapType;
use karakoram_bpf::program::{Entry, Function, Patch, Program};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Section of the variables that live in the arena map.
const ARENA_SECTION: &str = ".addr_space.1";

/// How an instruction of the input names what it refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    /// Symbol and relocation kind; `None` for a distance inside the section.
    pub relocation: Option<(u32, u32)>,
    /// Source register field.
    pub src: u8,
    /// Constant of the first slot: the low half of the addend.
    pub low: i32,
    /// Constant of the second slot.
    pub high: i32,
}

/// Where a function came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    /// Section number.
    pub section: usize,
    /// Bytes of the section.
    pub range: Range<u64>,
    /// Its symbol.
    pub symbol: Option<u32>,
    /// The instructions that refer to something.
    pub references: HashMap<InsnId, Reference>,
}

/// Code that is kept as it is, because it is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opaque {
    /// Function name; empty when there is none.
    pub name: String,
    /// Section number.
    pub section: usize,
    /// Bytes of the section.
    pub range: Range<u64>,
    /// Why it is kept.
    pub reason: String,
}

/// Everything lifted from an object.
pub(crate) struct Lifted {
    pub program: Program,
    /// One for each function.
    pub origins: Vec<Origin>,
    pub opaque: Vec<Opaque>,
    pub patches: Patches,
}

/// What lifting looks at.
pub(crate) struct Input<'a> {
    pub container: &'a Container,
    pub symbols: &'a Symbols,
    pub relocations: &'a BTreeMap<usize, RelocationTable>,
    pub maps: &'a [ObjectMap],
    pub btf: Option<&'a Btf>,
    pub ext: Option<&'a BtfExt>,
}

/// Lifts all functions of an object; those that cannot be, and those that refer to them, stay opaque.
pub(crate) fn lift(input: &Input) -> Lifted {
    let mut stretches = code::stretches(input.container, input.symbols, input.relocations);
    let starts = stretches.iter().enumerate().filter(|(_, s)| s.content.is_ok());
    let starts: HashMap<(usize, u64), FuncId> =
        starts.map(|(i, s)| ((s.section, s.range.start), FuncId(i as u32))).collect();
    let mut lifted = Vec::with_capacity(stretches.len());
    let mut sections: BTreeMap<usize, SectionCode> = BTreeMap::new();
    let mut patches = Patches::default();
    for stretch in &mut stretches {
        let code =
            sections.entry(stretch.section).or_insert_with(|| SectionCode::new(input, stretch.section, &mut patches));
        let function = match &stretch.content {
            Ok(name) => lift_function(input, code, &starts, name, stretch),
            Err(why) => Err(why.clone()),
        };
        lifted.push(function);
    }
    drop_dependents(input, &stretches, &mut lifted);
    Lifted { patches, ..number(input, stretches, lifted) }
}

/// What is known about the code of one section, by byte offset.
struct SectionCode {
    slots: Vec<Slot>,
    relocations: BTreeMap<u64, Relocation>,
    patches: BTreeMap<u64, Patch>,
}

impl SectionCode {
    fn new(input: &Input, section: usize, patches: &mut Patches) -> SectionCode {
        let header = &input.container.sections[section];
        let entries = input.relocations.get(&section).map_or(&[][..], |t| &t.entries);
        SectionCode {
            slots: code::slots(&header.data),
            relocations: entries.iter().map(|r| (r.offset, *r)).collect(),
            patches: patches.add_section(input, section),
        }
    }
}

/// A function whose calls are numbered by stretch.
struct Draft {
    function: Function,
    references: HashMap<InsnId, Reference>,
}

fn lift_function(
    input: &Input,
    code: &SectionCode,
    starts: &HashMap<(usize, u64), FuncId>,
    name: &str,
    stretch: &Stretch,
) -> Result<Draft, String> {
    let range = &stretch.range;
    let mut raw = Vec::new();
    let mut places = Vec::new();
    let mut references = HashMap::new();
    let mut at = range.start;
    while at < range.end {
        let slot = (at / SLOT_BYTES) as usize;
        let insn = encode::decode(&code.slots, slot).map_err(|e| e.to_string())?;
        let site = Site { input, starts, section: stretch.section, at };
        let slots = &code.slots[slot..slot + insn.slots()];
        let (insn, reference) = match code.relocations.get(&at) {
            Some(relocation) => site.relocated(insn, slots, relocation)?,
            None => site.plain(insn, slots)?,
        };
        if let Some(reference) = reference {
            references.insert(InsnId(raw.len() as u32), reference);
        }
        raw.push(insn);
        places.push(at);
        at += insn.slots() as u64 * SLOT_BYTES;
    }
    if at > range.end {
        return Err("its last instruction is cut off".into());
    }
    let known = |place: &u64| places.binary_search(place).is_ok();
    if !code.relocations.range(range.clone()).all(|(place, _)| known(place)) {
        return Err("a relocation points into the middle of an instruction".into());
    }
    if !code.patches.range(range.clone()).all(|(place, _)| known(place)) {
        return Err("a CO-RE relocation points into the middle of an instruction".into());
    }
    let section = &input.container.sections[stretch.section].name;
    let entry = Entry::Subprogram { global: false };
    let base = (range.start / SLOT_BYTES) as usize;
    let mut function = Function::from_raw(name, section, entry, &raw, base).map_err(|e| e.to_string())?;
    for (node, place) in function.nodes.iter_mut().zip(&places) {
        node.patch = code.patches.get(place).copied();
    }
    Ok(Draft { function, references })
}

type Resolved = (Insn<i32, FuncId>, Option<Reference>);

/// One instruction of the input.
struct Site<'a> {
    input: &'a Input<'a>,
    starts: &'a HashMap<(usize, u64), FuncId>,
    section: usize,
    at: u64,
}

impl Site<'_> {
    fn fail<T>(&self, what: impl std::fmt::Display) -> Result<T, String> {
        Err(format!("slot {}: {what}", self.at / SLOT_BYTES))
    }

    fn function(&self, section: usize, offset: u64) -> Result<FuncId, String> {
        match self.starts.get(&(section, offset)) {
            Some(id) => Ok(*id),
            None => {
                let name = &self.input.container.sections[section].name;
                self.fail(format_args!("refers to offset {offset} of section {name}, where no function starts"))
            }
        }
    }

    /// An instruction without a relocation.
    fn plain(&self, insn: RawInsn, slots: &[Slot]) -> Result<Resolved, String> {
        match insn {
            Insn::Call(Callee::Local(distance)) => {
                let to = (self.at + SLOT_BYTES).wrapping_add_signed(distance as i64 * SLOT_BYTES as i64);
                let callee = self.function(self.section, to)?;
                let reference = Reference { relocation: None, src: slots[0].src, low: slots[0].imm, high: 0 };
                Ok((Insn::Call(Callee::Local(callee)), Some(reference)))
            }
            Insn::LoadImm { value: Imm64::Map(MapRef::Index(_)) | Imm64::MapValue(MapRef::Index(_), _), .. } => {
                self.fail("names a map by index, which only a loader may do")
            }
            insn => match insn.try_map(Ok, |_| Err(())) {
                Ok(insn) => Ok((insn, None)),
                Err(()) => self.fail("takes the address of a function without a relocation"),
            },
        }
    }

    fn relocated(&self, insn: RawInsn, slots: &[Slot], relocation: &Relocation) -> Result<Resolved, String> {
        let Some(symbol) = self.input.symbols.get(relocation.symbol) else {
            return self.fail("its relocation names no symbol");
        };
        let reference = Reference {
            relocation: Some((relocation.symbol, relocation.kind)),
            src: slots[0].src,
            low: slots[0].imm,
            high: slots.get(1).map_or(0, |s| s.imm),
        };
        let insn = match (insn, relocation.kind) {
            (Insn::LoadImm { dst, .. }, relocation::kind::IMM64) => {
                let addend = slots[0].imm as u32 as u64 | (reference.high as u32 as u64) << 32;
                // Some compilers sign-extend the low half into the high one, others leave it zero.
                let addend = if reference.high == 0 { slots[0].imm as i64 } else { addend as i64 };
                Insn::LoadImm { dst, value: self.value(symbol, relocation.symbol, addend)? }
            }
            (Insn::Call(Callee::Local(_)), relocation::kind::CALL) => {
                Insn::Call(self.callee(symbol, relocation.symbol, slots[0].imm)?)
            }
            _ => return self.fail(format_args!("relocation of kind {} does not suit it", relocation.kind)),
        };
        Ok((insn, Some(reference)))
    }

    fn callee(&self, symbol: &Symbol, number: u32, constant: i32) -> Result<Callee<FuncId>, String> {
        match symbol.section {
            Some(section) if self.input.container.sections[section].is_code() => {
                let to = symbol.value.wrapping_add_signed((constant as i64 + 1) * SLOT_BYTES as i64);
                Ok(Callee::Local(self.function(section, to)?))
            }
            None if symbol.is_undefined => Ok(Callee::Extern(number)),
            _ => self.fail(format_args!("calls {}, which is no function", symbol.name)),
        }
    }

    fn value(&self, symbol: &Symbol, number: u32, addend: i64) -> Result<Imm64<FuncId>, String> {
        let Some(section) = symbol.section else {
            return match symbol.is_undefined && addend == 0 {
                true => Ok(Imm64::Extern(number)),
                false => self.fail(format_args!("uses {} in an unknown way", symbol.name)),
            };
        };
        let header = &self.input.container.sections[section];
        let offset = symbol.value.wrapping_add_signed(addend);
        if header.is_code() {
            return Ok(Imm64::Function(self.function(section, offset)?));
        }
        let maps = self.input.maps;
        let data = if header.name == ARENA_SECTION {
            maps.iter().position(|m| m.def.kind == MapType::ARENA)
        } else {
            maps.iter().position(|m| m.section == section && m.origin == MapOrigin::Data)
        };
        if let Some(map) = data {
            return Ok(Imm64::MapValue(MapRef::Index(map as i32), offset as u32));
        }
        // Loaders know a map by its symbol and do not look at the addend; the section's symbol, which
        // compilers use for static variables, says nothing without it.
        let offset = if symbol.kind == SymbolKind::Section { offset } else { symbol.value };
        match maps.iter().position(|m| m.section == section && m.range.start == offset) {
            Some(map) => Ok(Imm64::Map(MapRef::Index(map as i32))),
            None => self.fail(format_args!(
                "uses {} in section {}, which is no map, data or code that is understood",
                symbol.name, header.name
            )),
        }
    }
}

/// Makes opaque what opaque code depends on, and what depends on opaque code.
fn drop_dependents(input: &Input, stretches: &[Stretch], lifted: &mut [Result<Draft, String>]) {
    let mut escapes = HashMap::new();
    loop {
        for (i, stretch) in stretches.iter().enumerate().filter(|(i, _)| lifted[*i].is_err()) {
            escapes.entry(i).or_insert_with(|| escape_targets(input, stretch));
        }
        let entered = |stretch: &Stretch| {
            let mut inside = escapes.iter().filter(|(from, _)| stretches[**from].section == stretch.section);
            inside.any(|(_, to)| {
                to.range(stretch.range.start + 1..stretch.range.end.max(stretch.range.start + 1)).next().is_some()
            })
        };
        let mut dropped = Vec::new();
        for (i, draft) in lifted.iter().enumerate() {
            let Ok(draft) = draft else { continue };
            if entered(&stretches[i]) {
                dropped.push((i, "other code jumps into the middle of it".to_string()));
            } else if let Some(bad) = referred(&draft.function).find(|f| lifted[f.0 as usize].is_err()) {
                let name = stretches[bad.0 as usize].content.as_deref().unwrap_or("code");
                dropped.push((i, format!("refers to {name}, which is not understood")));
            }
        }
        if dropped.is_empty() {
            return;
        }
        for (i, why) in dropped {
            lifted[i] = Err(why);
        }
    }
}

fn escape_targets(input: &Input, stretch: &Stretch) -> BTreeSet<u64> {
    let entries = input.relocations.get(&stretch.section).map_or(&[][..], |t| &t.entries);
    let relocated: BTreeSet<u64> = entries.iter().map(|r| r.offset).collect();
    let data = &input.container.sections[stretch.section].data;
    code::escapes(data, &stretch.range, |at| relocated.contains(&at)).into_iter().map(|(_, to)| to).collect()
}

/// The functions that a function calls or takes the address of.
pub(crate) fn referred(function: &Function) -> impl Iterator<Item = FuncId> + '_ {
    function.nodes.iter().filter_map(|node| match node.insn {
        Insn::Call(Callee::Local(f)) | Insn::LoadImm { value: Imm64::Function(f), .. } => Some(f),
        _ => None,
    })
}

/// Numbers the functions that were lifted, and says how each is entered.
fn number(input: &Input, stretches: Vec<Stretch>, lifted: Vec<Result<Draft, String>>) -> Lifted {
    let mut numbers = HashMap::new();
    for (i, _) in lifted.iter().enumerate().filter(|(_, d)| d.is_ok()) {
        numbers.insert(FuncId(i as u32), FuncId(numbers.len() as u32));
    }
    let referred: BTreeSet<FuncId> = lifted.iter().flatten().flat_map(|d| referred(&d.function)).collect();
    let mut out =
        Lifted { program: Program::default(), origins: Vec::new(), opaque: Vec::new(), patches: Patches::default() };
    for (i, (stretch, draft)) in stretches.into_iter().zip(lifted).enumerate() {
        let Stretch { section, range, content, symbol } = stretch;
        let draft = match draft {
            Ok(draft) => draft,
            Err(reason) => {
                out.opaque.push(Opaque { name: content.unwrap_or_default(), section, range, reason });
                continue;
            }
        };
        let mut function = draft.function;
        for node in &mut function.nodes {
            // Only functions that were lifted are referred to: see `drop_dependents`.
            node.insn = node.insn.map(|j| j, |f| numbers.get(&f).copied().unwrap_or(f));
        }
        let is_alone = numbers.len() == 1;
        let is_called = referred.contains(&FuncId(i as u32));
        function.entry = entry(&function.section, symbol.and_then(|s| input.symbols.get(s)), is_called, is_alone);
        out.program.functions.push(function);
        out.origins.push(Origin { section, range, symbol, references: draft.references });
    }
    out.program.has_unseen_callers = !out.opaque.is_empty() || is_named_by_data(input);
    out.program.maps = input.maps.iter().map(|m| m.def.clone()).collect();
    let called = out.program.functions.iter().flat_map(|f| &f.nodes).filter_map(|node| match node.insn {
        Insn::Call(Callee::Extern(n)) => Some((n, prototype(input.btf, &input.symbols.get(n)?.name))),
        _ => None,
    });
    out.program.externs = called.collect();
    out
}

/// Whether data names subprograms, which whoever reads it may call.
fn is_named_by_data(input: &Input) -> bool {
    let sections = &input.container.sections;
    let is_data = |section: usize| {
        let name = &sections[section].name;
        let says_nothing = [".BTF", ".debug_", ".eh_frame"];
        !sections[section].is_code() && !says_nothing.iter().any(|n| name.starts_with(n))
    };
    let names_code = |symbol: u32| {
        let section = input.symbols.get(symbol).and_then(|s| s.section);
        section.is_some_and(|s| sections[s].is_code() && is_text(&sections[s].name))
    };
    let mut tables = input.relocations.iter().filter(|(target, _)| is_data(**target));
    tables.any(|(_, table)| table.entries.iter().any(|r| names_code(r.symbol)))
}

fn entry(section: &str, symbol: Option<&Symbol>, is_called: bool, is_alone: bool) -> Entry {
    let is_global = symbol.is_some_and(|s| s.is_global);
    let subprogram = Entry::Subprogram { global: is_global && !symbol.is_some_and(|s| s.is_hidden) };
    let is_text = is_text(section);
    if (is_text && !is_alone) || (!is_text && is_called && !is_global) {
        return subprogram;
    }
    let kind = if is_text { None } else { ProgramType::from_section(section) };
    Entry::Hook(Hook::Kernel(kind.unwrap_or(ProgramType::UNSPEC)))
}

/// Whether a section holds subprograms only.
pub(crate) fn is_text(section: &str) -> bool {
    section == ".text" || section.starts_with(".text.")
}
