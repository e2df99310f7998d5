//! Instructions to bytes and relocations.

use super::layout::{Layout, Piece};
use super::new_value;
use crate::code::{self, SLOT_BYTES, opcode};
use crate::error::{ElfError, unwritable};
use crate::lift::Reference;
use crate::maps::MapOrigin;
use crate::object::Object;
use crate::relocation::{Relocation, kind};
use crate::symbol::SymbolKind;
use karakoram_bpf::encode::{self, EncodeError, Slot};
use karakoram_bpf::insn::{Callee, FuncId, Imm64, Insn, MapRef};
use karakoram_bpf::program::{Node, Program};
use std::collections::{BTreeSet, HashMap};

/// The new contents of a code section.
pub(super) struct Code {
    pub bytes: Vec<u8>,
    pub relocations: Vec<Relocation>,
}

/// What an instruction refers to by symbol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Target {
    Value(Imm64<FuncId>),
    Callee(Callee<FuncId>),
}

/// What an instruction refers to by symbol, if it does.
fn target<J>(insn: &Insn<J, FuncId>) -> Option<Target> {
    match insn {
        Insn::LoadImm { value, .. } => match value {
            Imm64::Map(MapRef::Index(_)) | Imm64::MapValue(MapRef::Index(_), _) => Some(Target::Value(*value)),
            Imm64::Function(_) | Imm64::Extern(_) => Some(Target::Value(*value)),
            _ => None,
        },
        Insn::Call(callee @ (Callee::Local(_) | Callee::Extern(_))) => Some(Target::Callee(*callee)),
        _ => None,
    }
}

pub(super) struct Emitter<'a> {
    object: &'a Object,
    program: &'a Program,
    layout: &'a Layout,
    /// How some instruction of the input refers to each target, by relocation.
    known: HashMap<Target, Reference>,
}

