//! The image: flat instructions and all that the kernel wants with them.

use super::Target;
use super::attach::Attach;
use super::core::Engine;
use super::error::{LinkError, invalid};
use super::externs::{Externs, Resolution};
use super::{blob, records, struct_ops};
use crate::btf::Kind;
use crate::btf::ext::{Record, Table};
use crate::code::SLOT_BYTES;
use crate::lift;
use crate::object::Object;
use karakoram_bpf::encode::{self, Slot};
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::insn::{Callee, FuncId, Imm64, Insn, InsnId, MapRef, RawInsn};
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_bpf::program::{Function, Node};
use std::collections::{BTreeMap, HashMap};

/// `BPF_F_RDONLY_PROG`.
const READ_ONLY_FOR_PROGRAMS: u32 = 1 << 7;

/// Everything that loading one program takes, as plain data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadImage {
    /// Name of the program.
    pub name: String,
    /// Section it came from.
    pub section: String,
    /// Program type.
    pub program_type: ProgramType,
    /// `enum bpf_attach_type`.
    pub expected_attach_type: u32,
    /// Kernel type that it is attached to, 0 for none.
    pub attach_btf_id: u32,
    /// What the section says it is attached to.
    pub attach_target: Option<String>,
    /// `BPF_F_*` of program load.
    pub flags: u32,
    /// License.
    pub license: String,
    /// Kernel version that the object was compiled for, 0 when it does not say.
    pub kernel_version: u32,
    /// Instructions of the program and of all functions that it needs. Maps are named by position in
    /// `maps` (`BPF_PSEUDO_MAP_IDX` and `BPF_PSEUDO_MAP_IDX_VALUE`).
    pub slots: Vec<Slot>,
    /// Where each slot came from.
    pub origins: Vec<SlotOrigin>,
    /// The functions in `slots`, with their first slots.
    pub functions: Vec<(FuncId, usize)>,
    /// Maps to create.
    pub maps: Vec<LoadMap>,
    /// BTF to load first; type ids are about this.
    pub btf: Option<Vec<u8>>,
    /// Function records as the kernel takes them; empty when there are none for all functions.
    pub func_info: Vec<u8>,
    /// Bytes of a function record.
    pub func_info_record_bytes: u32,
    /// Line records as the kernel takes them; empty when a function has none.
    pub line_info: Vec<u8>,
    /// Bytes of a line record.
    pub line_info_record_bytes: u32,
    /// Source lines by first slot.
    pub lines: Vec<SourceLine>,
}

/// A map to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadMap {
    /// Definition.
    pub def: MapDef,
    /// Position in the object's program; `None` for the map of configuration variables.
    pub object_map: Option<usize>,
    /// BTF type of the keys, 0 for none.
    pub key_type: u32,
    /// BTF type of the values, 0 for none.
    pub value_type: u32,
    /// `map_extra`.
    pub extra: u64,
    /// NUMA node.
    pub numa_node: Option<u32>,
}

/// Where a slot came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotOrigin {
    /// Function of the object.
    pub function: FuncId,
    /// Instruction of it; both slots of a wide one have the same.
    pub insn: InsnId,
}

/// A line of source code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLine {
    /// First slot that belongs to it.
    pub slot: usize,
    /// File.
    pub file: String,
    /// Line number.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// Text of the line.
    pub text: String,
}

impl LoadImage {
    /// The source line that a slot belongs to.
    pub fn line(&self, slot: usize) -> Option<&SourceLine> {
        let n = self.lines.partition_point(|l| l.slot <= slot);
        self.lines.get(n.checked_sub(1)?)
    }
}

pub(super) fn build(object: &Object, program: FuncId, target: &Target) -> Result<LoadImage, LinkError> {
    let functions = reachable(object, program);
    let externs = Externs::resolve(object, &used_externs(object, &functions), target)?;
    let maps = maps(object, &functions, &externs);
    let mut flattener = Flattener::new(object, &functions, &externs, &maps, target);
    let (slots, origins) = flattener.flatten()?;
    let function = object.program.function(program);
    let mut attach = Attach::from_section(&function.section);
    if let Some(program_type) = target.program_type {
        attach.program_type = program_type;
    }
    let mut attach_btf_id = attach.btf_id(target.btf)?;
    if attach.program_type == ProgramType::STRUCT_OPS {
        (attach_btf_id, attach.expected_attach_type) = struct_ops::member(object, program, target.btf)?;
    }
    let btf = object.btf.as_ref().map(|btf| blob::prepare(object, btf, &externs)).transpose()?;
    let records = records::collect(object, &flattener.functions);
    Ok(LoadImage {
        name: function.name.clone(),
        section: function.section.clone(),
        program_type: attach.program_type,
        expected_attach_type: attach.expected_attach_type,
        attach_btf_id,
        attach_target: attach.target,
        flags: attach.flags,
        license: object.license().to_string(),
        kernel_version: object.kernel_version().unwrap_or(0),
        functions: flattener.functions,
        slots,
        origins,
        maps,
        btf,
        func_info: records.functions,
        func_info_record_bytes: records.function_bytes,
        line_info: records.lines,
        line_info_record_bytes: records.line_bytes,
        lines: records.source,
    })
}

