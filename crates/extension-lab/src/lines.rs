//! `lines`: how much source there is, in lines and in tokens, by one rule for C and Rust.
//!
//! A line counts when something of a program is on it: not when there are only blanks, comments or nothing. Tests
//! (`#[cfg(test)]` and what it stands before) are no part of a program. Tokens are counted too: lines depend on how
//! wide they are allowed to be.

mod tokens;

use karakoram_lab::error::LabError;
use karakoram_lab::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokens::Token;

/// The kind.
pub struct Lines;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    /// Files below `programs/`, by the name of what they do together.
    files: BTreeMap<String, Vec<String>>,
}

struct Prepared {
    files: BTreeMap<String, Vec<PathBuf>>,
}

impl Kind for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let full = |(name, files): (String, Vec<String>)| {
            (name, files.iter().map(|file| workshop.programs.join(file)).collect())
        };
        Ok(Box::new(Prepared { files: plan.files.into_iter().map(full).collect() }))
    }
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let mut outcome = Outcome::default();
        for (name, files) in &self.files {
            request.check()?;
            let mut all = Size::default();
            for file in files {
                let text = std::fs::read_to_string(file).map_err(|e| LabError::file("read", file, &e))?;
                let size = Size::of(&text, file.extension().is_some_and(|e| e == "rs"));
                outcome.notes.insert(file.file_name().unwrap_or_default().to_string_lossy().into(), size.to_string());
                all = all.and(size);
            }
            outcome.samples.push(Samples::one(format!("lines of {name}"), "lines", all.lines as f64));
            outcome.samples.push(Samples::one(format!("tokens of {name}"), "tokens", all.tokens as f64));
        }
        Ok(outcome)
    }
}

/// How much source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Size {
    lines: usize,
    tokens: usize,
}

impl Size {
    fn of(text: &str, is_rust: bool) -> Size {
        let mut tokens = tokens::all(text, is_rust);
        if is_rust {
            tokens = without_tests(&tokens);
        }
        let mut lines: Vec<usize> = tokens.iter().flat_map(|t| t.first_line..=t.last_line).collect();
        lines.sort_unstable();
        lines.dedup();
        Size { lines: lines.len(), tokens: tokens.len() }
    }

    fn and(self, other: Size) -> Size {
        Size { lines: self.lines + other.lines, tokens: self.tokens + other.tokens }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} lines, {} tokens", self.lines, self.tokens)
    }
}

/// All but items that are there for tests only: from the attribute to a semicolon or the end of a block.
fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_mark = tokens[at..].len() >= MARK.len() && tokens[at..].iter().zip(MARK).all(|(t, m)| t.text == m);
        if !is_mark {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += MARK.len();
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(token.text, ";" | "}") {
                break;
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blanks_and_tests_do_not_count() {
        let rust = "//! About.\n\n/// A number.\npub const A: u8 = b'/'; // why\n/* no\n more */\n#[cfg(test)]\nmod tests {\n    fn a() {}\n}\nfn b<'a>(s: &'a str) -> &'a str {\n    \"two // \\\n    lines\"\n}\n";
        assert_eq!(Size::of(rust, true).lines, 5);
        let c = "/* About\n * it. */\n#include <linux/bpf.h>\n\nint a(void)\n{\n\treturn 'x'; // no\n}\n";
        assert_eq!(Size::of(c, false), Size { lines: 5, tokens: 19 });
    }

    /// `#[cfg(test)]` before what has no block.
    #[test]
    fn a_test_only_use_ends_with_its_semicolon() {
        let size = Size::of("#[cfg(test)]\nuse a::b;\nfn c() {}\n", true);
        assert_eq!(size, Size { lines: 1, tokens: 6 });
        assert_eq!(Size::of("#[cfg_attr(not(test), no_std)]\n", true).lines, 1);
    }
}
