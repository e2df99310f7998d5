//! What is known of a program in outline only: callees without a contract, map types that are not
//! described, instructions whose meaning is decided elsewhere. Whoever reasons about the program takes
//! each of them to do the worst it could.

use crate::helper;
use crate::insn::{Callee, FuncId, Imm64, Insn};
use crate::program::{Node, Program};
use std::collections::BTreeMap;

/// How often each of them occurs in those functions, by name.
pub fn barriers(program: &Program, functions: &[FuncId]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for node in functions.iter().flat_map(|f| &program.function(*f).nodes) {
        if let Some(name) = barrier(program, node) {
            *found.entry(name).or_insert(0) += 1;
        }
    }
    found
}

fn barrier(program: &Program, node: &Node) -> Option<String> {
    match &node.insn {
        Insn::Call(callee) if helper::contract_of(callee).is_none() => call(program, callee),
        Insn::LoadImm { value: Imm64::Map(map) | Imm64::MapValue(map, _), .. } => {
            let kind = program.maps.get(program.map_index(*map)?)?.kind;
            kind.behaviour().is_none().then(|| format!("map type {}", kind.name()))
        }
        Insn::AddrCast { .. } => Some("address space cast".into()),
        _ if node.patch.is_some() && node.patched_constant().is_none() => Some("CO-RE relocation".into()),
        _ => None,
    }
}

fn call(program: &Program, callee: &Callee<FuncId>) -> Option<String> {
    Some(match callee {
        Callee::Helper(id) => helper::name(*id).map_or_else(|| format!("helper {id}"), |name| format!("bpf_{name}")),
        Callee::Extern(n) => program.externs.get(n).map_or("kfunc".into(), |p| format!("kfunc {}", p.name)),
        Callee::Kfunc { id, .. } => format!("kfunc with BTF id {id}"),
        Callee::Register(_) => "call through a register".into(),
        // Its code is there to be looked at.
        Callee::Local(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::asm;

    #[test]
    fn what_has_no_contract_is_counted_in_the_functions_asked_for() {
        let program = asm::parse(
            ".map a type=33 key=0 value=0 entries=1 fd=3\n.map h type=hash key=4 value=4 entries=1 fd=4\n\
             .func main\n.hook xdp\nr1 = map[a] ll\nr1 = map[h] ll\ncall bpf_ktime_get_ns\ncall bpf_find_vma\n\
             call bpf_find_vma\ncall sub\nr0 = 0\nexit\n.func sub\n.local\ncall 4000\nr0 = 0\nexit\n",
        )
        .unwrap();
        let main = barriers(&program, &[FuncId(0)]);
        let expected = [("bpf_find_vma".to_string(), 2), ("map type arena".to_string(), 1)];
        assert_eq!(main, BTreeMap::from(expected));
        assert_eq!(barriers(&program, &[FuncId(1)]), BTreeMap::from([("helper 4000".to_string(), 1)]));
    }
}
