//! Changes of a program as a whole, made to the input before its functions are worked on: what is proven
//! of functions afterwards is proven of the program that these give. Each is made here, from nothing but
//! what it names, so there is nothing in it that could be wrong.

use crate::inline::inline;
use crate::refusal::Refusal;
use karakoram_bpf::insn::{Callee, FuncId, Imm64, Insn, InsnId};
use karakoram_bpf::program::{Entry, Program};

/// A change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The code of a function comes in place of a call of it.
    Inline {
        /// The function that calls.
        caller: FuncId,
        /// The call.
        call: InsnId,
    },
    /// A function that nobody refers to goes; it stays in the list of functions, without code.
    Remove {
        /// The function.
        function: FuncId,
    },
}

/// The program with a change made.
pub fn change(program: &Program, change: Change) -> Result<Program, Refusal> {
    let is_there = |f: FuncId| program.functions.get(f.0 as usize).is_some_and(|f| !f.nodes.is_empty());
    let mut changed = program.clone();
    match change {
        Change::Inline { caller, call } if is_there(caller) => {
            changed.functions[caller.0 as usize] = inline(program, caller, call)?;
        }
        Change::Remove { function } if is_there(function) => {
            check_unused(program, function)?;
            changed.functions[function.0 as usize].nodes.clear();
        }
        _ => return Err(Refusal::Malformed("there is no such function")),
    }
    Ok(changed)
}

/// Whether nothing can come to a function: it is known by name in its object only, all code there is
/// seen, and none of it but its own calls it or takes its address.
fn check_unused(program: &Program, function: FuncId) -> Result<(), Refusal> {
    if program.has_unseen_callers || program.function(function).entry != (Entry::Subprogram { global: false }) {
        return Err(Refusal::Unsafe("others may call the function".to_string()));
    }
    for (i, other) in program.functions.iter().enumerate().filter(|(i, _)| *i != function.0 as usize) {
        for node in &other.nodes {
            if let Insn::Call(Callee::Local(f)) | Insn::LoadImm { value: Imm64::Function(f), .. } = node.insn
                && f == function
            {
                let user = &program.functions[i].name;
                return Err(Refusal::Unsafe(format!("{user} refers to the function")));
            }
        }
    }
    Ok(())
}
