//! From lines to functions: directives, labels, listings; then names to positions.

use super::directive::{self, Directive};
use super::grammar::{self, Dialect, Func, Target, Written};
use super::listing::{self, Line, Row};
use crate::encode::{self, Slot};
use crate::hook::{Hook, ProgramType};
use crate::insn::*;
use crate::map::MapDef;
use crate::program::{Entry, Function, Program, ProgramError};
use crate::text::{DEFAULT_HOOK, MAX_MAPS, MAX_SLOTS, MAX_SOURCE, TextError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Result<T> = std::result::Result<T, TextError>;

/// An instruction and where it was written.
struct Item<'a> {
    line: usize,
    number: Option<u64>,
    insn: Written<'a>,
    patched: bool,
}

/// A function as far as its header says; its code begins at item `first`.
struct Header {
    name: String,
    section: String,
    entry: Option<Entry>,
    first: usize,
    line: usize,
}

/// Everything that the lines say, before names are looked up.
struct Draft<'a> {
    maps: Vec<MapDef>,
    /// The hook of what must have one and names none.
    hook: Hook,
    /// Whether the text is a log of the kernel's verifier.
    log: bool,
    items: Vec<Item<'a>>,
    /// Explicit functions; empty when the text has none.
    headers: Vec<Header>,
    /// Hook and section that were given before the first function.
    entry: Option<Entry>,
    section: Option<String>,
    /// Labels with the number of explicit functions begun before them, and the item they stand before.
    labels: BTreeMap<(usize, &'a str), usize>,
}

/// Reads a whole program.
pub(super) fn program(source: &str, maps: Vec<MapDef>, hook: Hook) -> Result<Program> {
    let draft = draft(source, maps, hook)?;
    if draft.items.is_empty() {
        return Err(TextError::whole("there is no instruction"));
    }
    Layout::of(draft)?.program()
}

