//! Programs without names: one function, or several behind one another, as the kernel takes them.

use super::{MAX_SLOTS, TextError, asm};
use crate::encode::{self, EncodeError, Slot};
use crate::hook::Hook;
use crate::insn::*;
use crate::map::MapDef;
use crate::program::{Entry, Program, ProgramError};

/// A slot and the line it was written on.
pub(super) struct Row {
    pub slot: Slot,
    pub line: usize,
}

/// The program of some slots.
pub(super) fn program(rows: &[Row], hook: Hook, maps: Vec<MapDef>) -> Result<Program, TextError> {
    if rows.len() > MAX_SLOTS {
        return Err(TextError::whole(format!("more than {MAX_SLOTS} slots")));
    }
    let slots: Vec<Slot> = rows.iter().map(|r| r.slot).collect();
    let line = |slot: usize| rows.get(slot).or(rows.last()).map_or(0, |r| r.line);
    Program::from_slots(&slots, hook, maps).map_err(|e| match e {
        ProgramError::Decode(d) => TextError::at(line(d.slot), "", d.reason),
        ProgramError::Target { slot, to } => {
            TextError::at(line(slot), "", format!("it goes to slot {to}, where no instruction of its function begins"))
        }
        ProgramError::FallsOff { slot } => {
            TextError::at(line(slot.saturating_sub(1)), "", "control runs past the end of the function")
        }
        ProgramError::Empty => TextError::whole("there is no instruction"),
    })
}

/// The instructions of a program with their distances, for formats that hold nothing else.
pub(super) fn instructions(program: &Program) -> Result<Vec<RawInsn>, TextError> {
    let hooks = program.functions.iter().filter(|f| matches!(f.entry, Entry::Hook(_))).count();
    if hooks != 1 || !matches!(program.functions[0].entry, Entry::Hook(_)) {
        return Err(TextError::whole(format!(
            "this format holds one program, which comes first, and the functions it calls; here {hooks} have a hook"
        )));
    }
    for function in &program.functions {
        for node in &function.nodes {
            check(program, &node.insn, node.patch.is_some())?;
        }
    }
    let slots = program.to_slots().map_err(|e| TextError::whole(e.to_string()))?;
    let mut out = Vec::new();
    let mut at = 0;
    while at < slots.len() {
        let insn = encode::decode(&slots, at).map_err(|e| TextError::whole(e.to_string()))?;
        at += insn.slots();
        out.push(insn);
    }
    Ok(out)
}

/// Refuses what only an object can say.
fn check(program: &Program, insn: &Insn, patched: bool) -> Result<(), TextError> {
    let refuse = |why: String| Err(TextError { line: 0, token: asm::print_insn(insn, program), reason: why });
    if patched {
        return refuse("the loader would change this instruction, and this format cannot say so; use assembly".into());
    }
    match encode::encode(&insn.map(|_| 0, |_| 0)) {
        Ok(_) => Ok(()),
        Err(EncodeError::Unresolved) => refuse("this format has no externs; use assembly".into()),
        Err(why) => refuse(why.to_string()),
    }
}
