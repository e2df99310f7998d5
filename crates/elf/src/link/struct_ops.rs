//! Programs that are members of a kernel structure of functions.

use super::core::essential_name;
use super::error::{LinkError, missing};
use crate::btf::{Btf, BtfError, Kind};
use crate::object::Object;
use karakoram_bpf::insn::FuncId;

/// The kernel structure that a program is for, and which member of it: `attach_btf_id` and
/// `expected_attach_type` of its load. Read from the variable in `.struct_ops` that points to it.
pub(super) fn member(object: &Object, program: FuncId, kernel: Option<&Btf>) -> Result<(u32, u32), LinkError> {
    let name = &object.program.function(program).name;
    let Some((structure, member)) = local_member(object, program)? else {
        return missing(format!("structure for {name}: no variable in .struct_ops points to it"));
    };
    let Some(kernel) = kernel else {
        return missing(format!("BTF, which is needed to find structure {structure}"));
    };
    let found = kernel.find(essential_name(&structure), Kind::Struct);
    let index = found.and_then(|t| t.members().position(|m| m.name == member));
    match found.zip(index) {
        Some((structure, index)) => Ok((structure.id, index as u32)),
        None => missing(format!("member {member} of structure {structure}")),
    }
}

/// Names of the structure and member that point to a function.
fn local_member(object: &Object, program: FuncId) -> Result<Option<(String, String)>, BtfError> {
    let (Some(btf), origin) = (&object.btf, &object.origins[program.0 as usize]) else { return Ok(None) };
    for (number, section) in object.container.sections.iter().enumerate() {
        let name = section.name.strip_prefix('?').unwrap_or(&section.name);
        let Some(table) = object.relocations.get(&number).filter(|_| name.starts_with(".struct_ops")) else { continue };
        let points = |symbol: u32| {
            object
                .symbols
                .get(symbol)
                .is_some_and(|s| s.section == Some(origin.section) && s.value == origin.range.start)
        };
        for entry in table.entries.iter().filter(|r| points(r.symbol)) {
            if let Some(found) = member_at(object, btf, number, &section.name, entry.offset)? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// The structure and member at an offset of a section.
fn member_at(
    object: &Object,
    btf: &Btf,
    section: usize,
    section_name: &str,
    offset: u64,
) -> Result<Option<(String, String)>, BtfError> {
    let Some(variables) = btf.find(section_name, Kind::DataSection) else { return Ok(None) };
    for variable in variables.variables() {
        let named = btf.get(variable.ty)?;
        let symbol = object.symbols.entries.iter().find(|s| s.section == Some(section) && s.name == named.name);
        let start = symbol.map_or(variable.offset as u64, |s| s.value);
        let Some(inside) = offset.checked_sub(start).filter(|o| *o < variable.size as u64) else { continue };
        let ty = btf.resolve(named.inner().unwrap_or(0))?;
        let member = ty.members().find(|m| m.bit_offset as u64 == inside * 8);
        return Ok(member.map(|m| (ty.name.to_string(), m.name.to_string())));
    }
    Ok(None)
}