/// Reads instructions without functions; targets become distances.
pub(super) fn fragment(source: &str) -> Result<Vec<RawInsn>> {
    let draft = draft(source, Vec::new(), DEFAULT_HOOK)?;
    if let Some(header) = draft.headers.first() {
        return Err(TextError::at(header.line, &header.name, "a fragment has no functions"));
    }
    if let Some(item) = draft.items.iter().find(|i| i.patched) {
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
                    Target::Distance(d) => Ok(d),
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
    let (insn, patched) = grammar::instruction(text, 1, &maps, Dialect::default())?;
    if patched {
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

fn no_identity(id: u32, line: usize) -> TextError {
    TextError::at(line, &format!("@{id}"), "identities have no meaning here; use a label or a distance")
}

fn map_index(maps: &[MapDef], name: &str) -> std::result::Result<i32, &'static str> {
    let mut found = maps.iter().enumerate().filter(|(_, m)| m.name == name);
    match (found.next(), found.next()) {
        (Some((i, _)), None) => Ok(i as i32),
        (None, _) => Err("no such map; define it with `.map`, or use `map[fd:N]`"),
        _ => Err("several maps have this name; use `map[idx:N]`"),
    }
}

/// Slot of every item, and the total as a last element.
fn offsets(items: &[Item]) -> Vec<usize> {
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
fn distance<J, F>(insn: &Insn<J, F>, distance: i64, line: usize) -> Result<i32> {
    let fits = match insn {
        Insn::Jump { long: true, .. } => i32::try_from(distance).is_ok(),
        _ => i16::try_from(distance).is_ok(),
    };
    if fits {
        return Ok(distance as i32);
    }
    Err(TextError::at(line, &distance.to_string(), "the jump is too far for 16 bits; `gotol` has 32"))
}

fn draft(source: &str, mut maps: Vec<MapDef>, hook: Hook) -> Result<Draft<'_>> {
    if source.len() > MAX_SOURCE {
        return Err(TextError::whole(format!("the text is longer than {MAX_SOURCE} bytes")));
    }
    let log = listing::is_verifier_log(source);
    read_maps(source, &mut maps)?;
    let mut draft = Draft {
        maps,
        hook,
        log,
        items: Vec::new(),
        headers: Vec::new(),
        entry: None,
        section: None,
        labels: BTreeMap::new(),
    };
    let mut section = None;
    let mut slots = 0;
    for (index, text) in source.lines().enumerate() {
        let line = index + 1;
        match listing::read(text, log) {
            Line::Remark => {}
            Line::Section(name) => section = Some(name),
            Line::Symbol(name) => draft.symbol(name, section, line)?,
            Line::Relocation => {
                let why = "a relocation: what the instruction means is not in this text; read the object file itself";
                return Err(TextError::at(line, text.trim(), why));
            }
            Line::Row(row) => draft.row(row, line)?,
        }
        slots += draft.items.last().filter(|i| i.line == line).map_or(0, |i| i.insn.slots());
        if slots > MAX_SLOTS {
            return Err(TextError::at(line, "", format!("more than {MAX_SLOTS} slots")));
        }
    }
    if log {
        draft.order_by_number()?;
    }
    Ok(draft)
}

/// Maps may be used before they are defined, so their lines are read first.
fn read_maps(source: &str, maps: &mut Vec<MapDef>) -> Result<()> {
    let outside = maps.len();
    for (index, text) in source.lines().enumerate() {
        let text = text.trim();
        if !text.starts_with(".map") && !text.starts_with(".inner") || !directive::is_directive(text) {
            continue;
        }
        match directive::read(text, index + 1)? {
            Directive::Map(_) if maps.len() >= MAX_MAPS => {
                return Err(TextError::at(index + 1, ".map", format!("more than {MAX_MAPS} maps")));
            }
            Directive::Map(map) => maps.push(map),
            Directive::Inner(map) => match maps[outside..].last_mut() {
                Some(last) => directive::set_inner(last, map, index + 1)?,
                None => return Err(TextError::at(index + 1, ".inner", "there is no map before this")),
            },
            _ => {}
        }
    }
    Ok(())
}

impl<'a> Draft<'a> {
    /// A header of llvm-objdump. Names like `LBB0_2` are labels that clang made for jumps.
    fn symbol(&mut self, name: &'a str, section: Option<&'a str>, line: usize) -> Result<()> {
        if name.starts_with("LBB") && !self.headers.is_empty() {
            return self.label(name, line);
        }
        // Programs have sections named after their hook; other functions stay in `.text`.
        let kind = section.filter(|s| !s.starts_with(".text")).map(ProgramType::from_section);
        let entry = match kind {
            Some(Some(kind)) => Some(Entry::Hook(Hook::Kernel(kind))),
            Some(None) => Some(Entry::Hook(self.hook)),
            None if section.is_some() => Some(Entry::Subprogram { global: false }),
            None => None,
        };
        let section = section.unwrap_or_default().to_string();
        self.headers.push(Header { name: name.to_string(), section, entry, first: self.items.len(), line });
        Ok(())
    }

    fn label(&mut self, name: &'a str, line: usize) -> Result<()> {
        let scope = self.headers.len();
        if self.labels.insert((scope, name), self.items.len()).is_some() {
            return Err(TextError::at(line, name, "the label is there twice"));
        }
        Ok(())
    }

    fn row(&mut self, row: Row<'a>, line: usize) -> Result<()> {
        if row.number.is_none() && directive::is_directive(row.text) {
            return self.directive(row.text, line);
        }
        let mut text = row.text;
        if row.number.is_none()
            && let Some((name, rest)) = split_label(text)
        {
            self.label(name, line)?;
            text = rest.trim_start();
            if text.is_empty() || super::lex::is_comment(text, true) {
                return Ok(());
            }
        }
        let (insn, patched) = self.instruction(&row, text, line)?;
        self.items.push(Item { line, number: row.number, insn, patched });
        Ok(())
    }

    fn directive(&mut self, text: &'a str, line: usize) -> Result<()> {
        let here = self.items.len();
        match directive::read(text, line)? {
            Directive::Map(_) | Directive::Inner(_) => {}
            Directive::Func(name) => {
                let (name, first) = (name.into_owned(), self.items.len());
                self.headers.push(Header { name, section: String::new(), entry: None, first, line });
            }
            Directive::Section(name) => match self.headers.last_mut() {
                Some(header) => header.section = name.into_owned(),
                None => self.section = Some(name.into_owned()),
            },
            Directive::Entry(entry) => match self.headers.last_mut() {
                Some(header) if header.first == here => header.entry = Some(entry),
                Some(_) => return Err(TextError::at(line, text, "stands before the code of its function")),
                None => self.entry = Some(entry),
            },
        }
        Ok(())
    }

    fn instruction(&self, row: &Row<'a>, text: &'a str, line: usize) -> Result<(Written<'a>, bool)> {
        let maps = |name: &str| map_index(&self.maps, name);
        let dialect = Dialect { wide: row.opcode == Some(0x18), log: self.log };
        if dialect.wide {
            return self.kernel_constant(text, line, &maps, dialect);
        }
        let written = grammar::instruction(text, line, &maps, dialect);
        if row.bytes.is_empty() {
            return written;
        }
        let slots: Vec<Slot> =
            row.bytes.chunks_exact(8).map(|c| Slot::from_bytes(c.try_into().expect("chunk of 8"))).collect();
        let decoded =
            encode::decode(&slots, 0).map_err(|e| TextError::at(line, text, format!("the bytes: {}", e.reason)))?;
        if decoded.slots() != slots.len() {
            return Err(TextError::at(line, text, "the bytes are of more than one instruction"));
        }
        let from_bytes = decoded.map(Target::Distance, Func::Distance);
        // LLVM prints `<unknown>` for what its default target lacks.
        if text.starts_with("<unknown>") {
            return Ok((from_bytes, false));
        }
        let (insn, patched) = written?;
        let same = insn.map(|_| (), |_| ()) == decoded.map(|_| (), |_| ());
        // LLVM prints all calls and all 64-bit constants alike; the bytes say which kind they are.
        match (insn, decoded) {
            _ if same => Ok((insn, patched)),
            (Insn::Call(Callee::Helper(n)), Insn::Call(Callee::Local(m) | Callee::Kfunc { id: m, .. })) if n == m => {
                Ok((from_bytes, patched))
            }
            (Insn::LoadImm { dst: a, value: Imm64::Value(_) }, Insn::LoadImm { dst: b, .. }) if a == b => {
                Ok((from_bytes, patched))
            }
            _ => Err(TextError::at(line, text, "the bytes say something else; remove them to change the instruction")),
        }
    }

    /// The kernel prints a 64-bit constant without `ll`, and an address in place of a map.
    fn kernel_constant(
        &self,
        text: &'a str,
        line: usize,
        maps: &grammar::MapNames,
        dialect: Dialect,
    ) -> Result<(Written<'a>, bool)> {
        let code = text.split(';').next().unwrap_or("").trim_end();
        let why = "the kernel printed an address; write what it stands for, for example `map[name] ll`";
        if text.contains("=map_ptr") || text.contains("=map_value") {
            return Err(TextError::at(line, code, why));
        }
        match grammar::instruction(code, line, maps, dialect)? {
            (Insn::LoadImm { value: Imm64::Value(v), .. }, _) if v >= 0xffff_8000_0000_0000 => {
                Err(TextError::at(line, code, why))
            }
            found => Ok(found),
        }
    }

    /// A verifier log shows instructions in the order of exploration, some several times.
    fn order_by_number(&mut self) -> Result<()> {
        self.items.sort_by_key(|i| (i.number, i.line));
        for pair in self.items.windows(2) {
            if pair[0].number == pair[1].number && pair[0].insn != pair[1].insn {
                let why = "the log has two different instructions of this number";
                return Err(TextError::at(pair[1].line, &pair[1].number.unwrap_or(0).to_string(), why));
            }
        }
        self.items.dedup_by_key(|i| i.number);
        match self.items.first() {
            Some(first) if first.number != Some(0) => {
                Err(TextError::at(first.line, "", "the log does not show the program from its first instruction"))
            }
            _ => Ok(()),
        }
    }
}

/// `name:` and what follows it.
fn split_label(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(':')?;
    let quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
    let bare = if quoted { &name[1..name.len() - 1] } else { name };
    (quoted && !bare.contains('"') || super::lex::is_plain_name(bare)).then_some((bare, rest))
}

/// Items with their slots, cut into functions.
struct Layout<'a> {
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
    fn of(mut draft: Draft<'a>) -> Result<Layout<'a>> {
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

    fn program(mut self) -> Result<Program> {
        let mut functions = Vec::with_capacity(self.starts.len());
        for n in 0..self.starts.len() {
            functions.push(self.function(n)?);
        }
        Ok(Program { functions, maps: std::mem::take(&mut self.draft.maps) })
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
            node.patched_at_load = item.patched;
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
                Target::Distance(d) => Ok(d),
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
