//! Lines that begin with a dot: functions, hooks, sections, maps.

use super::lex::{self, Kind};
use crate::hook::{Hook, ProgramType};
use crate::map::{MapDef, MapType};
use crate::program::Entry;
use crate::text::TextError;
use std::borrow::Cow;

/// Maps of maps of maps: no kernel allows more than one level.
const DEEPEST_INNER: usize = 4;

/// Longest contents of a map.
const LONGEST_CONTENTS: usize = 16 << 20;

/// A directive.
#[derive(Debug)]
pub(super) enum Directive<'a> {
    /// `.func name`
    Func(Cow<'a, str>),
    /// `.section name`
    Section(Cow<'a, str>),
    /// `.hook xdp`, `.local` or `.global`
    Entry(Entry),
    /// `.map name ..`
    Map(MapDef),
    /// `.inner name ..`: the definition of the maps inside the last map.
    Inner(MapDef),
}

type Result<T> = std::result::Result<T, TextError>;

/// Whether a line is one of ours; other words with a dot may be labels.
pub(super) fn is_directive(text: &str) -> bool {
    let word = text.split(char::is_whitespace).next().unwrap_or("");
    matches!(word, ".func" | ".section" | ".hook" | ".local" | ".global" | ".map" | ".inner")
}

/// Reads a directive.
pub(super) fn read(text: &str, line: usize) -> Result<Directive<'_>> {
    let mut words = Words { rest: text, line };
    let keyword = words.next()?.unwrap_or_default();
    let directive = match &*keyword {
        ".func" => Directive::Func(words.required("the function's name")?),
        ".section" => Directive::Section(words.required("the section's name")?),
        ".local" => Directive::Entry(Entry::Subprogram { global: false }),
        ".global" => Directive::Entry(Entry::Subprogram { global: true }),
        ".hook" => {
            let word = words.required("a hook, for example `xdp`")?;
            let hook = hook(&word).ok_or_else(|| {
                TextError::at(line, &word, "no such hook; use a program type, its number, `constant` or `buffer=BYTES`")
            })?;
            Directive::Entry(Entry::Hook(hook))
        }
        ".map" => Directive::Map(map(&mut words)?),
        ".inner" => Directive::Inner(map(&mut words)?),
        _ => return Err(TextError::at(line, &keyword, "unknown directive")),
    };
    match words.next()? {
        None => Ok(directive),
        Some(word) => Err(TextError::at(line, &word, "not expected here")),
    }
}

/// Puts the definition of inner maps into the innermost place of a map.
pub(super) fn set_inner(map: &mut MapDef, inner: MapDef, line: usize) -> Result<()> {
    let mut place = &mut map.inner;
    for _ in 0..DEEPEST_INNER {
        match place {
            None => {
                *place = Some(Box::new(inner));
                return Ok(());
            }
            Some(next) => place = &mut next.inner,
        }
    }
    Err(TextError::at(line, ".inner", format!("more than {DEEPEST_INNER} maps inside one another")))
}