/// The program and all functions it needs, each before those that it is the first to name: the order
/// of libbpf, so that the kernel gives both the same tag.
fn reachable(object: &Object, program: FuncId) -> Vec<FuncId> {
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

fn nodes<'a>(object: &'a Object, functions: &'a [FuncId]) -> impl Iterator<Item = &'a Node> {
    functions.iter().flat_map(|id| &object.program.function(*id).nodes)
}

fn used_externs(object: &Object, functions: &[FuncId]) -> Vec<u32> {
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

/// The maps that the functions use, and the one of configuration variables if they use any.
fn maps(object: &Object, functions: &[FuncId], externs: &Externs) -> Vec<LoadMap> {
    let mut used = vec![false; object.maps.len()];
    let mut config = false;
    for node in nodes(object, functions) {
        let Insn::LoadImm { value, .. } = node.insn else { continue };
        match value {
            Imm64::Map(MapRef::Index(map)) | Imm64::MapValue(MapRef::Index(map), _) => {
                if let Some(used) = used.get_mut(map as usize) {
                    *used = true;
                }
            }
            Imm64::Extern(n) => config |= matches!(externs.get(n), Some(Resolution::Config(_))),
            _ => {}
        }
    }
    let mut maps: Vec<LoadMap> = Vec::new();
    for (i, map) in object.maps.iter().enumerate().filter(|(i, _)| used[*i]) {
        let typed = may_have_types(map.def.kind);
        maps.push(LoadMap {
            def: map.def.clone(),
            object_map: Some(i),
            key_type: if typed { map.key_type } else { 0 },
            value_type: if typed { map.value_type } else { 0 },
            extra: map.extra,
            numa_node: map.numa_node,
        });
    }
    if config {
        maps.push(config_map(object, externs));
    }
    maps
}

/// Kinds of maps that the kernel creates only without types.
fn may_have_types(kind: MapType) -> bool {
    !matches!(
        kind,
        MapType::PROG_ARRAY
            | MapType::PERF_EVENT_ARRAY
            | MapType::CGROUP_ARRAY
            | MapType::STACK_TRACE
            | MapType::ARRAY_OF_MAPS
            | MapType::HASH_OF_MAPS
            | MapType::DEVMAP
            | MapType::DEVMAP_HASH
            | MapType::CPUMAP
            | MapType::XSKMAP
            | MapType::SOCKMAP
            | MapType::SOCKHASH
            | MapType::QUEUE
            | MapType::STACK
            | MapType::RINGBUF
    )
}

fn config_map(object: &Object, externs: &Externs) -> LoadMap {
    let section = object.btf.as_ref().and_then(|b| b.find(".kconfig", Kind::DataSection)).map_or(0, |t| t.id);
    LoadMap {
        def: MapDef {
            name: ".kconfig".into(),
            kind: MapType::ARRAY,
            key_size: 4,
            value_size: externs.config().len() as u32,
            max_entries: 1,
            flags: READ_ONLY_FOR_PROGRAMS,
            fd: None,
            initial: Some(externs.config().to_vec()),
            frozen: true,
            inner: None,
        },
        object_map: None,
        key_type: 0,
        value_type: section,
        extra: 0,
        numa_node: None,
    }
}

/// Lays the functions out one after the other.
struct Flattener<'a> {
    object: &'a Object,
    externs: &'a Externs,
    functions: Vec<(FuncId, usize)>,
    starts: HashMap<FuncId, i64>,
    /// New position of each of the object's maps.
    map_numbers: HashMap<usize, i32>,
    config_map: i32,
    engine: Option<Engine<'a>>,
}

impl<'a> Flattener<'a> {
    fn new(
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

    fn flatten(&mut self) -> Result<(Vec<Slot>, Vec<SlotOrigin>), LinkError> {
        let (mut slots, mut origins) = (Vec::new(), Vec::new());
        for (id, _) in self.functions.clone() {
            let function = self.object.program.function(id);
            let explain = |e: &dyn std::fmt::Display| LinkError::Invalid(format!("function {}: {e}", function.name));
            let mut patches = self.patches(id, function);
            for (node, insn) in function.nodes.iter().zip(function.raw().map_err(|e| explain(&e))?) {
                let (insn, poison) = self.resolve(insn, slots.len() as i64).map_err(|e| explain(&e))?;
                let (first, second) = encode::encode(&insn).map_err(|e| explain(&e))?;
                let mut encoded: Vec<Slot> = [first].into_iter().chain(second).collect();
                if poison {
                    encoded[0].src = 0;
                }
                for record in patches.remove(&node.id).unwrap_or_default() {
                    let Some(engine) = &mut self.engine else { continue };
                    engine.apply(&record, &mut encoded).map_err(|e| match e {
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

    /// The CO-RE relocations of a function by instruction.
    fn patches(&self, id: FuncId, function: &Function) -> BTreeMap<InsnId, Vec<Record>> {
        let mut patches: BTreeMap<InsnId, Vec<Record>> = BTreeMap::new();
        let (Some(btf), Some(ext)) = (&self.object.btf, &self.object.ext) else { return patches };
        let origin = &self.object.origins[id.0 as usize];
        let offsets = function.slot_offsets();
        for record in ext.records(Table::Relocations, btf, &function.section) {
            if !origin.range.contains(&(record.offset() as u64)) {
                continue;
            }
            let slot = (record.offset() as u64 - origin.range.start) / SLOT_BYTES;
            if let Ok(n) = offsets.binary_search(&(slot as usize))
                && let Some(node) = function.nodes.get(n)
            {
                patches.entry(node.id).or_default().push(record.clone());
            }
        }
        patches
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
