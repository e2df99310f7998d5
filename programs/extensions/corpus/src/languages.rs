//! Small languages: tokens, trees, matchers, and values written out.

// What is only written out by `{:?}` counts as unused.
#![allow(dead_code)]

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::iter::Peekable;
use core::str::CharIndices;

fn hashed(text: &str) -> u64 {
    text.bytes().fold(0xcbf29ce484222325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100000001b3))
}

#[derive(Debug, Clone, PartialEq)]
enum Token<'a> {
    Open(char),
    Close(char),
    Comma,
    Colon,
    Text(&'a str),
    Number(i64),
    Word(&'a str),
}

struct Lexer<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, chars: text.char_indices().peekable() }
    }

    fn run(&mut self, start: usize, is_part: impl Fn(char) -> bool) -> &'a str {
        let mut end = start;
        while let Some((at, c)) = self.chars.next_if(|(_, c)| is_part(*c)) {
            end = at + c.len_utf8();
        }
        &self.text[start..end]
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Result<Token<'a>, (usize, char)>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        let (at, c) = *self.chars.peek()?;
        Some(Ok(match c {
            '{' | '[' => {
                self.chars.next();
                Token::Open(c)
            }
            '}' | ']' => {
                self.chars.next();
                Token::Close(c)
            }
            ',' => {
                self.chars.next();
                Token::Comma
            }
            ':' => {
                self.chars.next();
                Token::Colon
            }
            '"' => {
                self.chars.next();
                let text = self.run(at + 1, |c| c != '"');
                if self.chars.next().is_none() {
                    return Some(Err((at, '"')));
                }
                Token::Text(text)
            }
            '-' | '0'..='9' => {
                self.chars.next();
                let digits = self.run(at + 1, |c| c.is_ascii_digit());
                let whole = &self.text[at..at + 1 + digits.len()];
                match whole.parse() {
                    Ok(number) => Token::Number(number),
                    Err(_) => return Some(Err((at, c))),
                }
            }
            'a'..='z' => Token::Word(self.run(at, |c| c.is_ascii_lowercase())),
            other => {
                self.chars.next();
                return Some(Err((at, other)));
            }
        }))
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

#[derive(Debug)]
enum JsonError {
    Ends,
    Character(usize, char),
    Unexpected(String),
    TooDeep,
}

fn json(tokens: &mut Lexer, depth: usize) -> Result<Json, JsonError> {
    if depth > 20 {
        return Err(JsonError::TooDeep);
    }
    let token = tokens.next().ok_or(JsonError::Ends)?.map_err(|(at, c)| JsonError::Character(at, c))?;
    json_from(token, tokens, depth)
}

