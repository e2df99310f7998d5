//! What goes wrong, said so that a person or a program can act on it: what happened, to what, what
//! was done about it, what can be done.

use crate::terminal;
use karakoram_bpf::text::TextError;
use serde_json::{Map, Value, json};

/// What a command that did its work answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Done, or the answer is yes.
    Yes,
    /// The answer is no: not equal, a regression, a threshold.
    No,
}

/// Exit status of a bug.
pub const BUG: u8 = 101;

/// Whose fault it is; decides the exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The command line makes no sense.
    Usage,
    /// The input is wrong.
    Input,
    /// A file cannot be read or written.
    File,
    /// This machine cannot do it.
    Machine,
}

/// Why a command was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
    details: Box<Details>,
}

/// Where it happened, and what can be done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Details {
    file: Option<String>,
    line: Option<usize>,
    /// The line itself.
    quote: Option<String>,
    program: Option<String>,
    help: Option<String>,
}

impl Failure {
    fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), details: Box::default() }
    }

    /// The request is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Usage, message)
    }

    /// The input is wrong.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Input, message)
    }

    /// A file cannot be read or written.
    pub fn file(path: &str, doing: &str, error: &std::io::Error) -> Failure {
        Failure::new(Kind::File, format!("could not {doing} the file: {}", plain(error))).of_file(path)
    }

    /// This machine cannot do it.
    pub fn machine(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Machine, message)
    }

    /// A text is no program; `source` is quoted where the error is.
    pub fn text(path: &str, source: &str, error: &TextError) -> Failure {
        let token = if error.token.is_empty() { String::new() } else { format!("`{}`: ", error.token) };
        let mut failure = Failure::input(format!("{token}{}", error.reason)).of_file(path);
        if error.line > 0 {
            failure.details.line = Some(error.line);
            failure.details.quote = source.lines().nth(error.line - 1).map(|l| l.chars().take(200).collect());
        }
        failure
    }

    /// The same, about a file.
    pub fn of_file(mut self, path: &str) -> Failure {
        self.details.file = Some(path.to_string());
        self
    }

    /// The same, about a program of the file.
    pub fn of_program(mut self, name: &str) -> Failure {
        self.details.program = Some(name.to_string());
        self
    }

    /// The same, with advice.
    pub fn help(mut self, help: impl Into<String>) -> Failure {
        self.details.help = Some(help.into());
        self
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Exit status.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage | Kind::Input | Kind::File => 2,
            Kind::Machine => 3,
        }
    }

    /// To stderr as text, or to stdout as a JSON object.
    pub fn print(&self, command: &str, json: bool, seconds: f64) {
        if json {
            crate::output::print_json(&self.to_json(command, seconds));
        } else {
            eprint!("{}", self.to_text());
        }
    }

    fn to_json(&self, command: &str, seconds: f64) -> Value {
        let kind = match self.kind {
            Kind::Usage => "usage",
            Kind::Input => "input",
            Kind::File => "file",
            Kind::Machine => "machine",
        };
        let mut error = Map::new();
        error.insert("kind".into(), kind.into());
        error.insert("message".into(), self.message.clone().into());
        error.insert("file".into(), self.details.file.clone().into());
        error.insert("line".into(), self.details.line.into());
        error.insert("program".into(), self.details.program.clone().into());
        error.insert("help".into(), self.details.help.clone().into());
        json!({
            "schema": format!("kara/{command}/1"),
            "ok": false,
            "exit_code": self.exit_code(),
            "seconds": seconds,
            "error": error,
        })
    }

    fn to_text(&self) -> String {
        let style = terminal::stderr_style();
        let mut out = format!("{}: {}\n", style.red("error"), self.message);
        let place = match (&self.details.file, self.details.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (Some(file), None) => Some(file.clone()),
            (None, _) => None,
        };
        if let Some(place) = place {
            let program = self.details.program.as_ref().map_or(String::new(), |p| format!(", program {p}"));
            out += &format!(" {} {place}{program}\n", style.blue("-->"));
        }
        if let (Some(line), Some(quote)) = (self.details.line, &self.details.quote) {
            let number = line.to_string();
            let blank = " ".repeat(number.len());
            let bar = style.blue("|");
            out += &format!("{blank} {bar}\n{} {bar} {}\n{blank} {bar}\n", style.blue(&number), quote.trim_end());
        }
        if let Some(help) = &self.details.help {
            out += &format!("  {} {help}\n", style.blue("help:"));
        }
        out
    }
}

/// An error of the operating system without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_string(),
        None => text,
    }
}

/// What a person sees of a panic: that it is our fault, and what to send us.
pub fn install_panic_hook(json: bool) {
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map_or(String::new(), |l| format!("{}:{}", l.file(), l.line()));
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .map(|s| s.to_string())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_default();
        let advice = "nothing was written; please report it with the command line and the input";
        // Only the main thread ends the process; others hand their panic on to it.
        if json && std::thread::current().name() == Some("main") {
            crate::output::print_json(&json!({
                "schema": "kara/error/1", "ok": false, "exit_code": BUG,
                "error": { "kind": "bug", "message": what, "place": place, "help": advice },
            }));
        }
        eprintln!("error: this is a bug in kara {}: {what} ({place})\n  help: {advice}", env!("CARGO_PKG_VERSION"));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_the_line_and_quotes_it() {
        let error = TextError::at(2, "frob", "unknown");
        let failure = Failure::text("a.s", "exit\nfrob r1\n", &error).help("see the manual");
        assert_eq!(
            failure.to_text(),
            "error: `frob`: unknown\n --> a.s:2\n  |\n2 | frob r1\n  |\n  help: see the manual\n"
        );
        assert_eq!(failure.to_json("opt", 0.0)["error"]["line"], 2);
        assert_eq!(failure.exit_code(), 2);
    }
}
