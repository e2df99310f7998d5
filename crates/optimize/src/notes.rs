//! What kept the optimizer from looking closer: calls and maps that are only known in outline.

use karakoram_bpf::helper;
use karakoram_bpf::insn::{Callee, Insn};
use karakoram_bpf::program::Program;
use std::collections::BTreeMap;

/// How often each thing without a contract occurs, by name.
pub fn barriers(program: &Program) -> BTreeMap<String, usize> {
    let mut notes = BTreeMap::new();
    for node in program.functions.iter().flat_map(|f| &f.nodes) {
        let name = match &node.insn {
            Insn::Call(Callee::Helper(id)) if helper::contract(*id).is_none() => match helper::name(*id) {
                Some(name) => format!("helper {name}"),
                None => format!("helper {id}"),
            },
            Insn::Call(Callee::Kfunc { id, .. }) => format!("kernel function {id}"),
            Insn::Call(Callee::Extern(_)) => "extern function".to_string(),
            Insn::Call(Callee::Register(_)) => "call through a register".to_string(),
            Insn::AddrCast { .. } => "address space cast".to_string(),
            _ if node.patched_at_load => "instruction changed at load".to_string(),
            _ => continue,
        };
        *notes.entry(name).or_insert(0) += 1;
    }
    notes
}