impl<'a> Emitter<'a> {
    pub fn new(object: &'a Object, program: &'a Program, layout: &'a Layout) -> Emitter<'a> {
        let mut known = HashMap::new();
        for (function, origin) in object.program.functions.iter().zip(&object.origins) {
            for node in &function.nodes {
                let reference = origin.references.get(&node.id).filter(|r| r.relocation.is_some());
                if let (Some(reference), Some(target)) = (reference, target(&node.insn)) {
                    known.entry(target).or_insert(*reference);
                }
            }
        }
        Emitter { object, program, layout, known }
    }

    pub fn section(&self, section: usize) -> Result<Code, ElfError> {
        let mut code = Code { bytes: Vec::new(), relocations: Vec::new() };
        for piece in self.layout.pieces(section) {
            match piece.function {
                Some(id) => self.function(section, id, &mut code)?,
                None => self.opaque(section, piece, &mut code)?,
            }
        }
        Ok(code)
    }

    fn function(&self, section: usize, id: FuncId, code: &mut Code) -> Result<(), ElfError> {
        let function = self.program.function(id);
        let fail = |e: EncodeError| ElfError::Unwritable(format!("function {}: {e}", function.name));
        for (node, insn) in function.nodes.iter().zip(function.raw().map_err(fail)?) {
            let at = code.bytes.len() as u64;
            let (first, second) = match target(&insn) {
                Some(target) => {
                    let reference = match self.own_reference(id, node, target) {
                        Some(reference) => reference,
                        None => self.reference(section, target)?,
                    };
                    let reference = self.aim(reference, target, at)?;
                    code.relocations.extend(reference.relocation.map(|(symbol, kind)| Relocation {
                        offset: at,
                        symbol,
                        kind,
                    }));
                    symbolic(node, &reference)
                }
                None => {
                    let insn = insn.try_map(Ok, |_| Err(EncodeError::Unresolved)).map_err(fail)?;
                    encode::encode(&insn).map_err(fail)?
                }
            };
            code.bytes.extend(first.to_bytes());
            code.bytes.extend(second.into_iter().flat_map(Slot::to_bytes));
        }
        Ok(())
    }

    /// How the same instruction of the input referred to the same target.
    fn own_reference(&self, function: FuncId, node: &Node, wanted: Target) -> Option<Reference> {
        let before = self.object.program.function(function).nodes.get(node.id.0 as usize)?;
        let reference = self.object.origins[function.0 as usize].references.get(&node.id)?;
        (target(&before.insn) == Some(wanted)).then_some(*reference)
    }

    /// A way to refer to a target, in the manner of the input.
    fn reference(&self, section: usize, target: Target) -> Result<Reference, ElfError> {
        if let Some(known) = self.known.get(&target) {
            return Ok(*known);
        }
        let by_symbol = |symbol, kind, src| Reference { relocation: Some((symbol, kind)), src, low: -1, high: 0 };
        let found = match target {
            Target::Callee(Callee::Local(f)) if self.object.origins[f.0 as usize].section == section => {
                Some(Reference { relocation: None, src: opcode::LOCAL_CALL, low: 0, high: 0 })
            }
            Target::Callee(Callee::Local(f)) => {
                self.function_symbol(f).map(|s| by_symbol(s, kind::CALL, opcode::LOCAL_CALL))
            }
            Target::Callee(Callee::Extern(symbol)) => Some(by_symbol(symbol, kind::CALL, opcode::LOCAL_CALL)),
            Target::Callee(_) => None,
            Target::Value(Imm64::Function(f)) => self.function_symbol(f).map(|s| by_symbol(s, kind::IMM64, 0)),
            Target::Value(Imm64::Extern(symbol)) => Some(Reference { low: 0, ..by_symbol(symbol, kind::IMM64, 0) }),
            Target::Value(Imm64::Map(MapRef::Index(map))) => self.map_reference(map, 0),
            Target::Value(Imm64::MapValue(MapRef::Index(map), offset)) => self.map_reference(map, offset),
            Target::Value(_) => None,
        };
        match found {
            Some(reference) => Ok(reference),
            None => unwritable(format!("the object has no symbol for {target:?}")),
        }
    }

    /// A symbol from which a function can be reached.
    fn function_symbol(&self, function: FuncId) -> Option<u32> {
        let origin = &self.object.origins[function.0 as usize];
        origin.symbol.or_else(|| self.section_symbol(origin.section))
    }

    fn section_symbol(&self, section: usize) -> Option<u32> {
        let mut symbols = self.object.symbols.iter();
        symbols.find(|(_, s)| s.section == Some(section) && s.kind == SymbolKind::Section).map(|(n, _)| n)
    }

    fn map_reference(&self, map: i32, offset: u32) -> Option<Reference> {
        let map = self.object.maps.get(usize::try_from(map).ok()?)?;
        let symbols = || self.object.symbols.iter().filter(|(_, s)| s.section == Some(map.section));
        let (number, symbol) = match map.origin {
            // Addresses inside data are distances from any symbol of it.
            MapOrigin::Data => symbols().find(|(_, s)| s.kind == SymbolKind::Section).or_else(|| symbols().next())?,
            // Loaders know maps by their symbols alone.
            _ => symbols().find(|(_, s)| s.kind != SymbolKind::Section && s.value == map.range.start)?,
        };
        let addend = match map.origin {
            MapOrigin::Data => (offset as i64).wrapping_sub_unsigned(symbol.value),
            _ => 0,
        };
        let (low, high) = halves(addend);
        Some(Reference { relocation: Some((number, kind::IMM64)), src: 0, low, high })
    }

    /// Points a reference to a function at its new place; others stay as they are.
    fn aim(&self, reference: Reference, target: Target, at: u64) -> Result<Reference, ElfError> {
        let (Target::Callee(Callee::Local(function)) | Target::Value(Imm64::Function(function))) = target else {
            return Ok(reference);
        };
        let to = self.layout.start(function);
        let base = match reference.relocation {
            Some((number, _)) => self.object.symbols.get(number).map_or(0, |s| new_value(self.layout, s)),
            None => at,
        };
        let distance = (to as i64).wrapping_sub_unsigned(base);
        Ok(match target {
            Target::Callee(_) => Reference { low: slots_after_next(distance)?, ..reference },
            Target::Value(_) => {
                let (low, high) = halves(distance);
                Reference { low, high, ..reference }
            }
        })
    }

    /// Code that is not understood: kept, but for what refers to code that moved.
    fn opaque(&self, section: usize, piece: &Piece, code: &mut Code) -> Result<(), ElfError> {
        let data = &self.object.container.sections[section].data;
        let mut bytes = data[piece.old.start as usize..piece.old.end as usize].to_vec();
        let entries = self.object.relocations.get(&section).map_or(&[][..], |t| &t.entries);
        let mut relocated = BTreeSet::new();
        for entry in entries.iter().filter(|r| piece.old.contains(&r.offset)) {
            relocated.insert(entry.offset);
            let inside = entry.offset - piece.old.start;
            self.move_opaque_addend(&mut bytes, inside as usize, entry);
            code.relocations.push(Relocation { offset: piece.new.start + inside, ..*entry });
        }
        for (from, to) in code::escapes(data, &piece.old, |at| relocated.contains(&at)) {
            let inside = (from - piece.old.start) as usize;
            let at = piece.new.start + inside as u64;
            let distance = (self.layout.moved(section, to) as i64).wrapping_sub_unsigned(at);
            move_escape(&mut bytes[inside..], distance)?;
        }
        code.bytes.extend(bytes);
        Ok(())
    }

    /// The addend of a relocation in opaque code, when it leads to code.
    fn move_opaque_addend(&self, bytes: &mut [u8], at: usize, entry: &Relocation) {
        let Some(symbol) = self.object.symbols.get(entry.symbol) else { return };
        let Some(section) = symbol.section.filter(|s| self.layout.contains(*s)) else { return };
        let Some(slot) = bytes.get(at..).and_then(|b| code::slots(b).first().copied()) else { return };
        let (scale, bias) = match (slot.code, entry.kind) {
            (opcode::CALL, kind::CALL) => (SLOT_BYTES as i64, 1),
            (opcode::LOAD_IMM64, kind::IMM64) => (1, 0),
            _ => return,
        };
        let old = symbol.value.wrapping_add_signed((slot.imm as i64 + bias) * scale);
        let distance = self.layout.moved(section, old).wrapping_sub(new_value(self.layout, symbol)) as i64;
        let slot = Slot { imm: (distance / scale - bias) as i32, ..slot };
        bytes[at..at + SLOT_BYTES as usize].copy_from_slice(&slot.to_bytes());
    }
}

/// The slots of an instruction that refers to something.
fn symbolic(node: &Node, reference: &Reference) -> (Slot, Option<Slot>) {
    let call = Slot { code: opcode::CALL, src: reference.src, imm: reference.low, ..Slot::default() };
    match node.insn {
        Insn::LoadImm { dst, .. } => {
            let first = Slot { code: opcode::LOAD_IMM64, dst: dst.index() as u8, ..call };
            (first, Some(Slot { imm: reference.high, ..Slot::default() }))
        }
        _ => (call, None),
    }
}

/// Low and high half of an addend.
fn halves(addend: i64) -> (i32, i32) {
    (addend as i32, (addend >> 32) as i32)
}

/// The constant of a call to `distance` bytes from the start of its slot.
fn slots_after_next(distance: i64) -> Result<i32, ElfError> {
    match i32::try_from(distance / SLOT_BYTES as i64 - 1) {
        Ok(slots) => Ok(slots),
        Err(_) => unwritable("a call is too far from what it calls"),
    }
}

/// Gives the jump or call at the start of `bytes` another distance, in bytes from its own slot.
fn move_escape(bytes: &mut [u8], distance: i64) -> Result<(), ElfError> {
    let Some(slot) = code::slots(bytes).first().copied() else { return Ok(()) };
    let slots = slots_after_next(distance)?;
    if code::distance(&slot) == Some(slots as i64) {
        return Ok(());
    }
    let moved = match i16::try_from(slots) {
        _ if slot.code == opcode::CALL || slot.code == opcode::LONG_JUMP => Slot { imm: slots, ..slot },
        Ok(off) => Slot { off, ..slot },
        Err(_) => return unwritable("a jump is too far from where it goes"),
    };
    bytes[..SLOT_BYTES as usize].copy_from_slice(&moved.to_bytes());
    Ok(())
}
