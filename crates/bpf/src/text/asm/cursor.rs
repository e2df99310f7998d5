//! A place in the tokens of one line, and the small pieces of syntax that many instructions share.

use super::lex::{self, Kind, Token};
use crate::insn::{Reg, Size, Width};
use crate::text::TextError;

/// Reads tokens from left to right.
pub(super) struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    line: usize,
}

type Result<T> = std::result::Result<T, TextError>;

impl<'a> Cursor<'a> {
    /// At the first token of a line.
    pub fn new(text: &'a str, line: usize) -> Result<Cursor<'a>> {
        Ok(Cursor { tokens: lex::tokens(text, line)?, at: 0, line })
    }

    /// The next token, without passing it.
    pub fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|t| t.kind)
    }

    /// The token after the next.
    pub fn peek_second(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at + 1).map(|t| t.kind)
    }

    /// Passes the next token.
    pub fn next(&mut self) -> Option<Kind<'a>> {
        let kind = self.peek();
        self.at += 1;
        kind
    }

    /// An error at the next token.
    pub fn error(&self, reason: impl Into<String>) -> TextError {
        let token = self.tokens.get(self.at).map_or("", |t| t.text);
        let reason = reason.into();
        let reason = if token.is_empty() { format!("the line ends too early: {reason}") } else { reason };
        TextError::at(self.line, token, reason)
    }

    /// An error at the token just passed.
    pub fn error_before(&self, reason: impl Into<String>) -> TextError {
        let token = self.tokens.get(self.at.saturating_sub(1)).map_or("", |t| t.text);
        TextError::at(self.line, token, reason)
    }

    /// Passes that symbol when it is next.
    pub fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Symbol(s)) if s == symbol);
        self.at += found as usize;
        found
    }

    /// Passes that word when it is next.
    pub fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Word(w)) if w == word);
        self.at += found as usize;
        found
    }

    /// Passes that symbol or fails.
    pub fn expect(&mut self, symbol: &str) -> Result<()> {
        if self.take(symbol) { Ok(()) } else { Err(self.error(format!("expected `{symbol}`"))) }
    }

    /// A register and the width its name says.
    pub fn register(&mut self) -> Result<(Reg, Width)> {
        match self.peek() {
            Some(Kind::Word(w)) if register(w).is_some() => {
                self.at += 1;
                Ok(register(w).unwrap_or((Reg::R0, Width::W64)))
            }
            _ => Err(self.error("expected a register, `r0` to `r10` or `w0` to `w9`")),
        }
    }

    /// A register written with all its bits.
    pub fn full_register(&mut self) -> Result<Reg> {
        match self.register()? {
            (r, Width::W64) => Ok(r),
            (r, Width::W32) => Err(self.error_before(format!("expected a 64-bit register, `{r}`"))),
        }
    }

    /// A register that holds a value of `size`: `wN` is allowed up to 32 bits.
    pub fn value_register(&mut self, size: Size) -> Result<Reg> {
        match self.register()? {
            (r, Width::W32) if size == Size::D => {
                Err(self.error_before(format!("a 64-bit access needs a 64-bit register, `{r}`")))
            }
            (r, _) => Ok(r),
        }
    }

    /// Whether a number, possibly with a sign, comes next.
    pub fn at_number(&self) -> bool {
        match self.peek() {
            Some(Kind::Number { .. }) => true,
            Some(Kind::Symbol("-" | "+")) => matches!(self.peek_second(), Some(Kind::Number { .. })),
            _ => false,
        }
    }

    /// A number with any signs before it, and whether it was hexadecimal.
    pub fn number(&mut self) -> Result<(i128, bool)> {
        let mut negative = false;
        loop {
            if self.take("-") {
                negative = !negative;
            } else if !self.take("+") {
                break;
            }
        }
        match self.peek() {
            Some(Kind::Number { value, hex }) => {
                self.at += 1;
                Ok((if negative { -(value as i128) } else { value as i128 }, hex))
            }
            _ => Err(self.error("expected a number")),
        }
    }

    /// A number that fits 16 bits with sign.
    pub fn offset(&mut self) -> Result<i16> {
        let (value, _) = self.number()?;
        i16::try_from(value).map_err(|_| self.error_before("an offset has 16 bits: -32768 to 32767"))
    }

    /// A number that fits 32 bits with sign, or without when `unsigned_too`.
    pub fn imm(&mut self, unsigned_too: bool) -> Result<i32> {
        let (value, hex) = self.number()?;
        self.fit(value, hex, unsigned_too)
    }

    /// The 32-bit constant that was written as `value`.
    pub fn fit(&self, value: i128, hex: bool, unsigned_too: bool) -> Result<i32> {
        if let Ok(v) = i32::try_from(value) {
            return Ok(v);
        }
        if let (Ok(v), true) = (u32::try_from(value), unsigned_too) {
            return Ok(v as i32);
        }
        let hint = if hex && u32::try_from(value).is_ok() { " (it would be sign-extended to 64 bits)" } else { "" };
        Err(self.error_before(format!("does not fit a signed 32-bit constant{hint}; `dst = N ll` loads 64 bits")))
    }

    /// A number that fits 32 bits without sign.
    pub fn unsigned(&mut self) -> Result<u32> {
        let (value, _) = self.number()?;
        u32::try_from(value).map_err(|_| self.error_before("expected a number from 0 to 4294967295"))
    }

    /// `(u8 *)`: size and whether signed.
    pub fn pointer_type(&mut self) -> Result<(Size, bool)> {
        self.expect("(")?;
        let found = match self.peek() {
            Some(Kind::Word(w)) => integer_type(w),
            _ => None,
        };
        let (bits, signed) = found.ok_or_else(|| self.error("expected a type, `u8` to `u64` or `s8` to `s32`"))?;
        self.at += 1;
        self.expect("*")?;
        self.expect(")")?;
        let size = Size::from_bytes(bits / 8).ok_or_else(|| self.error_before("no such size"))?;
        Ok((size, signed))
    }

    /// `r1 + 4`, `r1 - 4`, `r1 -4` or `r1`.
    pub fn address(&mut self) -> Result<(Reg, i16)> {
        let base = self.full_register()?;
        let off = if matches!(self.peek(), Some(Kind::Symbol("+" | "-"))) { self.offset()? } else { 0 };
        Ok((base, off))
    }

    /// A plain or quoted name.
    pub fn name(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Kind::Word(name) | Kind::Quoted(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.error("expected a name")),
        }
    }

    /// Fails unless the line ends here.
    pub fn end(&self) -> Result<()> {
        if self.at >= self.tokens.len() { Ok(()) } else { Err(self.error("not expected here")) }
    }
}

/// The register of that name, with its width.
pub(super) fn register(word: &str) -> Option<(Reg, Width)> {
    let (width, digits) = match word.split_at_checked(1)? {
        ("r", digits) => (Width::W64, digits),
        ("w", digits) => (Width::W32, digits),
        _ => return None,
    };
    let one_digit = digits.len() == 1 && digits.as_bytes()[0].is_ascii_digit();
    let number = if one_digit || digits == "10" { digits.parse().ok()? } else { return None };
    Some((Reg::new(number)?, width))
}

/// `u8` to `u64`, `s8` to `s64`: bits and whether signed.
pub(super) fn integer_type(word: &str) -> Option<(u32, bool)> {
    let (signed, digits) = match word.split_at_checked(1)? {
        ("u", digits) => (false, digits),
        ("s", digits) => (true, digits),
        _ => return None,
    };
    let bits = match digits {
        "8" => 8,
        "16" => 16,
        "32" => 32,
        "64" => 64,
        _ => return None,
    };
    Some((bits, signed))
}
