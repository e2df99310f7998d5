//! What the kernel finds a program's arena by: the instruction that loads the map's address, whatever
//! becomes of that address. Without one it refuses address casts (kernel `check_alu_op`, "can only be
//! used in a program that has an associated arena").

use karakoram_bpf::insn::{FuncId, Imm64, Insn};
use karakoram_bpf::map::MapType;
use karakoram_bpf::program::Program;
use karakoram_proof::rewrite::Edit;

/// Whether edits keep what the kernel finds the arena by.
pub fn keeps_arena(program: &Program, function: FuncId, edits: &[Edit]) -> bool {
    let nodes = &program.function(function).nodes;
    edits.iter().all(|edit| {
        let lost = nodes[edit.at.clone()].iter().filter(|n| loads_arena(program, &n.insn)).count();
        lost == 0 || edit.nodes.iter().filter(|n| loads_arena(program, &n.insn)).count() >= lost
    })
}

fn loads_arena(program: &Program, insn: &Insn) -> bool {
    let Insn::LoadImm { value: Imm64::Map(map) | Imm64::MapValue(map, _), .. } = insn else { return false };
    let map = program.map_index(*map).map(|index| &program.maps[index]);
    map.is_some_and(|map| map.kind == MapType::ARENA)
}
