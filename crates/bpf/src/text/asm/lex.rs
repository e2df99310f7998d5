//! Words, numbers and symbols of one line.

use crate::text::TextError;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind<'a> {
    /// A name or keyword.
    Word(&'a str),
    /// A name in double quotes, without them.
    Quoted(&'a str),
    /// A number without sign.
    Number {
        /// Its value.
        value: u64,
        /// Whether it was written in hexadecimal.
        hex: bool,
    },
    /// Punctuation.
    Symbol(&'static str),
}

/// A token and how it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: Kind<'a>,
    pub text: &'a str,
}

/// Longest first where one is the beginning of another.
const SYMBOLS: [&str; 29] = [
    "<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "==", "!=", "<=", ">=", "<", ">", "=", "&", "(", ")",
    "[", "]", "*", "+", "-", ",", ":", "#", "@",
];

/// Whether a name may contain that character.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$')
}

/// Whether a name can stand without quotes.
pub(super) fn is_plain_name(name: &str) -> bool {
    name.chars().all(is_word) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Whether the rest of a line is a comment. `#` also joins a name and a number in the kernel's log
/// (`call bpf_map_lookup_elem#1`), so it begins a comment only after a space.
pub(super) fn is_comment(rest: &str, after_space: bool) -> bool {
    rest.starts_with(';') || rest.starts_with("//") || (after_space && rest.starts_with('#'))
}

/// Splits a line into tokens, up to a comment.
pub(super) fn tokens(line: &str, number: usize) -> Result<Vec<Token<'_>>, TextError> {
    let mut out = Vec::new();
    let mut rest = line;
    let mut after_space = true;
    loop {
        let trimmed = rest.trim_start();
        after_space |= trimmed.len() < rest.len();
        rest = trimmed;
        if rest.is_empty() || is_comment(rest, after_space) {
            return Ok(out);
        }
        let token = one(rest, number)?;
        out.push(token);
        rest = &rest[token.text.len()..];
        after_space = false;
    }
}

fn one(rest: &str, line: usize) -> Result<Token<'_>, TextError> {
    let first = rest.chars().next().unwrap_or(' ');
    if is_word(first) {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let text = &rest[..end];
        let kind = if first.is_ascii_digit() { number(text, line)? } else { Kind::Word(text) };
        return Ok(Token { kind, text });
    }
    if first == '"' {
        let end = rest[1..].find('"').ok_or_else(|| TextError::at(line, rest, "the closing quote is missing"))?;
        return Ok(Token { kind: Kind::Quoted(&rest[1..end + 1]), text: &rest[..end + 2] });
    }
    match SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
        Some(symbol) => Ok(Token { kind: Kind::Symbol(symbol), text: &rest[..symbol.len()] }),
        None => Err(TextError::at(line, &rest[..first.len_utf8()], "this character means nothing in an instruction")),
    }
}

/// Reads a decimal, `0x` or `0b` number.
pub(super) fn number(text: &str, line: usize) -> Result<Kind<'_>, TextError> {
    let lower = text.get(..2).unwrap_or("");
    let (digits, radix) = match lower {
        "0x" | "0X" => (&text[2..], 16),
        "0b" | "0B" => (&text[2..], 2),
        _ => (text, 10),
    };
    if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
        return Err(TextError::at(line, text, "a decimal number does not begin with 0 (is it hexadecimal or octal?)"));
    }
    if !digits.starts_with(|c: char| c.is_digit(radix)) || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(TextError::at(line, text, "not a number"));
    }
    match u64::from_str_radix(digits, radix) {
        Ok(value) => Ok(Kind::Number { value, hex: radix != 10 }),
        Err(_) => Err(TextError::at(line, text, "more than 64 bits")),
    }
}
