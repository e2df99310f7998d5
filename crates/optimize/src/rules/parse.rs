//! The text of rules.
//!
//! ```text
//! ; what the rule says, in algebra
//! rule shifts/add-up
//! for OP in <<=, >>=
//!   xA OP C
//!   xA OP D
//! =>
//!   xA OP {C + D}
//! where C + D < BITS
//! ```
//!
//! `rules/README.md` of this crate has the whole language.

use super::expression::{self, Expression};
use super::template::{self, LABEL, Template};
use super::{Given, Known, Rule, Variant, flow};
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm;

/// A mistake in the text of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for ParseError {}

/// A line of text with its number.
type Line<'a> = (usize, &'a str);

/// Reads the rules of a file.
pub fn rules(text: &str) -> Result<Vec<Rule>, ParseError> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut remarks: Vec<String> = Vec::new();
    let mut body: Option<(String, Vec<String>, Vec<Line>)> = None;
    for (i, raw) in text.lines().enumerate() {
        let code = raw.split(';').next().unwrap_or("").trim();
        if let Some(name) = code.strip_prefix("rule ") {
            finish(body.take(), &mut rules)?;
            body = Some((name.trim().to_string(), std::mem::take(&mut remarks), vec![(i + 1, code)]));
        } else if code.is_empty() {
            match raw.trim().strip_prefix(';') {
                Some(remark) => remarks.push(remark.trim().to_string()),
                // What stands above an empty line belongs to no rule.
                None => remarks.clear(),
            }
        } else {
            match &mut body {
                Some((.., lines)) => lines.push((i + 1, code)),
                None => return Err(ParseError { line: i + 1, why: "a rule begins with `rule family/name`".into() }),
            }
        }
    }
    finish(body, &mut rules)?;
    Ok(rules)
}

fn finish(body: Option<(String, Vec<String>, Vec<Line>)>, rules: &mut Vec<Rule>) -> Result<(), ParseError> {
    let Some((name, remarks, lines)) = body else { return Ok(()) };
    let first = lines[0].0;
    let error = |why: &str| Err(ParseError { line: first, why: format!("{name}: {why}") });
    if name.split('/').count() != 2 || !name.split('/').all(is_name) {
        return error("a name is `family/what`, in small letters, digits and `-` or `_`");
    }
    if rules.iter().any(|r| r.name == name) {
        return error("there is a rule of this name already");
    }
    let text = lines.iter().map(|(_, l)| layout(l)).collect::<Vec<_>>().join("\n");
    let variants: Result<Vec<Variant>, ParseError> =
        instances(&lines[1..])?.iter().map(|(label, lines)| variant(label, lines, first, &name)).collect();
    rules.push(Rule { name, remarks, text, variants: variants? });
    Ok(())
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
}

/// Instructions are indented, everything else is not.
fn layout(line: &str) -> String {
    let is_head = ["rule ", "for ", "where ", "given ", "dead ", "=>"].iter().any(|h| line.starts_with(h));
    if is_head { line.to_string() } else { format!("  {line}") }
}

/// A variant's label, and its lines with all parameters filled in.
type Instance = (String, Vec<(usize, String)>);