fn json_from(token: Token, tokens: &mut Lexer, depth: usize) -> Result<Json, JsonError> {
    Ok(match token {
        Token::Word("null") => Json::Null,
        Token::Word("true") => Json::Bool(true),
        Token::Word("false") => Json::Bool(false),
        Token::Number(n) => Json::Number(n),
        Token::Text(t) => Json::Text(t.into()),
        Token::Open('[') => {
            let mut items = Vec::new();
            loop {
                match tokens.next().ok_or(JsonError::Ends)?.map_err(|(at, c)| JsonError::Character(at, c))? {
                    Token::Close(']') => break Json::List(items),
                    Token::Comma => {}
                    token => items.push(json_from(token, tokens, depth + 1)?),
                }
            }
        }
        Token::Open(_) => {
            let mut members = BTreeMap::new();
            loop {
                match tokens.next().ok_or(JsonError::Ends)?.map_err(|(at, c)| JsonError::Character(at, c))? {
                    Token::Close('}') => break Json::Object(members),
                    Token::Comma => {}
                    Token::Text(name) => {
                        match tokens.next() {
                            Some(Ok(Token::Colon)) => {}
                            other => return Err(JsonError::Unexpected(format!("{other:?}"))),
                        }
                        members.insert(name.into(), json(tokens, depth + 1)?);
                    }
                    other => return Err(JsonError::Unexpected(format!("{other:?}"))),
                }
            }
        }
        other => return Err(JsonError::Unexpected(format!("{other:?}"))),
    })
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Number(n) => write!(f, "{n}"),
            Json::Text(t) => write!(f, "{t:?}"),
            Json::List(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_char(',')?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_char(']')
            }
            Json::Object(members) => {
                f.write_char('{')?;
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        f.write_char(',')?;
                    }
                    write!(f, "{name:?}:{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

/// Letters that make a text of the language more often than random ones do.
fn as_json(bytes: &[u8]) -> String {
    const PARTS: [&str; 16] =
        ["{", "}", "[", "]", ",", ":", "\"a\":", "\"key\":", "12", "-7", "true", "null", "\"x y\"", "[1,2]", " ", "\"k\":{"];
    let mut text: String = bytes.iter().take(40).map(|b| PARTS[usize::from(b % 16)]).collect();
    if bytes.len().is_multiple_of(2) {
        text = format!("{{\"v\":[{text}]}}");
    }
    text
}

/// Patterns: letters, `.`, `*`, `+`, `?`, `|`, groups, `[a-z]`.
enum Pattern {
    Empty,
    Any,
    Letter(u8),
    Class(Vec<(u8, u8)>, bool),
    Then(Box<Pattern>, Box<Pattern>),
    Either(Box<Pattern>, Box<Pattern>),
    Repeat(Box<Pattern>, usize, usize),
}

struct PatternParser<'a>(Peekable<core::slice::Iter<'a, u8>>);

impl PatternParser<'_> {
    fn either(&mut self) -> Result<Pattern, &'static str> {
        let left = self.sequence()?;
        match self.0.next_if_eq(&&b'|') {
            Some(_) => Ok(Pattern::Either(Box::new(left), Box::new(self.either()?))),
            None => Ok(left),
        }
    }

    fn sequence(&mut self) -> Result<Pattern, &'static str> {
        let mut all = Pattern::Empty;
        while let Some(c) = self.0.peek() {
            if matches!(c, b'|' | b')') {
                break;
            }
            let one = self.repeated()?;
            all = match all {
                Pattern::Empty => one,
                all => Pattern::Then(Box::new(all), Box::new(one)),
            };
        }
        Ok(all)
    }

    fn repeated(&mut self) -> Result<Pattern, &'static str> {
        let one = self.one()?;
        let (least, most) = match self.0.next_if(|c| matches!(c, b'*' | b'+' | b'?')) {
            Some(b'*') => (0, usize::MAX),
            Some(b'+') => (1, usize::MAX),
            Some(_) => (0, 1),
            None => return Ok(one),
        };
        Ok(Pattern::Repeat(Box::new(one), least, most))
    }

    fn one(&mut self) -> Result<Pattern, &'static str> {
        match self.0.next().ok_or("ends")? {
            b'.' => Ok(Pattern::Any),
            b'(' => {
                let inner = self.either()?;
                self.0.next_if_eq(&&b')').ok_or("a group is not closed")?;
                Ok(inner)
            }
            b'[' => {
                let negated = self.0.next_if_eq(&&b'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    match *self.0.next().ok_or("a class is not closed")? {
                        b']' => break Ok(Pattern::Class(ranges, negated)),
                        low => {
                            let high = match self.0.next_if_eq(&&b'-') {
                                Some(_) => *self.0.next().ok_or("a range is not closed")?,
                                None => low,
                            };
                            ranges.push((low, high));
                        }
                    }
                }
            }
            b'*' | b'+' | b'?' => Err("nothing to repeat"),
            letter => Ok(Pattern::Letter(*letter)),
        }
    }
}

