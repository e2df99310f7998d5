//! A program: functions made of instructions with stable identities, and the maps they use.

use crate::effects;
use crate::encode::{self, DecodeError, EncodeError, Slot};
use crate::hook::Hook;
use crate::insn::*;
use crate::map::MapDef;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// An instruction with its identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Identity: for instructions of the input its position in the input function; new ones are higher.
    pub id: InsnId,
    /// What it does.
    pub insn: Insn,
    /// Set when the loader puts something else in place of the constant or the offset of this
    /// instruction (a CO-RE relocation).
    pub patch: Option<Patch>,
}

/// What the loader puts into instructions, by number: the same in all that have the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Patch(pub u32);

impl Node {
    /// The constant that the loader replaces, and what it now is, where the instruction only calculates
    /// with it and may do so with any. Of other patched instructions nothing is known.
    pub fn patched_constant(&self) -> Option<(Patch, i32)> {
        use AluOp::*;
        match self.insn {
            Insn::Mov { src: Operand::Imm(i), .. }
            | Insn::Alu { op: Add | Sub | Mul | Or | And | Xor, src: Operand::Imm(i), .. } => Some((self.patch?, i)),
            _ => None,
        }
    }

    /// Whether the loader does to this instruction what it does to `other`: both calculate with the same
    /// constant, or are the same but for their registers.
    pub fn is_patched_like(&self, other: &Node) -> bool {
        let same_constant = self.patched_constant().is_some() && self.patched_constant() == other.patched_constant();
        self.patch == other.patch && (same_constant || apart(&self.insn).0 == apart(&other.insn).0)
    }
}

/// What the loader looks at of an instruction that it patches, with `r0` for registers that it does not
/// look at; the registers that are read, by role; the one that is written.
pub fn apart(insn: &Insn) -> (Insn, Vec<Reg>, Option<Reg>) {
    const ANY: Reg = Reg::R0;
    match *insn {
        Insn::Load { size, signed, dst, base, off } => {
            (Insn::Load { size, signed, dst: ANY, base: ANY, off }, vec![base], Some(dst))
        }
        Insn::Store { size, base, off, src: Operand::Reg(src) } => {
            (Insn::Store { size, base: ANY, off, src: Operand::Reg(ANY) }, vec![base, src], None)
        }
        Insn::Store { size, base, off, src } => (Insn::Store { size, base: ANY, off, src }, vec![base], None),
        Insn::LoadImm { dst, value } => (Insn::LoadImm { dst: ANY, value }, vec![], Some(dst)),
        other => {
            let effects = effects::of(&other);
            (other, effects.reads.iter().collect(), effects.writes.iter().next())
        }
    }
}

/// How control comes to a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The kernel runs it at a hook; `r1` is that hook's context.
    Hook(Hook),
    /// Other functions of this program call it. `global` functions are verified by the kernel on
    /// their own, for any arguments of their types.
    Subprogram {
        /// Visible to the linker.
        global: bool,
    },
}

/// A function: instructions in layout order. Control enters at the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Symbol name, or `main`, or `sub_N`.
    pub name: String,
    /// ELF section it came from; empty when there is none.
    pub section: String,
    /// How it is entered.
    pub entry: Entry,
    /// The code.
    pub nodes: Vec<Node>,
}

/// Everything that is loaded together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    /// Functions; [`FuncId`] counts into this.
    pub functions: Vec<Function>,
    /// Maps; [`MapRef::Index`] counts into this, [`MapRef::Fd`] is looked up by [`MapDef::fd`].
    pub maps: Vec<MapDef>,
    /// Kernel functions that it calls by [`Callee::Extern`], as far as the object describes them.
    pub externs: BTreeMap<u32, Prototype>,
    /// Whether there is other code that may call these functions, although no instruction here shows it.
    pub has_unseen_callers: bool,
    /// Maps of global data, by number, whose contents are taken to be [`MapDef::initial`] whenever the
    /// program runs. Nobody may change them before loading; that they cannot change later is for
    /// whoever puts them here to know.
    pub constants: BTreeSet<usize>,
}

/// What the types of an object say of a kernel function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prototype {
    /// Its name.
    pub name: String,
    /// How many argument registers it takes; `None` where its parameters are not one register each.
    pub arguments: Option<u8>,
}

