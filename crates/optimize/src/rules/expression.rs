//! Expressions over the constants of a rule: 64-bit numbers, with the operators of the assembly syntax
//! (`s>>`, `s<` and the like are signed). They mean the same to the matcher, which computes them, and
//! to the proof, which reasons about them: both evaluate through [`Numbers`].

use karakoram_bpf::insn::{AluOp, Condition};
use karakoram_bpf::semantics;

/// An expression. Truth is 1 or 0; anything but 0 counts as true.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    /// A number.
    Number(u64),
    /// A constant of the rule, by position in [`super::Variant::constants`].
    Constant(usize),
    /// Two operands combined.
    Alu(AluOp, Box<Expression>, Box<Expression>),
    /// Two operands compared.
    Compare(Condition, Box<Expression>, Box<Expression>),
    /// The low bits, zero-extended or (`true`) sign-extended.
    Extend(u32, bool, Box<Expression>),
    /// The low bits with their bytes reversed.
    Swap(u32, Box<Expression>),
    /// The exponent of a power of two; nothing else has a value.
    Log2(Box<Expression>),
}

/// What numbers are, and how they are combined.
pub trait Numbers {
    /// A 64-bit number.
    type Value: Clone;
    /// That number.
    fn number(&mut self, value: u64) -> Self::Value;
    /// `a op b` at 64 bits; shift amounts count modulo 64.
    fn alu(&mut self, op: AluOp, a: &Self::Value, b: &Self::Value) -> Self::Value;
    /// 1 when the comparison holds, else 0.
    fn compare(&mut self, condition: Condition, a: &Self::Value, b: &Self::Value) -> Self::Value;
    /// The low `bits`, extended.
    fn extend(&mut self, value: &Self::Value, bits: u32, signed: bool) -> Self::Value;
    /// The low `bits` with their bytes reversed.
    fn swap(&mut self, value: &Self::Value, bits: u32) -> Self::Value;
    /// The exponent of a power of two.
    fn log2(&mut self, value: &Self::Value) -> Option<Self::Value>;
}

impl Expression {
    /// The constants in it.
    pub fn constants(&self) -> Vec<usize> {
        match self {
            Expression::Number(_) => Vec::new(),
            Expression::Constant(i) => vec![*i],
            Expression::Alu(_, a, b) | Expression::Compare(_, a, b) => [a.constants(), b.constants()].concat(),
            Expression::Extend(.., a) | Expression::Swap(_, a) | Expression::Log2(a) => a.constants(),
        }
    }

    /// The value, for those constants; `None` where one has none yet.
    pub fn evaluate<N: Numbers>(&self, n: &mut N, constants: &[Option<N::Value>]) -> Option<N::Value> {
        let mut value = |e: &Expression| e.evaluate(n, constants);
        Some(match self {
            Expression::Number(v) => n.number(*v),
            Expression::Constant(i) => constants.get(*i)?.clone()?,
            Expression::Alu(op, a, b) => {
                let (a, b) = (value(a)?, value(b)?);
                n.alu(*op, &a, &b)
            }
            Expression::Compare(condition, a, b) => {
                let (a, b) = (value(a)?, value(b)?);
                n.compare(*condition, &a, &b)
            }
            Expression::Extend(bits, signed, a) => {
                let a = value(a)?;
                n.extend(&a, *bits, *signed)
            }
            Expression::Swap(bits, a) => {
                let a = value(a)?;
                n.swap(&a, *bits)
            }
            Expression::Log2(a) => {
                let a = value(a)?;
                n.log2(&a)?
            }
        })
    }
}

/// Plain numbers.
pub struct Concrete;

impl Numbers for Concrete {
    type Value = u64;

