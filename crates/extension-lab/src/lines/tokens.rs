//! Tokens of C and Rust, as far as counting them needs: words and numbers, texts, and each sign by itself.

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// As it is written.
    pub text: &'a str,
    /// Line it begins on, from 0.
    pub first_line: usize,
    /// Line it ends on.
    pub last_line: usize,
}

/// All tokens of a text, without comments.
pub fn all(text: &str, is_rust: bool) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 0;
    while let Some(first) = rest.chars().next() {
        let (length, is_token) = match first {
            c if c.is_whitespace() => (c.len_utf8(), false),
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            '/' if rest.starts_with("/*") => (comment(rest, is_rust), false),
            '"' => (quoted(rest, '"'), true),
            '\'' if is_rust && is_lifetime(rest) => (1 + word(&rest[1..]), true),
            '\'' => (quoted(rest, '\''), true),
            c if is_part(c) => (word_or_text(rest, is_rust), true),
            c => (c.len_utf8(), true),
        };
        let (here, after) = rest.split_at(length);
        let last_line = line + here.matches('\n').count();
        if is_token {
            tokens.push(Token { text: here, first_line: line, last_line });
        }
        (rest, line) = (after, last_line);
    }
    tokens
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word(text: &str) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// A word, or a text that begins with letters: `b"..."`, `b'x'`, `r"..."`, `r#"..."#`.
fn word_or_text(text: &str, is_rust: bool) -> usize {
    let length = word(text);
    let (prefix, rest) = text.split_at(length);
    match (prefix, rest.chars().next()) {
        ("b" | "c", Some('"')) if is_rust => length + quoted(rest, '"'),
        ("b", Some('\'')) if is_rust => length + quoted(rest, '\''),
        ("r" | "br", Some('"' | '#')) if is_rust => {
            let marks = rest.find(|c| c != '#').unwrap_or(rest.len());
            if !rest[marks..].starts_with('"') {
                return length;
            }
            let end = format!("\"{}", &rest[..marks]);
            let from = marks + 1;
            length + rest[from..].find(&end).map_or(rest.len(), |at| from + at + end.len())
        }
        _ => length,
    }
}

/// Whether a quotation mark begins a lifetime, not a character.
fn is_lifetime(text: &str) -> bool {
    let mut after = text[1..].chars();
    after.next().is_some_and(is_part) && after.next() != Some('\'')
}

/// Bytes up to the closing mark.
fn quoted(text: &str, mark: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == mark => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Bytes of a comment; in Rust there are comments in comments.
fn comment(text: &str, is_rust: bool) -> usize {
    let (mut depth, mut at) = (1, 2);
    while depth > 0 {
        let Some(mark) = text[at..].find(['*', '/']) else { return text.len() };
        at += mark;
        match &text[at..] {
            here if here.starts_with("*/") => depth -= 1,
            here if here.starts_with("/*") && is_rust => depth += 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        all(text, true).into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn quotation_marks_of_rust() {
        assert_eq!(texts("&'a b'\\'' 'x' '\\'' 'static"), ["&", "'a", "b'\\''", "'x'", "'\\''", "'static"]);
        assert_eq!(texts("r#\"a \" // b\"# c"), ["r#\"a \" // b\"#", "c"]);
        assert_eq!(texts("r#type"), ["r", "#", "type"]);
    }

    #[test]
    fn comments() {
        assert_eq!(texts("a /* b /* c */ d */ e // f\ng /"), ["a", "e", "g", "/"]);
        assert_eq!(texts("a /* never ends"), ["a"]);
        let c: Vec<&str> = all("/* a /* b */ c */", false).into_iter().map(|t| t.text).collect();
        assert_eq!(c, ["c", "*", "/"]);
    }

    #[test]
    fn lines() {
        let token = all("\n\"a\nb\" c", true)[0];
        assert_eq!((token.first_line, token.last_line), (1, 2));
    }
}