/// The rule for each choice of its parameters, and for both widths where it says `x`.
fn instances(lines: &[Line]) -> Result<Vec<Instance>, ParseError> {
    let mut all: Vec<Instance> = vec![(String::new(), Vec::new())];
    for (number, line) in lines {
        match line.strip_prefix("for ") {
            None => all.iter_mut().for_each(|(_, body)| body.push((*number, line.to_string()))),
            Some(_) => continue,
        }
    }
    for (number, line) in lines {
        let Some(choice) = line.strip_prefix("for ") else { continue };
        let error = |why: &str| ParseError { line: *number, why: why.to_string() };
        let (names, values) = choice.split_once(" in ").ok_or(error("expected `for NAME.. in VALUE.., VALUE..`"))?;
        let names: Vec<&str> = names.split_whitespace().collect();
        let mut next = Vec::new();
        for value in values.split(',').flat_map(counted) {
            let values: Vec<&str> = value.split_whitespace().collect();
            if values.len() != names.len() {
                return Err(error(&format!("`{}` has not one value for each of `{}`", value.trim(), names.join(" "))));
            }
            let table: Vec<(&str, &str)> = names.iter().copied().zip(values).collect();
            next.extend(all.iter().map(|(label, body)| fill(label, body, &table)));
        }
        all = next;
    }
    let is_wide = |body: &[(usize, String)]| body.iter().any(|(_, l)| words(l).any(|w| is_register(w, "x")));
    Ok(all
        .into_iter()
        .flat_map(|(label, body)| match is_wide(&body) {
            false => vec![(label, body)],
            true => ["64", "32"].map(|bits| fill(&label, &body, &[("BITS", bits)])).to_vec(),
        })
        .collect())
}

/// `1..5` is short for `1, 2, 3, 4, 5`.
fn counted(value: &str) -> Vec<String> {
    let ends = value.trim().split_once("..").and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)));
    match ends {
        Some((first, last)) => (first..=last).map(|n| n.to_string()).collect(),
        None => vec![value.to_string()],
    }
}

fn fill(label: &str, body: &[(usize, String)], table: &[(&str, &str)]) -> Instance {
    let mut label = label.to_string();
    for (name, value) in table {
        let space = if label.is_empty() { "" } else { " " };
        label += &format!("{space}{name}={value}");
    }
    let width = table.iter().find(|(n, _)| *n == "BITS").map(|(_, v)| if *v == "64" { "r" } else { "w" });
    let word = |w: &str| match (table.iter().find(|(n, _)| *n == w), width) {
        (Some((_, value)), _) => value.to_string(),
        (None, Some(width)) if is_register(w, "x") => format!("{width}{}", &w[1..]),
        _ => w.to_string(),
    };
    (label, body.iter().map(|(n, l)| (*n, replace(l, word))).collect())
}

/// The maximal runs of letters, digits and `_`.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

fn replace(line: &str, mut word: impl FnMut(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        out += &word(&rest[..end]);
        let other = rest[end..].chars().next();
        out.extend(other);
        rest = &rest[end + other.map_or(0, char::len_utf8)..];
    }
    out
}

/// `rA`: one of the letters in `kinds`, and a capital.
fn is_register(word: &str, kinds: &str) -> bool {
    let mut chars = word.chars();
    matches!((chars.next(), chars.next(), chars.next()), (Some(k), Some(v), None) if kinds.contains(k) && v.is_ascii_uppercase())
}

/// Names that occurred so far.
#[derive(Default)]
struct Names {
    registers: Vec<char>,
    constants: Vec<String>,
}

impl Names {
    fn register(&mut self, word: &str) -> Option<Reg> {
        let letter = word.chars().nth(1)?;
        let known = self.registers.iter().position(|c| *c == letter);
        let number = known.unwrap_or_else(|| {
            self.registers.push(letter);
            self.registers.len() - 1
        });
        // r10 is the frame pointer.
        Reg::new(number as u8).filter(|r| *r != Reg::FP)
    }

    fn expression(&mut self, text: &str) -> Result<Expression, String> {
        expression::parse(text, &mut |name| match self.constants.iter().position(|c| c == name) {
            Some(i) => i,
            None => {
                self.constants.push(name.to_string());
                self.constants.len() - 1
            }
        })
    }

    /// Braces may stand around an expression.
    fn braced(&mut self, text: &str) -> Result<Expression, String> {
        let text = text.trim();
        self.expression(text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text))
    }
}