/// Why slots are no program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProgramError {
    /// A slot is no instruction.
    Decode(DecodeError),
    /// A jump at `slot` leaves its function or lands inside a 64-bit constant.
    Target {
        /// Slot of the jump.
        slot: usize,
        /// Slot it would go to.
        to: i64,
    },
    /// Control runs past the last instruction of the function that ends before `slot`.
    FallsOff {
        /// Slot after the function.
        slot: usize,
    },
    /// There is no code.
    Empty,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ProgramError::Decode(e) => e.fmt(f),
            ProgramError::Target { slot, to } => {
                write!(f, "slot {slot}: the jump to slot {to} leaves the function or hits the middle of a constant")
            }
            ProgramError::FallsOff { slot } => {
                write!(f, "control runs past the end of the function before slot {slot}")
            }
            ProgramError::Empty => f.write_str("there is no code"),
        }
    }
}

impl std::error::Error for ProgramError {}

impl Function {
    /// Length in eight-byte slots.
    pub fn slots(&self) -> usize {
        self.nodes.iter().map(|n| n.insn.slots()).sum()
    }

    /// Position of each identity.
    pub fn positions(&self) -> HashMap<InsnId, usize> {
        self.nodes.iter().enumerate().map(|(i, n)| (n.id, i)).collect()
    }

    /// An identity that no instruction has yet; all higher ones are free too.
    pub fn fresh_id(&self) -> InsnId {
        InsnId(self.nodes.iter().map(|n| n.id.0 + 1).max().unwrap_or(0))
    }

    /// Slot offset of every instruction, and the total as a last element.
    pub fn slot_offsets(&self) -> Vec<usize> {
        let mut at = 0;
        let mut offsets = Vec::with_capacity(self.nodes.len() + 1);
        for node in &self.nodes {
            offsets.push(at);
            at += node.insn.slots();
        }
        offsets.push(at);
        offsets
    }

    /// Positions control may go to after the instruction at `position`. Calls return.
    pub fn successors(&self, position: usize, positions: &HashMap<InsnId, usize>) -> Vec<usize> {
        let insn = &self.nodes[position].insn;
        let mut next = Vec::with_capacity(2);
        if !insn.ends_block() && position + 1 < self.nodes.len() {
            next.push(position + 1);
        }
        if let Some(p) = insn.target().and_then(|t| positions.get(t))
            && !next.contains(p)
        {
            next.push(*p);
        }
        next
    }

    /// The code with jump distances resolved; calls keep their [`FuncId`].
    pub fn raw(&self) -> Result<Vec<Insn<i32, FuncId>>, EncodeError> {
        let positions = self.positions();
        let offsets = self.slot_offsets();
        self.nodes
            .iter()
            .enumerate()
            .map(|(i, node)| {
                node.insn.try_map(
                    |target| {
                        let to = offsets[*positions.get(&target).ok_or(EncodeError::Invalid("jump to nowhere"))?];
                        Ok(to as i32 - offsets[i] as i32 - node.insn.slots() as i32)
                    },
                    Ok,
                )
            })
            .collect()
    }

    /// Builds a function from decoded instructions whose jump targets are slot distances.
    /// `base` is the slot number of the first instruction, for messages only.
    pub fn from_raw(
        name: &str,
        section: &str,
        entry: Entry,
        raw: &[Insn<i32, FuncId>],
        base: usize,
    ) -> Result<Function, ProgramError> {
        let mut at = HashMap::new();
        let mut slot = 0usize;
        for (i, insn) in raw.iter().enumerate() {
            at.insert(slot as i64, InsnId(i as u32));
            slot += insn.slots();
        }
        let mut nodes = Vec::with_capacity(raw.len());
        let mut slot = 0usize;
        for (i, insn) in raw.iter().enumerate() {
            let insn_slot = slot;
            slot += insn.slots();
            let insn = insn.try_map(
                |d| {
                    let to = slot as i64 + d as i64;
                    at.get(&to).copied().ok_or(ProgramError::Target { slot: base + insn_slot, to: base as i64 + to })
                },
                Ok,
            )?;
            nodes.push(Node { id: InsnId(i as u32), insn, patch: None });
        }
        match nodes.last() {
            None => return Err(ProgramError::Empty),
            Some(last) if !last.insn.ends_block() && !Function::may_be_last(&last.insn) => {
                return Err(ProgramError::FallsOff { slot: base + slot });
            }
            Some(_) => {}
        }
        Ok(Function { name: name.into(), section: section.into(), entry, nodes })
    }

    /// clang ends a function after a call that it knows not to return.
    fn may_be_last(insn: &Insn) -> bool {
        matches!(insn, Insn::Call(_))
    }
}

impl Program {
    /// The map an instruction names, when its definition is known.
    pub fn map(&self, map: MapRef) -> Option<&MapDef> {
        self.map_index(map).map(|i| &self.maps[i])
    }