    fn number(&mut self, value: u64) -> u64 {
        value
    }
    fn alu(&mut self, op: AluOp, a: &u64, b: &u64) -> u64 {
        semantics::concrete_alu(karakoram_bpf::insn::Width::W64, op, *a, *b)
    }
    fn compare(&mut self, condition: Condition, a: &u64, b: &u64) -> u64 {
        semantics::concrete_compare(karakoram_bpf::insn::Width::W64, condition, *a, *b) as u64
    }
    fn extend(&mut self, value: &u64, bits: u32, signed: bool) -> u64 {
        semantics::concrete_extend(*value, bits, signed)
    }
    fn swap(&mut self, value: &u64, bits: u32) -> u64 {
        semantics::concrete_swap(*value, bits)
    }
    fn log2(&mut self, value: &u64) -> Option<u64> {
        value.is_power_of_two().then(|| value.trailing_zeros() as u64)
    }
}

/// Reads an expression; `name` finds the constant of a name.
pub fn parse(text: &str, name: &mut dyn FnMut(&str) -> usize) -> Result<Expression, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, name };
    let expression = parser.binary(0)?;
    match parser.tokens.get(parser.at) {
        None => Ok(expression),
        Some(rest) => Err(format!("`{rest}` is not expected in `{text}`")),
    }
}

/// Binary operators, those that bind least first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">=", "s<", "s<=", "s>", "s>="],
    &["<<", ">>", "s>>"],
    &["+", "-"],
    &["*", "/", "%"],
];

fn tokens(text: &str) -> Result<Vec<String>, String> {
    const SYMBOLS: [&str; 32] = [
        "s>>", "s<=", "s>=", "s<", "s>", "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "<", ">", "|", "^", "&", "+",
        "-", "*", "/", "%", "~", "!", "(", ")", ",", "{", "}", "[", "]",
    ];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let symbol =
            SYMBOLS.iter().find(|s| rest.starts_with(**s)).filter(|s| word == 0 || word == 1 && s.starts_with('s'));
        let length = match symbol {
            Some(symbol) => symbol.len(),
            None if word > 0 => word,
            None => return Err(format!("`{rest}` is no expression")),
        };
        tokens.push(rest[..length].to_string());
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Parser<'n> {
    tokens: Vec<String>,
    at: usize,
    name: &'n mut dyn FnMut(&str) -> usize,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let found = self.tokens.get(self.at).is_some_and(|t| t == token);
        self.at += found as usize;
        found
    }

    fn binary(&mut self, level: usize) -> Result<Expression, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = self.tokens.get(self.at).filter(|t| operators.contains(&t.as_str())).cloned() {
            self.at += 1;
            let right = self.binary(level + 1)?;
            left = combine(&operator, left, right);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, String> {
        if self.take("-") {
            return Ok(combine("-", Expression::Number(0), self.unary()?));
        }
        if self.take("~") {
            return Ok(combine("^", self.unary()?, Expression::Number(u64::MAX)));
        }
        if self.take("!") {
            return Ok(combine("==", self.unary()?, Expression::Number(0)));
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Expression, String> {
        if self.take("(") {
            let inner = self.binary(0)?;
            return if self.take(")") { Ok(inner) } else { Err("a `)` is missing".to_string()) };
        }
        let token = self.tokens.get(self.at).cloned().ok_or("the expression ends too early")?;
        self.at += 1;
        if token.starts_with(|c: char| c.is_ascii_digit()) {
            return number(&token).map(Expression::Number).ok_or(format!("`{token}` is no number"));
        }
        if self.tokens.get(self.at).is_some_and(|t| t == "(") {
            return self.function(&token);
        }
        if token.starts_with(|c: char| c.is_ascii_uppercase()) {
            return Ok(Expression::Constant((self.name)(&token)));
        }
        Err(format!("`{token}` is neither a number nor the name of a constant"))
    }

    fn function(&mut self, name: &str) -> Result<Expression, String> {
        let argument = Box::new(self.primary()?);
        let bits =
            |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse().ok()).filter(|n| (1..=64).contains(n));
        if let Some(bits) = bits("zext") {
            return Ok(Expression::Extend(bits, false, argument));
        }
        if let Some(bits) = bits("sext") {
            return Ok(Expression::Extend(bits, true, argument));
        }
        if let Some(bits @ (16 | 32 | 64)) = bits("swap") {
            return Ok(Expression::Swap(bits, argument));
        }
        match name {
            "log2" => Ok(Expression::Log2(argument)),
            _ => Err(format!("there is no function `{name}`: log2, zextN, sextN, swapN")),
        }
    }
}

fn number(token: &str) -> Option<u64> {
    match token.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => token.parse().ok(),
    }
}