/// Words between spaces; quotes join, a comment ends.
struct Words<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<Option<Cow<'a, str>>> {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() || lex::is_comment(self.rest, true) {
            return Ok(None);
        }
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Ok(Some(word.into()));
        };
        let mut out = String::new();
        let mut chars = quoted.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &quoted[at + 1..];
                    return Ok(Some(out.into()));
                }
                '\\' => out.push(self.escape(&mut chars)?),
                c => out.push(c),
            }
        }
        Err(TextError::at(self.line, self.rest, "the closing quote is missing"))
    }

    fn escape(&self, chars: &mut std::str::CharIndices) -> Result<char> {
        let wrong = || TextError::at(self.line, self.rest, "after a backslash: `\\`, `\"` or `u{HEX}`");
        match chars.next() {
            Some((_, c @ ('\\' | '"'))) => Ok(c),
            Some((_, 'u')) => {
                let digits = chars.map(|(_, c)| c).skip_while(|c| *c == '{').take_while(|c| *c != '}');
                let mut value = 0u32;
                for digit in digits {
                    value = value.checked_mul(16).ok_or_else(wrong)? | digit.to_digit(16).ok_or_else(wrong)?;
                }
                char::from_u32(value).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    fn required(&mut self, what: &str) -> Result<Cow<'a, str>> {
        let line = self.line;
        self.next()?.ok_or_else(|| TextError::at(line, "", format!("the line ends too early: expected {what}")))
    }
}

fn hook(word: &str) -> Option<Hook> {
    if word == "constant" {
        return Some(Hook::Constant);
    }
    if let Some(bytes) = word.strip_prefix("buffer=") {
        return Some(Hook::Buffer(bytes.parse().ok()?));
    }
    let kind = ProgramType::from_name(word).or_else(|| word.parse().ok().map(ProgramType))?;
    Some(Hook::Kernel(kind))
}

/// A hook as `.hook` takes it.
pub(super) fn hook_name(hook: Hook) -> String {
    match hook {
        Hook::Constant => "constant".into(),
        Hook::Buffer(bytes) => format!("buffer={bytes}"),
        Hook::Kernel(kind) if ProgramType::from_name(kind.name()) == Some(kind) => kind.name().into(),
        Hook::Kernel(kind) => kind.0.to_string(),
    }
}

fn map_type(word: &str) -> Option<MapType> {
    word.parse().ok().map(MapType).or_else(|| (0..256).map(MapType).find(|t| t.name() == word))
}

fn map(words: &mut Words) -> Result<MapDef> {
    let line = words.line;
    let name = words.required("the map's name")?.into_owned();
    let mut map = MapDef {
        name,
        kind: MapType(0),
        key_size: 0,
        value_size: 0,
        max_entries: 0,
        flags: 0,
        fd: None,
        initial: None,
        frozen: false,
        inner: None,
    };
    let mut has_type = false;
    while let Some(word) = words.next()? {
        let wrong = |why: &str| TextError::at(line, &word, why);
        if word == "frozen" {
            map.frozen = true;
            continue;
        }
        let (key, value) = word.split_once('=').ok_or_else(|| wrong("expected `key=value` or `frozen`"))?;
        let number = || match lex::number(value, line)? {
            Kind::Number { value, .. } => u32::try_from(value).map_err(|_| wrong("more than 32 bits")),
            _ => Err(wrong("not a number")),
        };
        match key {
            "type" => {
                map.kind = map_type(value).ok_or_else(|| wrong("no such map type; a number is accepted too"))?;
                has_type = true;
            }
            "key" => map.key_size = number()?,
            "value" => map.value_size = number()?,
            "entries" => map.max_entries = number()?,
            "flags" => map.flags = number()?,
            "fd" => map.fd = Some(value.parse().map_err(|_| wrong("not a file descriptor"))?),
            "data" => {
                let why = "expected pairs of hexadecimal digits, or `0*COUNT` for zeros";
                map.initial = Some(contents(value).ok_or_else(|| wrong(why))?);
            }
            _ => return Err(wrong("unknown property; known: type key value entries flags fd data frozen")),
        }
    }
    if has_type { Ok(map) } else { Err(TextError::at(line, &map.name, "the map has no `type=`")) }
}

fn contents(text: &str) -> Option<Vec<u8>> {
    if let Some(count) = text.strip_prefix("0*") {
        let count: usize = count.parse().ok()?;
        return (count <= LONGEST_CONTENTS).then(|| vec![0; count]);
    }
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| {
            let digit = |b: u8| (b as char).to_digit(16);
            Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
        })
        .collect()
}

/// The lines that define a map.
pub(super) fn print_map(map: &MapDef) -> String {
    let mut out = String::new();
    let mut keyword = ".map";
    let mut next = Some(map);
    while let Some(map) = next {
        let kind = map.kind.name();
        let kind = if kind.contains(' ') { map.kind.0.to_string() } else { kind };
        out += &format!("{keyword} {} type={kind} key={}", quoted(&map.name), map.key_size);
        out += &format!(" value={} entries={}", map.value_size, map.max_entries);
        if map.flags != 0 {
            out += &format!(" flags={:#x}", map.flags);
        }
        if let Some(fd) = map.fd {
            out += &format!(" fd={fd}");
        }
        if let Some(data) = &map.initial {
            out += " data=";
            if !data.is_empty() && data.iter().all(|b| *b == 0) {
                out += &format!("0*{}", data.len());
            } else {
                out.extend(data.iter().map(|b| format!("{b:02x}")));
            }
        }
        if map.frozen {
            out += " frozen";
        }
        out.push('\n');
        keyword = ".inner";
        next = map.inner.as_deref();
    }
    out
}

/// A name as directives take it.
pub(super) fn quoted(name: &str) -> String {
    if lex::is_plain_name(name) {
        return name.into();
    }
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{{{:x}}}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}
