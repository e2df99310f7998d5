//! From a draft to functions: where they begin, what labels and names stand for.

use super::draft::{Draft, Item};
use super::grammar::{Func, Target, Written};
use super::parse::no_identity;
use crate::insn::*;
use crate::program::{Entry, Function, Program, ProgramError};
use crate::text::TextError;
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Result<T> = std::result::Result<T, TextError>;

/// Items with their slots, cut into functions.
pub(super) struct Layout<'a> {
    draft: Draft<'a>,
    offsets: Vec<usize>,
    /// First item of every function, ascending.
    starts: Vec<usize>,
    /// A label for every item that has one; functions without header are named after it.
    names: BTreeMap<usize, &'a str>,
    /// First item of every explicit function by name; `None` when several have it.
    functions: HashMap<String, Option<usize>>,
}

impl<'a> Layout<'a> {
    /// Finds the functions of a draft.
    pub fn of(mut draft: Draft<'a>) -> Result<Layout<'a>> {
        let offsets = offsets(&draft.items);
        let explicit = !draft.headers.is_empty();
        let mut starts: BTreeSet<usize> = draft.headers.iter().map(|h| h.first).collect();
        starts.insert(0);
        if explicit {
            draft.check_headers()?;
        }
        let names = draft.labels.iter().map(|((_, name), item)| (*item, *name)).collect();
        let mut functions = HashMap::new();
        for h in &draft.headers {
            functions.entry(h.name.clone()).and_modify(|first| *first = None).or_insert(Some(h.first));
        }
        let mut layout = Layout { draft, offsets, starts: Vec::new(), names, functions };
        if !explicit {
            for i in 0..layout.draft.items.len() {
                if let Some(func) = function_named(&layout.draft.items[i].insn) {
                    starts.insert(layout.callee_item(i, func)?);
                }
            }
        }
        layout.starts = starts.into_iter().collect();
        layout.check_numbers()?;
        Ok(layout)
    }

    /// The item that a call or function address of item `i` names.
    fn callee_item(&self, i: usize, func: Func) -> Result<usize> {
        let line = self.draft.items[i].line;
        match func {
            Func::Distance(-1) => {
                let why = "a call of itself: in the listing of an object a relocation says where it goes";
                Err(TextError::at(line, "-1", why))
            }
            Func::Distance(d) => {
                let slot = self.offsets[i] as i64 + 1 + d as i64;
                let found = usize::try_from(slot).ok().and_then(|s| self.offsets.binary_search(&s).ok());
                found.filter(|n| *n < self.draft.items.len()).ok_or_else(|| {
                    TextError::at(line, &format!("{d:+}"), format!("there is no instruction at slot {slot} to call"))
                })
            }
            Func::Index(n) => {
                let first = self.draft.headers.get(n as usize).map(|h| h.first);
                first.ok_or_else(|| TextError::at(line, &format!("idx:{n}"), "no such function"))
            }
            Func::Name(name) => {
                match self.functions.get(name) {
                    Some(Some(first)) => return Ok(*first),
                    Some(None) => {
                        return Err(TextError::at(line, name, "several functions have this name; use `func[idx:N]`"));
                    }
                    None => {}
                }
                let label = self.draft.labels.get(&(0, name)).filter(|n| **n < self.draft.items.len());
                match label {
                    Some(item) if self.draft.headers.is_empty() => Ok(*item),
                    _ => Err(TextError::at(line, name, "no such function, and no such helper")),
                }
            }
        }
    }

    /// Numbers count slots; a gap means that something is missing.
    fn check_numbers(&self) -> Result<()> {
        for i in 1..self.draft.items.len() {
            let (before, item) = (&self.draft.items[i - 1], &self.draft.items[i]);
            if !self.draft.headers.is_empty() && self.starts.binary_search(&i).is_ok() {
                continue;
            }
            if let (Some(a), Some(b)) = (before.number, item.number) {
                let expected = a.saturating_add(before.insn.slots() as u64);
                if b != expected {
                    let why = format!("the numbers of instructions count slots of 8 bytes: expected {expected}");
                    return Err(TextError::at(item.line, &b.to_string(), why));
                }
            }
        }
        Ok(())
    }

    /// The program, all names looked up.
    pub fn program(mut self) -> Result<Program> {
        let mut functions = Vec::with_capacity(self.starts.len());
        for n in 0..self.starts.len() {
            functions.push(self.function(n)?);
        }
        Ok(Program { functions, maps: std::mem::take(&mut self.draft.maps), ..Program::default() })
    }

    fn function(&self, n: usize) -> Result<Function> {
        let first = self.starts[n];
        let end = self.starts.get(n + 1).copied().unwrap_or(self.draft.items.len());
        let items = &self.draft.items[first..end];
        let raw: Vec<Insn<i32, FuncId>> = (first..end).map(|i| self.resolve(i)).collect::<Result<_>>()?;
        let (name, section, entry) = self.identity(n);
        let base = self.offsets[first];
        let line_of = |slot: usize| {
            let item = self.offsets.partition_point(|o| *o <= slot).saturating_sub(1);
            self.draft.items[item.min(self.draft.items.len() - 1)].line
        };
        let mut function = Function::from_raw(&name, &section, entry, &raw, base).map_err(|e| match e {
            ProgramError::Target { slot, .. } => {
                TextError::at(line_of(slot), "", "the jump leaves its function or hits the middle of a constant")
            }
            ProgramError::FallsOff { slot } => {
                TextError::at(line_of(slot.saturating_sub(1)), "", format!("control runs past the end of `{name}`"))
            }
            other => TextError::at(items.first().map_or(0, |i| i.line), "", other.to_string()),
        })?;
        for (node, item) in function.nodes.iter_mut().zip(items) {
            node.patch = item.patch;
        }
        Ok(function)
    }

    /// Name, section and entry of the function that begins at `starts[n]`.
    fn identity(&self, n: usize) -> (String, String, Entry) {
        let first = self.starts[n];
        let default = || match n {
            0 => self.draft.entry.clone().unwrap_or(Entry::Hook(self.draft.hook)),
            _ => Entry::Subprogram { global: false },
        };
        if let Ok(found) = self.draft.headers.binary_search_by_key(&first, |h| h.first) {
            let header = &self.draft.headers[found];
            return (header.name.clone(), header.section.clone(), header.entry.clone().unwrap_or_else(default));
        }
        if n == 0 {
            return ("main".into(), self.draft.section.clone().unwrap_or_default(), default());
        }
        let label = self.names.get(&first).map(|name| name.to_string());
        (label.unwrap_or_else(|| format!("sub_{n}")), String::new(), default())
    }

    /// Item `i` with distances and function numbers.
    fn resolve(&self, i: usize) -> Result<Insn<i32, FuncId>> {
        let item = &self.draft.items[i];
        let end = self.offsets[i] as i64 + item.insn.slots() as i64;
        // Labels belong to the explicit function they stand in.
        let scope = self.draft.headers.partition_point(|h| h.first <= i);
        item.insn.try_map(
            |target| match target {
                Target::Distance(d) => distance(&item.insn, d as i64, item.line),
                Target::Label(name) => match self.draft.labels.get(&(scope, name)) {
                    Some(to) => distance(&item.insn, self.offsets[*to] as i64 - end, item.line),
                    None => Err(TextError::at(item.line, name, "no such label in this function")),
                },
                Target::Id(id) => Err(no_identity(id, item.line)),
            },
            |func| {
                let to = self.callee_item(i, func)?;
                match self.starts.binary_search(&to) {
                    Ok(n) => Ok(FuncId(n as u32)),
                    Err(_) => Err(TextError::at(item.line, "", "the call goes into the middle of a function")),
                }
            },
        )
    }
}

impl Draft<'_> {
    /// Every function has code, and code before the first belongs to a function of its own.
    fn check_headers(&mut self) -> Result<()> {
        let ends = self.headers.iter().skip(1).map(|h| h.first).chain([self.items.len()]);
        for (header, end) in self.headers.iter().zip(ends) {
            if header.first == end {
                return Err(TextError::at(header.line, &header.name, "the function has no code"));
            }
        }
        let first = &mut self.headers[0];
        if first.first > 0 {
            return Err(TextError::at(first.line, &first.name, "there is code before the first function"));
        }
        if first.entry.is_none() {
            first.entry = self.entry.take();
        }
        if let Some(section) = self.section.take()
            && first.section.is_empty()
        {
            first.section = section;
        }
        Ok(())
    }
}

/// The function an instruction names.
fn function_named<'a>(insn: &Written<'a>) -> Option<Func<'a>> {
    match *insn {
        Insn::Call(Callee::Local(f)) | Insn::LoadImm { value: Imm64::Function(f), .. } => Some(f),
        _ => None,
    }
}

/// Slot of every item, and the total as a last element.
pub(super) fn offsets(items: &[Item]) -> Vec<usize> {
    let mut at = 0;
    let mut out = Vec::with_capacity(items.len() + 1);
    for item in items {
        out.push(at);
        at += item.insn.slots();
    }
    out.push(at);
    out
}

/// A distance that fits the instruction that jumps.
pub(super) fn distance<J, F>(insn: &Insn<J, F>, distance: i64, line: usize) -> Result<i32> {
    let fits = match insn {
        Insn::Jump { long: true, .. } => i32::try_from(distance).is_ok(),
        _ => i16::try_from(distance).is_ok(),
    };
    if fits {
        return Ok(distance as i32);
    }
    Err(TextError::at(line, &distance.to_string(), "the jump is too far for 16 bits; `gotol` has 32"))
}