impl Pattern {
    fn parse(text: &[u8]) -> Result<Pattern, &'static str> {
        let mut parser = PatternParser(text.iter().peekable());
        let pattern = parser.either()?;
        match parser.0.next() {
            None => Ok(pattern),
            Some(_) => Err("a group was not opened"),
        }
    }

    /// Whether it matches here, and what follows does, too.
    fn matches(&self, text: &[u8], at: usize, then: &dyn Fn(usize) -> bool) -> bool {
        let letter = |is: bool| is && then(at + 1);
        match self {
            Pattern::Empty => then(at),
            Pattern::Any => letter(at < text.len()),
            Pattern::Letter(l) => letter(text.get(at) == Some(l)),
            Pattern::Class(ranges, negated) => {
                letter(text.get(at).is_some_and(|c| ranges.iter().any(|(a, b)| (a..=b).contains(&c)) != *negated))
            }
            Pattern::Then(a, b) => a.matches(text, at, &|next| b.matches(text, next, then)),
            Pattern::Either(a, b) => a.matches(text, at, then) || b.matches(text, at, then),
            Pattern::Repeat(inner, least, most) => {
                let more = *most > 0
                    && inner.matches(text, at, &|next| {
                        next > at
                            && Pattern::repeat(inner, least.saturating_sub(1), most.saturating_sub(1), text, next, then)
                    });
                more || (*least == 0 && then(at))
            }
        }
    }

    fn repeat(
        inner: &Pattern,
        least: usize,
        most: usize,
        text: &[u8],
        at: usize,
        then: &dyn Fn(usize) -> bool,
    ) -> bool {
        let more = most > 0
            && inner.matches(text, at, &|next| {
                next > at && Pattern::repeat(inner, least.saturating_sub(1), most - 1, text, next, then)
            });
        more || (least == 0 && then(at))
    }
}

