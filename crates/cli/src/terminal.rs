//! Whether someone is looking, and colours if so.

use std::io::IsTerminal;

/// Colours, or none of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    coloured: bool,
}

impl Style {
    fn paint(self, code: u8, text: &str) -> String {
        if self.coloured { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Something bad, or something that went away.
    pub fn red(self, text: &str) -> String {
        self.paint(31, text)
    }

    /// Something good, or something new.
    pub fn green(self, text: &str) -> String {
        self.paint(32, text)
    }

    /// Decoration.
    pub fn blue(self, text: &str) -> String {
        self.paint(34, text)
    }
}

/// `NO_COLOR` counts when it is not empty (no-color.org).
fn may_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// For messages.
pub fn stderr_style() -> Style {
    Style { coloured: std::io::stderr().is_terminal() && may_colour() }
}

/// For answers.
pub fn stdout_style() -> Style {
    Style { coloured: std::io::stdout().is_terminal() && may_colour() }
}

/// Whether a person watches the messages.
pub fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}
