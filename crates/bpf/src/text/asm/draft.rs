//! From lines to a draft of a program: directives, labels and instructions, names not yet looked up.

use super::directive::{self, Directive};
use super::grammar::{self, Dialect, Func, Target, Written};
use super::listing::{self, Line, Row};
use crate::encode::{self, Slot};
use crate::hook::{Hook, ProgramType};
use crate::insn::*;
use crate::map::MapDef;
use crate::program::{Entry, Patch};
use crate::text::{MAX_MAPS, MAX_SLOTS, MAX_SOURCE, TextError};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, TextError>;

/// An instruction and where it was written.
pub(super) struct Item<'a> {
    pub line: usize,
    pub number: Option<u64>,
    pub insn: Written<'a>,
    pub patch: Option<Patch>,
}

/// A function as far as its header says; its code begins at item `first`.
pub(super) struct Header {
    pub name: String,
    pub section: String,
    pub entry: Option<Entry>,
    pub first: usize,
    pub line: usize,
}

/// Everything that the lines say, before names are looked up.
pub(super) struct Draft<'a> {
    pub maps: Vec<MapDef>,
    /// The hook of what must have one and names none.
    pub hook: Hook,
    /// Whether the text is a log of the kernel's verifier.
    pub log: bool,
    pub items: Vec<Item<'a>>,
    /// Explicit functions; empty when the text has none.
    pub headers: Vec<Header>,
    /// Hook and section that were given before the first function.
    pub entry: Option<Entry>,
    pub section: Option<String>,
    /// Labels with the number of explicit functions begun before them, and the item they stand before.
    pub labels: BTreeMap<(usize, &'a str), usize>,
}

/// Reads all lines. `maps` are known from outside; `hook` is for what must have one and names none.
pub(super) fn read(source: &str, mut maps: Vec<MapDef>, hook: Hook) -> Result<Draft<'_>> {
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
        let (insn, patch) = self.instruction(&row, text, line)?;
        self.items.push(Item { line, number: row.number, insn, patch });
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

    fn instruction(&self, row: &Row<'a>, text: &'a str, line: usize) -> Result<(Written<'a>, Option<Patch>)> {
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
            return Ok((from_bytes, None));
        }
        let (insn, patch) = written?;
        let same_target = match (insn.target(), decoded.target()) {
            (Some(Target::Distance(a)), Some(b)) => a == b,
            _ => true,
        };
        let same = same_target && insn.map(|_| (), |_| ()) == decoded.map(|_| (), |_| ());
        // LLVM prints all calls and all 64-bit constants alike; the bytes say which kind they are.
        match (insn, decoded) {
            _ if same => Ok((insn, patch)),
            (Insn::Call(Callee::Helper(n)), Insn::Call(Callee::Local(m) | Callee::Kfunc { id: m, .. })) if n == m => {
                Ok((from_bytes, patch))
            }
            (Insn::LoadImm { dst: a, value: Imm64::Value(_) }, Insn::LoadImm { dst: b, .. }) if a == b => {
                Ok((from_bytes, patch))
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
    ) -> Result<(Written<'a>, Option<Patch>)> {
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
        let disorder = self.items.windows(2).find(|pair| pair[0].number >= pair[1].number);
        if let Some(pair) = disorder.filter(|_| !self.headers.is_empty() || !self.labels.is_empty()) {
            let why = "instructions that are out of order cannot have labels or functions among them";
            return Err(TextError::at(pair[1].line, &pair[1].number.unwrap_or(0).to_string(), why));
        }
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

/// Position of the map of a name.
pub(super) fn map_index(maps: &[MapDef], name: &str) -> std::result::Result<i32, &'static str> {
    let mut found = maps.iter().enumerate().filter(|(_, m)| m.name == name);
    match (found.next(), found.next()) {
        (Some((i, _)), None) => Ok(i as i32),
        (None, _) => Err("no such map; define it with `.map`, or use `map[fd:N]`"),
        _ => Err("several maps have this name; use `map[idx:N]`"),
    }
}
