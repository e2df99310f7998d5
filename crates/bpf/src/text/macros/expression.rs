//! Constant expressions of C, with C's precedence.

use super::constants;
use super::tokens::{Kind, Token};
use crate::text::TextError;

/// How deep parentheses and signs may nest.
const DEEPEST: usize = 64;

/// A place in the tokens of a text.
pub(super) struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
}

/// What intermediate values may be: more than 64 bits, with or without sign.
const LIMITS: std::ops::Range<i128> = -(1 << 65)..1 << 65;

/// Binary operators, loosest first.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];

impl<'t, 'a> Cursor<'t, 'a> {
    /// At the first token.
    pub fn new(tokens: &'t [Token<'a>]) -> Cursor<'t, 'a> {
        Cursor { tokens, at: 0 }
    }

    /// The next token, without passing it.
    pub fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|t| t.kind)
    }

    /// Line of the next token, or of the last.
    pub fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |t| t.line)
    }

    /// An error at the next token.
    pub fn error(&self, reason: &str) -> TextError {
        match self.tokens.get(self.at) {
            Some(token) => TextError::at(token.line, token.text, reason),
            None => TextError::at(self.line(), "", format!("the text ends too early: {reason}")),
        }
    }

    /// Passes that symbol when it is next.
    pub fn take(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Some(Kind::Symbol(s)) if s == symbol);
        self.at += found as usize;
        found
    }

    /// Passes that name when it is next.
    pub fn take_name(&mut self, name: &str) -> bool {
        let found = self.peek() == Some(Kind::Name(name));
        self.at += found as usize;
        found
    }

    /// Passes that symbol or fails.
    pub fn expect(&mut self, symbol: &str) -> Result<(), TextError> {
        if self.take(symbol) { Ok(()) } else { Err(self.error(&format!("expected `{symbol}`"))) }
    }

    /// Passes a name.
    pub fn name(&mut self) -> Option<&'a str> {
        match self.peek() {
            Some(Kind::Name(name)) => {
                self.at += 1;
                Some(name)
            }
            _ => None,
        }
    }

    /// Passes everything up to and with that symbol.
    pub fn skip_past(&mut self, symbol: &str) -> Result<(), TextError> {
        while !self.take(symbol) {
            if self.peek().is_none() {
                return Err(self.error(&format!("expected `{symbol}`")));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// An expression and its value.
    pub fn expression(&mut self) -> Result<i128, TextError> {
        self.level(0, 0)
    }

    fn level(&mut self, level: usize, depth: usize) -> Result<i128, TextError> {
        let Some(operators) = LEVELS.get(level) else { return self.unary(depth) };
        let mut left = self.level(level + 1, depth)?;
        loop {
            let Some(Kind::Symbol(operator)) =
                self.peek().filter(|k| matches!(k, Kind::Symbol(s) if operators.contains(s)))
            else {
                return Ok(left);
            };
            let place = self.at;
            self.at += 1;
            let right = self.level(level + 1, depth)?;
            left = apply(operator, left, right).filter(|v| LIMITS.contains(v)).ok_or_else(|| {
                let token = self.tokens[place];
                TextError::at(token.line, token.text, "the value does not exist or is longer than 64 bits")
            })?;
        }
    }

    fn unary(&mut self, depth: usize) -> Result<i128, TextError> {
        if depth > DEEPEST {
            return Err(self.error("the expression is nested too deep"));
        }
        if self.take("-") {
            return Ok(-self.unary(depth + 1)?);
        }
        if self.take("+") {
            return self.unary(depth + 1);
        }
        if self.take("~") {
            return Ok(!self.unary(depth + 1)?);
        }
        if self.take("(") {
            let value = self.level(0, depth + 1)?;
            self.expect(")")?;
            return Ok(value);
        }
        let value = match self.peek() {
            Some(Kind::Number(n)) => n as i128,
            Some(Kind::Name(name)) => match constants::value(name) {
                Some(value) => value as i128,
                None => return Err(self.error("unknown constant; write its number")),
            },
            _ => return Err(self.error("expected a constant")),
        };
        self.at += 1;
        Ok(value)
    }
}

fn apply(operator: &str, a: i128, b: i128) -> Option<i128> {
    let shift = u32::try_from(b).ok().filter(|s| *s < 64);
    match operator {
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "&" => Some(a & b),
        "<<" => shift.and_then(|s| a.checked_mul(1 << s)),
        ">>" => shift.map(|s| a >> s),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" => a.checked_div(b),
        "%" => a.checked_rem(b),
        _ => None,
    }
}