fn truth(e: Expression) -> Expression {
    match e {
        Expression::Compare(..) => e,
        other => combine("!=", other, Expression::Number(0)),
    }
}

fn combine(operator: &str, a: Expression, b: Expression) -> Expression {
    let compare = |c, a, b| Expression::Compare(c, Box::new(a), Box::new(b));
    let alu = |op, a, b| Expression::Alu(op, Box::new(a), Box::new(b));
    match operator {
        "||" => alu(AluOp::Or, truth(a), truth(b)),
        "&&" => alu(AluOp::And, truth(a), truth(b)),
        "|" => alu(AluOp::Or, a, b),
        "^" => alu(AluOp::Xor, a, b),
        "&" => alu(AluOp::And, a, b),
        "==" => compare(Condition::Eq, a, b),
        "!=" => compare(Condition::Ne, a, b),
        "<" => compare(Condition::Lt, a, b),
        "<=" => compare(Condition::Le, a, b),
        ">" => compare(Condition::Gt, a, b),
        ">=" => compare(Condition::Ge, a, b),
        "s<" => compare(Condition::SLt, a, b),
        "s<=" => compare(Condition::SLe, a, b),
        "s>" => compare(Condition::SGt, a, b),
        "s>=" => compare(Condition::SGe, a, b),
        "<<" => alu(AluOp::Lsh, a, b),
        ">>" => alu(AluOp::Rsh, a, b),
        "s>>" => alu(AluOp::Arsh, a, b),
        "+" => alu(AluOp::Add, a, b),
        "-" => alu(AluOp::Sub, a, b),
        "*" => alu(AluOp::Mul, a, b),
        "/" => alu(AluOp::Div, a, b),
        "%" => alu(AluOp::Mod, a, b),
        _ => unreachable!("all operators of LEVELS are listed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<u64> {
        let mut names = vec!["C".to_string(), "D".to_string()];
        let mut name = |n: &str| {
            names.iter().position(|k| k == n).unwrap_or_else(|| {
                names.push(n.to_string());
                names.len() - 1
            })
        };
        parse(text, &mut name).expect("parses").evaluate(&mut Concrete, &[Some(8), Some(u64::MAX)])
    }

    #[test]
    fn operators_bind_as_in_c() {
        assert_eq!(value("1 + 2 * 3"), Some(7));
        assert_eq!(value("(1 + 2) * 3"), Some(9));
        assert_eq!(value("1 << 4 - 1"), Some(8));
        assert_eq!(value("C & C - 1 == 0"), Some(0), "comparison binds before `&`");
        assert_eq!(value("(C & C - 1) == 0 && D s< 0"), Some(1));
        assert_eq!(value("D s>> 3 == D && D >> 60 == 15"), Some(1));
        assert_eq!(value("-C + ~D"), Some(8u64.wrapping_neg()));
        assert_eq!(value("log2(C)"), Some(3));
        assert_eq!(value("log2(C + 1)"), None);
        assert_eq!(value("sext8(0x80) == -0x80"), Some(1));
        assert_eq!(value("swap16(0x1234)"), Some(0x3412));
        assert_eq!(value("E"), None, "not bound");
    }

    #[test]
    fn bad_expressions_are_refused() {
        for text in ["", "1 +", "(1", "c", "C D", "foo(C)", "swap8(C)", "zext65(C)", "1 ? 2"] {
            assert!(parse(text, &mut |_| 0).is_err(), "{text}");
        }
    }
}
