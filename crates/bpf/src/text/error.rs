//! What is wrong with a text, and where.

use std::fmt;

/// Longest token quoted in a message; the rest of a longer one is left out.
const LONGEST_TOKEN: usize = 60;

/// Why a text is no program, or a program no text of the wanted format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// Line, counted from 1; 0 when the error belongs to no line.
    pub line: usize,
    /// The offending word; empty when there is none.
    pub token: String,
    /// What is wrong with it.
    pub reason: String,
}

impl TextError {
    /// An error at a word of a line.
    pub fn at(line: usize, token: &str, reason: impl Into<String>) -> TextError {
        let mut short: String =
            token.chars().take(LONGEST_TOKEN).map(|c| if c.is_control() { ' ' } else { c }).collect();
        if token.chars().nth(LONGEST_TOKEN).is_some() {
            short.push_str("...");
        }
        TextError { line, token: short, reason: reason.into() }
    }

    /// An error of the whole.
    pub fn whole(reason: impl Into<String>) -> TextError {
        TextError { line: 0, token: String::new(), reason: reason.into() }
    }

    /// The same error, said to be of a file beside the program.
    pub(super) fn in_file(mut self, ending: &str) -> TextError {
        self.reason = format!("{} (in the {ending} text)", self.reason);
        self
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.token.is_empty() {
            write!(f, "`{}`: ", self.token)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for TextError {}
