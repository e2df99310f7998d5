//! Writing LLVM's text form of one function.

use std::fmt::Write;

/// A function being written: variables of the frame at the top, then blocks.
#[derive(Default)]
pub(crate) struct Text {
    variables: String,
    body: String,
    next: usize,
}

impl Text {
    /// A new value name.
    pub fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%v{}", self.next)
    }

    /// A new block name, without the percent sign.
    pub fn block(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{what}{}", self.next)
    }

    /// A new variable in memory, for what changes; `opt` turns it into values.
    pub fn variable(&mut self, ty: &str) -> String {
        self.next += 1;
        let name = format!("%m{}", self.next);
        let _ = writeln!(self.variables, "  {name} = alloca {ty}");
        name
    }

    /// A line.
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.body.push_str("  ");
        self.body.push_str(text.as_ref());
        self.body.push('\n');
    }

    /// Starts a block.
    pub fn label(&mut self, name: &str) {
        let _ = writeln!(self.body, "{name}:");
    }

    /// A line that makes a value.
    pub fn value(&mut self, expression: impl AsRef<str>) -> String {
        let name = self.fresh();
        self.line(format!("{name} = {}", expression.as_ref()));
        name
    }

    /// The function's text between its braces; the first block follows the variables.
    pub fn finish(self) -> String {
        format!("entry:\n{}{}", self.variables, self.body)
    }
}