fn variant(label: &str, lines: &[(usize, String)], first: usize, rule: &str) -> Result<Variant, ParseError> {
    let mut names = Names::default();
    let (mut lhs, mut rhs, mut after) = (Vec::new(), Vec::new(), false);
    let (mut conditions, mut givens, mut dead) = (Vec::new(), Vec::new(), RegSet::EMPTY);
    for (line, text) in lines {
        let error = |why: String| ParseError { line: *line, why: format!("{rule}: {why}") };
        if text == "=>" {
            after = true;
        } else if let Some(condition) = text.strip_prefix("where ") {
            conditions.push(names.expression(condition).map_err(error)?);
        } else if let Some(fact) = text.strip_prefix("given ") {
            givens.push(given(fact, &mut names).map_err(error)?);
        } else if let Some(list) = text.strip_prefix("dead ") {
            for word in list.split_whitespace() {
                let reg = is_register(word, "rw").then(|| names.register(word)).flatten();
                dead = dead.with(reg.ok_or(error(format!("`{word}` is no register variable")))?);
            }
        } else {
            let template = instruction(text, &mut names).map_err(error)?;
            if after { &mut rhs } else { &mut lhs }.push(template);
        }
    }
    let (registers, constants) = (names.registers, names.constants);
    let variant = Variant {
        label: label.to_string(),
        registers,
        constants,
        lhs,
        rhs,
        conditions,
        givens,
        dead,
        links: Vec::new(),
    };
    flow::linked(variant).map_err(|why| ParseError { line: first, why: format!("{rule}: {why}") })
}

/// `rA == K`, `rA & {E} == 0`, `rA <= {E}`.
fn given(text: &str, names: &mut Names) -> Result<Given, String> {
    let (word, rest) = text.trim().split_once(' ').ok_or("expected a register and what is known of it")?;
    let reg = if is_register(word, "r") { names.register(word) } else { None };
    let reg = reg.ok_or(format!("`{word}` is no register variable"))?;
    let known = if let Some(value) = rest.strip_prefix("== ") {
        Known::Is(names.braced(value)?)
    } else if let Some(value) = rest.strip_prefix("<= ") {
        Known::AtMost(names.braced(value)?)
    } else if let Some(mask) = rest.strip_prefix("& ").and_then(|r| r.strip_suffix("== 0")) {
        Known::Clear(names.braced(mask)?)
    } else {
        return Err(format!("`{rest}`: what can be given is `== E`, `<= E` or `& E == 0`"));
    };
    Ok(Given { reg, known })
}

/// An instruction with variables and holes in the project's assembly syntax.
fn instruction(line: &str, names: &mut Names) -> Result<Template, String> {
    let (mut imm, mut off) = (None, None);
    // The assembler reads the line with registers by number, and 1 where the holes are.
    let mut plain = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        let inside = plain.matches('(').count() > plain.matches(')').count();
        let hole = if inside { &mut off } else { &mut imm };
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = &rest[..end];
        let taken = if rest.starts_with('{') {
            let end = rest.find('}').ok_or("a `}` is missing")?;
            *hole = Some(names.expression(&rest[1..end])?);
            plain.push('1');
            end + 1
        } else if is_register(word, "rw") {
            let reg = names.register(word).ok_or("more than ten registers")?;
            plain += &format!("{}{}", &word[..1], reg.index());
            end
        } else if word == "L" && plain.trim_end().ends_with("goto") {
            plain += &format!("@{}", LABEL.0);
            end
        } else if word.starts_with(|c: char| c.is_ascii_uppercase()) {
            *hole = Some(names.expression(word)?);
            plain.push('1');
            end
        } else {
            let step = end.max(rest.chars().next().map_or(1, char::len_utf8));
            plain += &rest[..step];
            step
        };
        rest = &rest[taken..];
    }
    let insn = asm::parse_insn(&plain, &Program::default()).map_err(|e| format!("`{line}`: {e}"))?;
    let (has_imm, has_off) = template::numbers(&insn);
    if imm.is_some() && has_imm.is_none() || off.is_some() && has_off.is_none() {
        return Err(format!("`{line}`: there is no room for a constant there"));
    }
    Ok(Template { insn, imm, off })
}
