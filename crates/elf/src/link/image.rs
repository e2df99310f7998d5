//! The image: flat instructions and all that the kernel wants with them.

use super::attach::Attach;
use super::error::LinkError;
use super::externs::Externs;
use super::flatten::{self, Flattener};
use super::{Target, blob, maps, records, struct_ops};
use crate::object::Object;
use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::insn::{FuncId, InsnId};
use karakoram_bpf::map::MapDef;

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
    let functions = flatten::reachable(object, program);
    let externs = Externs::resolve(object, &flatten::used_externs(object, &functions), target)?;
    let maps = maps::used(object, &functions, &externs);
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
