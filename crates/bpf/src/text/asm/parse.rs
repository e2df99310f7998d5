//! The three things that can be read: a program, a fragment, one instruction of a known program.

use super::draft::{self, map_index};
use super::grammar::{self, Dialect, Func, Target};
use super::layout::{Layout, distance, offsets};
use crate::hook::Hook;
use crate::insn::*;
use crate::map::MapDef;
use crate::program::Program;
use crate::text::{DEFAULT_HOOK, TextError};

type Result<T> = std::result::Result<T, TextError>;

/// Reads a whole program.
pub(super) fn program(source: &str, maps: Vec<MapDef>, hook: Hook) -> Result<Program> {
    let draft = draft::read(source, maps, hook)?;
    if draft.items.is_empty() {
        return Err(TextError::whole("there is no instruction"));
    }
    Layout::of(draft)?.program()
}

/// Reads instructions without functions; targets become distances.
pub(super) fn fragment(source: &str) -> Result<Vec<RawInsn>> {
    let draft = draft::read(source, Vec::new(), DEFAULT_HOOK)?;
    if let Some(header) = draft.headers.first() {
        return Err(TextError::at(header.line, &header.name, "a fragment has no functions"));
    }
    if let Some(item) = draft.items.iter().find(|i| i.patch.is_some()) {
        return Err(TextError::at(item.line, "@patched", "a fragment cannot say this"));
    }
    let offsets = offsets(&draft.items);
    let label = |name: &str, line| match draft.labels.get(&(0, name)) {
        Some(item) => Ok(offsets[*item] as i64),
        None => Err(TextError::at(line, name, "no such label")),
    };
    draft
        .items
        .iter()
        .enumerate()
        .map(|(i, item)| {
            let end = offsets[i] as i64 + item.insn.slots() as i64;
            item.insn.try_map(
                |target| match target {
                    Target::Distance(d) => distance(&item.insn, d as i64, item.line),
                    Target::Label(name) => distance(&item.insn, label(name, item.line)? - end, item.line),
                    Target::Id(id) => Err(no_identity(id, item.line)),
                },
                |func| match func {
                    Func::Distance(d) => Ok(d),
                    // Calls and function addresses both count from the slot after their first.
                    Func::Name(name) => Ok((label(name, item.line)? - offsets[i] as i64 - 1) as i32),
                    Func::Index(n) => Err(TextError::at(item.line, &format!("idx:{n}"), "a fragment has no functions")),
                },
            )
        })
        .collect()
}

/// Reads one instruction whose targets are identities, inside a program that has its functions and maps.
pub(super) fn identified(text: &str, program: &Program) -> Result<Insn> {
    let maps = |name: &str| map_index(&program.maps, name);
    let (insn, patch) = grammar::instruction(text, 1, &maps, Dialect::default())?;
    if patch.is_some() {
        return Err(TextError::at(1, "@patched", "not expected here"));
    }
    let function = |name: &str| {
        let mut found = program.functions.iter().enumerate().filter(|(_, f)| f.name == name);
        match (found.next(), found.next()) {
            (Some((i, _)), None) => Ok(FuncId(i as u32)),
            (None, _) => Err(TextError::at(1, name, "no such function")),
            _ => Err(TextError::at(1, name, "several functions have this name; use `func[idx:N]`")),
        }
    };
    insn.try_map(
        |target| match target {
            Target::Id(id) => Ok(InsnId(id)),
            _ => Err(TextError::at(1, text.trim(), "a target here is an identity, `@N`")),
        },
        |func| match func {
            Func::Name(name) => function(name),
            Func::Index(n) if (n as usize) < program.functions.len() => Ok(FuncId(n)),
            _ => Err(TextError::at(1, text.trim(), "no such function")),
        },
    )
}

/// `@7` where only labels and distances mean something.
pub(super) fn no_identity(id: u32, line: usize) -> TextError {
    TextError::at(line, &format!("@{id}"), "identities have no meaning here; use a label or a distance")
}
