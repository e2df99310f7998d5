//! What the kernel finds a program's arena by: the instruction that loads the map's address, whatever
//! becomes of that address. Without one it refuses address casts (kernel `check_alu_op`, "can only be
//! used in a program that has an associated arena").

use crate::context::Context;
use karakoram_bpf::insn::{Imm64, Insn};
use karakoram_bpf::map::MapType;
use karakoram_proof::rewrite::Edit;

/// Whether edits keep what the kernel finds the arena by.
pub fn keeps_arena(context: &Context, edits: &[Edit]) -> bool {
    edits.iter().all(|edit| {
        let lost = edit.at.clone().filter(|p| loads_arena(context, context.insn(*p))).count();
        lost == 0 || edit.nodes.iter().filter(|n| loads_arena(context, &n.insn)).count() >= lost
    })
}

fn loads_arena(context: &Context, insn: &Insn) -> bool {
    let Insn::LoadImm { value: Imm64::Map(map) | Imm64::MapValue(map, _), .. } = insn else { return false };
    let map = context.program.map_index(*map).map(|index| &context.program.maps[index]);
    map.is_some_and(|map| map.kind == MapType::ARENA)
}
