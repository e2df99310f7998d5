//! Words, numbers and symbols of C.

use crate::text::TextError;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind<'a> {
    /// An identifier.
    Name(&'a str),
    /// A number without sign.
    Number(u64),
    /// Punctuation.
    Symbol(&'static str),
}

/// A token, its text and its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: Kind<'a>,
    pub text: &'a str,
    pub line: usize,
}

const SYMBOLS: [&str; 21] =
    ["<<", ">>", "(", ")", "{", "}", "[", "]", ",", ";", "=", ".", "|", "^", "&", "+", "-", "*", "/", "%", "~"];

/// Splits a text; comments and `#include` lines are left out.
pub(super) fn tokens(source: &str) -> Result<Vec<Token<'_>>, TextError> {
    let mut out = Vec::new();
    let mut line = 1;
    let mut rest = source;
    let mut line_begins = true;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\n' => 1,
            c if c.is_whitespace() => c.len_utf8(),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => match rest[2..].find("*/") {
                Some(end) => end + 4,
                None => return Err(TextError::at(line, "/*", "the comment has no end")),
            },
            '#' if line_begins && is_include(rest) => rest.find('\n').unwrap_or(rest.len()),
            _ => {
                let token = one(rest, first, line)?;
                out.push(token);
                token.text.len()
            }
        };
        let (passed, after) = rest.split_at(length);
        let breaks = passed.matches('\n').count();
        line += breaks;
        line_begins = breaks > 0 || (line_begins && passed.trim().is_empty());
        rest = after;
    }
    Ok(out)
}

fn is_include(text: &str) -> bool {
    text[1..].trim_start_matches([' ', '\t']).starts_with("include")
}

fn one(rest: &str, first: char, line: usize) -> Result<Token<'_>, TextError> {
    if first.is_ascii_alphanumeric() || first == '_' {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let text = &rest[..end];
        let kind = if first.is_ascii_digit() {
            Kind::Number(number(text).ok_or_else(|| TextError::at(line, text, "not a number of at most 64 bits"))?)
        } else {
            Kind::Name(text)
        };
        return Ok(Token { kind, text, line });
    }
    match SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
        Some(symbol) => Ok(Token { kind: Kind::Symbol(symbol), text: &rest[..symbol.len()], line }),
        None => Err(TextError::at(line, &rest[..first.len_utf8()], "this means nothing in a list of macros")),
    }
}

/// A C integer with its suffixes.
fn number(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    if text.len() - digits.len() > 3 {
        return None;
    }
    if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    match digits.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u64::from_str_radix(octal, 8).ok(),
        _ => digits.parse().ok(),
    }
}