/// Nested values, for writing them out.
#[derive(Debug, Clone, Default)]
enum Shape {
    #[default]
    Nothing,
    Point {
        x: i16,
        y: i16,
    },
    Named(&'static str, Option<u8>),
    Group(Vec<Shape>),
    Pair(Box<(Shape, Result<u32, char>)>),
}

fn shape(bytes: &mut core::slice::Iter<u8>, depth: usize) -> Shape {
    let Some(first) = bytes.next() else { return Shape::Nothing };
    match first % 5 {
        1 => Shape::Point { x: i16::from(*first) - 100, y: -i16::from(bytes.next().copied().unwrap_or(3)) },
        2 => Shape::Named(["north", "s\tuth", "\"e\"", "ü"][usize::from(first / 5 % 4)], first.checked_sub(99)),
        3 if depth < 4 => Shape::Group((0..first / 16 % 4).map(|_| shape(bytes, depth + 1)).collect()),
        4 if depth < 4 => {
            let inner = shape(bytes, depth + 1);
            let second = if first % 2 == 0 { Ok(u32::from(*first) << 12) } else { Err(char::from(first / 2)) };
            Shape::Pair(Box::new((inner, second)))
        }
        _ => Shape::Nothing,
    }
}

/// Lines of words separated by commas, some of them quoted.
fn table(text: &str) -> Result<Vec<Vec<String>>, usize> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut row = Vec::new();
        let mut chars = line.chars().peekable();
        loop {
            let mut field = String::new();
            if chars.next_if_eq(&'"').is_some() {
                loop {
                    match chars.next() {
                        Some('"') if chars.next_if_eq(&'"').is_some() => field.push('"'),
                        Some('"') => break,
                        Some(c) => field.push(c),
                        None => return Err(number),
                    }
                }
            } else {
                while let Some(c) = chars.next_if(|c| *c != ',') {
                    field.push(c);
                }
            }
            row.push(field);
            if chars.next_if_eq(&',').is_none() {
                break;
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

/// A language of words that work on a stack, with loops and definitions.
#[derive(Clone, Debug)]
enum Word {
    Push(i64),
    Do(fn(i64, i64) -> Option<i64>),
    Dup,
    Swap,
    Drop,
    Call(usize),
    While(Vec<Word>),
}

struct Stack {
    values: Vec<i64>,
    defined: Vec<Vec<Word>>,
    fuel: u32,
}

impl Stack {
    fn pop(&mut self) -> Result<i64, &'static str> {
        self.values.pop().ok_or("the stack is empty")
    }

    fn run(&mut self, words: &[Word]) -> Result<(), &'static str> {
        for word in words {
            self.fuel = self.fuel.checked_sub(1).ok_or("out of fuel")?;
            match word {
                Word::Push(n) => self.values.push(*n),
                Word::Do(operation) => {
                    let (b, a) = (self.pop()?, self.pop()?);
                    self.values.push(operation(a, b).ok_or("overflow")?);
                }
                Word::Dup => {
                    let top = self.pop()?;
                    self.values.extend([top, top]);
                }
                Word::Swap => {
                    let (b, a) = (self.pop()?, self.pop()?);
                    self.values.extend([b, a]);
                }
                Word::Drop => drop(self.pop()?),
                Word::Call(n) => {
                    let body = self.defined.get(*n).ok_or("not defined")?.clone();
                    self.run(&body)?;
                }
                Word::While(body) => {
                    while self.values.last().is_some_and(|top| *top > 0) {
                        self.fuel = self.fuel.checked_sub(1).ok_or("out of fuel")?;
                        self.run(body)?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn words(bytes: &mut core::slice::Iter<u8>, depth: usize) -> Vec<Word> {
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte % 11 {
            0 => Word::Push(i64::from(byte / 11)),
            1 => Word::Do(i64::checked_add),
            2 => Word::Do(i64::checked_sub),
            3 => Word::Do(i64::checked_mul),
            4 => Word::Do(i64::checked_rem),
            5 => Word::Dup,
            6 => Word::Swap,
            7 => Word::Drop,
            8 => Word::Call(usize::from(byte / 11 % 3)),
            9 if depth < 3 => Word::While(words(bytes, depth + 1)),
            _ if depth > 0 => break,
            _ => Word::Push(1),
        });
    }
    out
}

programs! {
    fn json_values(bytes) {
        let text = as_json(bytes);
        let mut tokens = Lexer::new(&text);
        match json(&mut tokens, 0) {
            Ok(value) => hashed(&format!("{value}")) ^ tokens.count() as u64,
            Err(error) => hashed(&format!("{error:?}")),
        }
    }

    fn pattern_matcher(bytes) {
        const PATTERNS: [&[u8]; 6] = [b"(g|s)et", b"[0-9]+[^0-9]?", b"a.*b|{.*}", b"((1|2)3?)+", b"[a-", b"+"];
        let mut all = 0u64;
        for (n, text) in PATTERNS.iter().enumerate() {
            let value = match Pattern::parse(text) {
                Ok(pattern) => {
                    let text = &bytes[..bytes.len().min(24)];
                    (0..text.len()).find(|at| pattern.matches(text, *at, &|_| true)).map_or(99, |at| at as u64)
                }
                Err(why) => hashed(why),
            };
            all = all.rotate_left(8) ^ value.wrapping_mul(n as u64 + 1);
        }
        all
    }

    fn debug_of_nested(bytes) {
        let value = shape(&mut bytes.iter(), 0);
        let (short, long) = (format!("{value:?}"), format!("{value:#?}"));
        hashed(&short) ^ hashed(&long).rotate_left(1) ^ (short.len() as u64) << 48
    }

    fn quoted_table(bytes) {
        let text: String = bytes.iter().map(|b| ['a', ',', '"', '\n', 'é', '1', ' ', 'b'][usize::from(b % 8)]).collect();
        match table(&text) {
            Ok(rows) => rows.iter().enumerate().fold(rows.len() as u64, |all, (i, row)| {
                all.wrapping_mul(37) ^ row.iter().map(|f| hashed(f)).fold(i as u64, |a, f| a.rotate_left(3) ^ f)
            }),
            Err(line) => line as u64,
        }
    }

    fn stack_language(bytes) {
        let mut input = bytes.iter();
        let defined = (0..3).map(|_| words(&mut input, 2)).collect();
        let main = words(&mut input, 0);
        let mut stack = Stack { values: alloc::vec![3, 5], defined, fuel: 300 };
        let result = stack.run(&main);
        let values = stack.values.iter().fold(0u64, |all, v| all.rotate_left(5) ^ *v as u64);
        match result {
            Ok(()) => values,
            Err(why) => values ^ hashed(why),
        }
    }
}