    /// Position of the map an instruction names.
    pub fn map_index(&self, map: MapRef) -> Option<usize> {
        match map {
            MapRef::Index(i) => usize::try_from(i).ok().filter(|i| *i < self.maps.len()),
            MapRef::Fd(fd) => self.maps.iter().position(|m| m.fd == Some(fd)),
        }
    }

    /// A function by number.
    pub fn function(&self, id: FuncId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// Whether some values are known only when the program is loaded, so that the verifier decides tests of them and
    /// does not look at what they leave out: constants of the loader, symbols, read-only data.
    pub fn is_decided_at_load(&self) -> bool {
        let is_decided =
            |node: &Node| node.patch.is_some() || matches!(node.insn, Insn::LoadImm { value: Imm64::Extern(_), .. });
        self.maps.iter().any(|m| m.frozen) || self.functions.iter().any(|f| f.nodes.iter().any(is_decided))
    }

    /// Length in slots of all functions together.
    pub fn slots(&self) -> usize {
        self.functions.iter().map(Function::slots).sum()
    }

    /// Splits a flat array of slots, as the kernel takes it, into functions at the targets of local
    /// calls and function addresses; the first function is `main` and has `hook`.
    pub fn from_slots(slots: &[Slot], hook: Hook, maps: Vec<MapDef>) -> Result<Program, ProgramError> {
        let mut raw = Vec::new();
        let mut starts = vec![0usize];
        let mut slot = 0;
        while slot < slots.len() {
            let insn = encode::decode(slots, slot).map_err(ProgramError::Decode)?;
            if let Insn::Call(Callee::Local(d)) | Insn::LoadImm { value: Imm64::Function(d), .. } = insn {
                // Calls count from the next slot; so do function addresses (kernel `add_subprog_and_kfunc`).
                let to = slot as i64 + 1 + d as i64;
                match usize::try_from(to) {
                    Ok(start) if start < slots.len() => starts.push(start),
                    _ => return Err(ProgramError::Target { slot, to }),
                }
            }
            raw.push((slot, insn));
            slot += insn.slots();
        }
        starts.sort_unstable();
        starts.dedup();
        let mut functions = Vec::with_capacity(starts.len());
        let mut rest = &raw[..];
        for (n, &start) in starts.iter().enumerate() {
            let end = starts.get(n + 1).copied().unwrap_or(slots.len());
            let (body, after) = rest.split_at(rest.partition_point(|(s, _)| *s < end));
            rest = after;
            if body.first().map(|(s, _)| *s) != Some(start) {
                return Err(if slots.is_empty() {
                    ProgramError::Empty
                } else {
                    ProgramError::Target { slot: start, to: start as i64 }
                });
            }
            let body: Vec<Insn<i32, FuncId>> = body
                .iter()
                .map(|&(s, insn)| {
                    insn.map(
                        |j| j,
                        |d| {
                            let to = (s as i64 + 1 + d as i64) as usize;
                            FuncId(starts.binary_search(&to).expect("collected above") as u32)
                        },
                    )
                })
                .collect();
            let (name, entry) = match n {
                0 => ("main".to_string(), Entry::Hook(hook)),
                n => (format!("sub_{n}"), Entry::Subprogram { global: false }),
            };
            functions.push(Function::from_raw(&name, "", entry, &body, start)?);
        }
        Ok(Program { functions, maps, ..Program::default() })
    }

    /// The number at that place of a map's first element, when [`Program::constants`] says that it is known.
    pub fn constant(&self, map: usize, offset: u64, bytes: u32) -> Option<u64> {
        let contents = self.maps[map].initial.as_ref().filter(|_| self.constants.contains(&map))?;
        let from = usize::try_from(offset).ok()?;
        let bytes = contents.get(from..from.checked_add(bytes as usize)?)?;
        Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | *byte as u64))
    }

    /// The flat array of slots that the kernel takes, functions in order.
    pub fn to_slots(&self) -> Result<Vec<Slot>, EncodeError> {
        let mut starts = Vec::new();
        let mut at = 0i64;
        for f in &self.functions {
            starts.push(at);
            at += f.slots() as i64;
        }
        let mut out = Vec::new();
        for f in &self.functions {
            for insn in f.raw()? {
                let here = out.len() as i64;
                let insn = insn.map(|j| j, |f: FuncId| (starts[f.0 as usize] - here - 1) as i32);
                let (first, second) = encode::encode(&insn)?;
                out.push(first);
                out.extend(second);
            }
        }
        Ok(out)
    }
}
