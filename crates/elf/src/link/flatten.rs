//! The program and the functions it needs as one array of slots, with every symbol resolved.

use super::Target;
use super::core::Engine;
use super::error::{LinkError, invalid};
use super::externs::{Externs, Resolution};
use super::image::{LoadMap, SlotOrigin};
use crate::lift;
use crate::object::Object;
use karakoram_bpf::encode::{self, Slot};
use karakoram_bpf::insn::{Callee, FuncId, Imm64, Insn, MapRef, RawInsn};
use karakoram_bpf::program::Node;
use std::collections::HashMap;

/// The program and all functions it needs, each before those that it is the first to name: the order
/// of libbpf, so that the kernel gives both the same tag.
pub(super) fn reachable(object: &Object, program: FuncId) -> Vec<FuncId> {
    let mut found = Vec::new();
    let mut next = vec![program];
    while let Some(id) = next.pop() {
        if !found.contains(&id) {
            found.push(id);
            let named: Vec<FuncId> = lift::referred(object.program.function(id)).collect();
            next.extend(named.into_iter().rev());
        }
    }
    found
}

pub(super) fn nodes<'a>(object: &'a Object, functions: &'a [FuncId]) -> impl Iterator<Item = &'a Node> {
    functions.iter().flat_map(|id| &object.program.function(*id).nodes)
}

/// Extern symbols that the functions use.
pub(super) fn used_externs(object: &Object, functions: &[FuncId]) -> Vec<u32> {
    let mut used: Vec<u32> = nodes(object, functions)
        .filter_map(|node| match node.insn {
            Insn::LoadImm { value: Imm64::Extern(n), .. } | Insn::Call(Callee::Extern(n)) => Some(n),
            _ => None,
        })
        .collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// Lays the functions out one after the other.
pub(super) struct Flattener<'a> {
    object: &'a Object,
    externs: &'a Externs,
    /// Functions with their first slots.
    pub functions: Vec<(FuncId, usize)>,
    starts: HashMap<FuncId, i64>,
    /// New position of each of the object's maps.
    map_numbers: HashMap<usize, i32>,
    config_map: i32,
    engine: Option<Engine<'a>>,
}

impl<'a> Flattener<'a> {
    pub fn new(
        object: &'a Object,
        functions: &[FuncId],
        externs: &'a Externs,
        maps: &[LoadMap],
        target: &Target<'a>,
    ) -> Flattener<'a> {
        let mut at = 0;
        let mut placed = Vec::new();
        for &id in functions {
            placed.push((id, at));
            at += object.program.function(id).slots();
        }
        let numbers = maps.iter().enumerate().filter_map(|(i, m)| Some((m.object_map?, i as i32)));
        Flattener {
            object,
            externs,
            starts: placed.iter().map(|(id, at)| (*id, *at as i64)).collect(),
            functions: placed,
            map_numbers: numbers.collect(),
            config_map: maps.len() as i32 - 1,
            engine: object.btf.as_ref().map(|btf| Engine::new(btf, target.btf)),
        }
    }

    pub fn flatten(&mut self) -> Result<(Vec<Slot>, Vec<SlotOrigin>), LinkError> {
        let (mut slots, mut origins) = (Vec::new(), Vec::new());
        for (id, _) in self.functions.clone() {
            let function = self.object.program.function(id);
            let explain = |e: &dyn std::fmt::Display| LinkError::Invalid(format!("function {}: {e}", function.name));
            for (node, insn) in function.nodes.iter().zip(function.raw().map_err(|e| explain(&e))?) {
                let (insn, poison) = self.resolve(insn, slots.len() as i64).map_err(|e| explain(&e))?;
                let (first, second) = encode::encode(&insn).map_err(|e| explain(&e))?;
                let mut encoded: Vec<Slot> = [first].into_iter().chain(second).collect();
                if poison {
                    encoded[0].src = 0;
                }
                for record in node.patch.iter().flat_map(|p| self.object.patches.records(*p)) {
                    let Some(engine) = &mut self.engine else { continue };
                    engine.apply(record, &mut encoded).map_err(|e| match e {
                        LinkError::Invalid(_) => explain(&e),
                        e => e,
                    })?;
                }
                origins.extend(encoded.iter().map(|_| SlotOrigin { function: id, insn: node.id }));
                slots.extend(encoded);
            }
        }
        Ok((slots, origins))
    }

    /// The instruction as the kernel takes it, and whether it is a call that must never run.
    fn resolve(&self, insn: Insn<i32, FuncId>, at: i64) -> Result<(RawInsn, bool), LinkError> {
        let mut poison = false;
        let insn = match insn {
            Insn::LoadImm { dst, value } => Insn::LoadImm { dst, value: self.value(value)? },
            Insn::Call(Callee::Extern(n)) => Insn::Call(match self.externs.get(n) {
                Some(Resolution::Typed(id)) => Callee::Kfunc { id: id as i32, off: 0 },
                Some(Resolution::Absent(number)) => {
                    poison = true;
                    Callee::Helper(number)
                }
                _ => return invalid(format!("calls extern symbol {n}, which is no function")),
            }),
            insn => insn,
        };
        let distance = |f: FuncId| match self.starts.get(&f) {
            Some(start) => Ok((start - at - 1) as i32),
            None => invalid("calls a function that is not there"),
        };
        Ok((insn.try_map(Ok, distance)?, poison))
    }

    fn value(&self, value: Imm64<FuncId>) -> Result<Imm64<FuncId>, LinkError> {
        let map = |n: i32| match usize::try_from(n).ok().and_then(|n| self.map_numbers.get(&n)) {
            Some(number) => Ok(MapRef::Index(*number)),
            None => invalid(format!("names map {n}, which is not there")),
        };
        Ok(match value {
            Imm64::Map(MapRef::Index(n)) => Imm64::Map(map(n)?),
            Imm64::MapValue(MapRef::Index(n), offset) => Imm64::MapValue(map(n)?, offset),
            Imm64::Extern(n) => match self.externs.get(n) {
                Some(Resolution::Config(offset)) => Imm64::MapValue(MapRef::Index(self.config_map), offset),
                Some(Resolution::Address(address)) => Imm64::Value(address),
                Some(Resolution::Typed(id)) => Imm64::Btf { id: id as i32, fd: 0 },
                Some(Resolution::Absent(_)) => Imm64::Value(0),
                None => return invalid(format!("uses extern symbol {n}, which was not resolved")),
            },
            value => value,
        })
    }
}
