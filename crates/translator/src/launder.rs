//! Makes the verifier forget what it knows about numbers before they are compared.
//!
//! The verifier follows constants: a loop that counts to a thousand is a thousand different states to
//! it. It may merge states once it reaches the same place again, unless a comparison was decided by a
//! known number on the way, which makes that number part of the state (`mark_chain_precision`). So to
//! whatever is compared a number is added of which the verifier knows nothing, and which is zero: it is
//! read from the arena once in each function. Then no comparison is ever decided, and states that
//! differ in numbers only are merged. As long as it has not finished with a loop the verifier is
//! stricter: states in it are merged only when numbers are in the same ranges and copies of the same
//! numbers. So in functions with loops the same is done to all that depends on the way that was taken
//! ([`ways`]).
//!
//! This is done to the optimizer's result, which it therefore does not hinder. Comparisons in inline
//! assembly are the runtime's own, of pointers, and are left alone.

mod bits;
mod fresh;
mod saturating;
mod ways;

use crate::layout::ZERO_PAGE;
use bits::Bits;
use std::collections::HashSet;

/// How much the verifier is made to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Launder {
    /// Nothing.
    None,
    /// All that is compared.
    #[default]
    Comparisons,
}

/// Intrinsics that become comparisons.
const COMPARING: [&str; 7] =
    ["@llvm.umin.", "@llvm.umax.", "@llvm.smin.", "@llvm.smax.", "@llvm.abs.", "@llvm.ucmp.", "@llvm.scmp."];

/// LLVM's text form of a module with what makes the verifier forget.
pub fn launder(ir: &str, how: Launder) -> String {
    if how == Launder::None {
        return ir.to_string();
    }
    let mut out = String::with_capacity(ir.len() * 5 / 4);
    let mut function: Option<Function> = None;
    for line in ir.lines() {
        match &mut function {
            Some(_) if line == "}" => {
                out.push_str(&function.take().expect("inside").finish());
                out.push_str("}\n");
            }
            Some(function) => function.lines.push(line.to_string()),
            None => {
                if line.starts_with("define ") {
                    function = Some(Function::default());
                }
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// A function being rewritten.
#[derive(Default)]
struct Function {
    lines: Vec<String>,
    body: String,
    count: usize,
    /// Bits that a comparison or something of the kind has made.
    compared: HashSet<String>,
    /// Operands of the current line that may stay.
    fresh: Vec<String>,
}

impl Function {
    fn line(&mut self, line: &str) {
        let text = line.trim_start();
        let rewritten = self
            .comparison(text)
            .or_else(|| self.branch(text))
            .or_else(|| self.switch(text))
            .or_else(|| self.truncation(text))
            .or_else(|| self.intrinsic(text));
        match rewritten {
            Some(rewritten) => {
                self.body.push_str("  ");
                self.body.push_str(&rewritten);
            }
            None => self.body.push_str(line),
        }
        self.body.push('\n');
    }

    /// The operand with an unknown zero added; constants and what is no number stay.
    fn forget(&mut self, ty: &str, operand: &str) -> String {
        if !operand.starts_with('%') || !matches!(ty, "i8" | "i16" | "i32" | "i64") {
            return operand.to_string();
        }
        if self.fresh.iter().any(|fresh| fresh == operand) {
            return operand.to_string();
        }
        self.count += 1;
        let n = self.count;
        let name = format!("%forgotten{n}");
        // Assembly: what is computed twice, or on both sides of a comparison, the code generator otherwise
        // finds and computes once or not at all. What one comparison has shown would then be known in the next.
        let forget = |ty: &str, from: &str| {
            let kind = if ty == "i64" { "r" } else { "w" };
            format!("call {ty} asm sideeffect \"$0 ^= $2\", \"={kind},0,{kind}\"({ty} {from}, {ty} %unknown.{ty})")
        };
        let lines = match ty {
            "i32" | "i64" => format!("  {name} = {}\n", forget(ty, operand)),
            _ => format!(
                "  {name}.wide = zext {ty} {operand} to i32\n  {name}.any = {}\n  {name} = trunc i32 {name}.any to {ty}\n",
                forget("i32", &format!("{name}.wide"))
            ),
        };
        self.body.push_str(&lines);
        name
    }

    /// The line with bits of its own, where it must not use those of others ([`bits`]).
    fn with_own_bits(&mut self, wanted: Vec<(String, String)>, line: &str) -> String {
        let mut line = line.to_string();
        for (bit, comparison) in wanted {
            self.count += 1;
            let own = format!("%again{}", self.count);
            let again = format!("{own} = {comparison}");
            let text = self.comparison(&again).or_else(|| self.truncation(&again)).unwrap_or(again);
            self.body.push_str(&format!("  {text}\n"));
            line = ways::renamed(&line, |name| (name == bit).then(|| own.clone()));
        }
        line
    }

    fn comparison(&mut self, text: &str) -> Option<String> {
        let (name, rest) = text.split_once(" = icmp ")?;
        self.compared.insert(name.to_string());
        let (left, b) = rest.split_once(", ")?;
        let words: Vec<&str> = left.split(' ').collect();
        let [flags @ .., ty, a] = &words[..] else { return None };
        let (b, more) = b.split_once(',').map_or((b, String::new()), |(b, more)| (b, format!(",{more}")));
        let (a, b) = (self.forget(ty, a), self.forget(ty, b));
        // What was known of the operands is not known of these.
        let predicate = flags.iter().rfind(|f| **f != "samesign")?;
        Some(format!("{name} = icmp {predicate} {ty} {a}, {b}{more}"))
    }

    /// A branch on a bit that comes from elsewhere than a comparison.
    fn branch(&mut self, text: &str) -> Option<String> {
        let rest = text.strip_prefix("br i1 ")?;
        let (bit, targets) = rest.split_once(", ")?;
        if !bit.starts_with('%') || self.compared.contains(bit) {
            return None;
        }
        self.count += 1;
        let n = self.count;
        self.body.push_str(&format!("  %wide{n} = zext i1 {bit} to i32\n"));
        let forgotten = self.forget("i32", &format!("%wide{n}"));
        self.body.push_str(&format!("  %bit{n} = icmp ne i32 {forgotten}, 0\n"));
        Some(format!("br i1 %bit{n}, {targets}"))
    }

    fn switch(&mut self, text: &str) -> Option<String> {
        let (ty, rest) = text.strip_prefix("switch ")?.split_once(' ')?;
        let (value, targets) = rest.split_once(", ")?;
        let value = self.forget(ty, value);
        Some(format!("switch {ty} {value}, {targets}"))
    }

    /// The lowest bit of a number, which is tested later.
    fn truncation(&mut self, text: &str) -> Option<String> {
        let (name, rest) = text.split_once(" = trunc ")?;
        let (from, more) = rest.split_once(" to i1").filter(|_| bits::makes_bit(rest))?;
        self.compared.insert(name.to_string());
        let words: Vec<&str> = from.split(' ').collect();
        let [.., ty, operand] = &words[..] else { return None };
        let operand = self.forget(ty, operand);
        Some(format!("{name} = trunc {ty} {operand} to i1{more}"))
    }

    fn intrinsic(&mut self, text: &str) -> Option<String> {
        COMPARING.iter().find(|name| text.contains(*name))?;
        let (head, arguments) = text.split_once('(')?;
        let (arguments, tail) = arguments.rsplit_once(')')?;
        let arguments: Vec<String> = arguments
            .split(", ")
            .map(|argument| match argument.split_once(' ') {
                Some((ty, operand)) => format!("{ty} {}", self.forget(ty, operand)),
                None => argument.to_string(),
            })
            .collect();
        Some(format!("{head}({}){tail}", arguments.join(", ")))
    }

    /// The text, with the unknown zero at its beginning when it is used.
    fn finish(mut self) -> String {
        let lines = std::mem::take(&mut self.lines);
        let lines = ways::forget(saturating::expand(lines));
        let bits = Bits::of(&lines);
        let fresh = fresh::operands(&lines);
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| !bits.is_useless(line)) {
            let line = self.with_own_bits(bits.wanted(at, line), line);
            self.fresh = fresh.iter().filter(|(of, _)| *of == at).map(|(_, name)| name.clone()).collect();
            self.line(&line);
            self.fresh.clear();
        }
        if !self.body.contains("%unknown.") {
            return self.body;
        }
        let mut start = format!(
            "  %unknown.at = call ptr asm \"$0 = addr_space_cast($0, 0x0, 0x1)\", \"=r,0\"(i64 {ZERO_PAGE})\n  \
             %unknown.i64 = load volatile i64, ptr %unknown.at, align 8\n"
        );
        for ty in ["i8", "i16", "i32"] {
            start.push_str(&format!("  %unknown.{ty} = trunc i64 %unknown.i64 to {ty}\n"));
        }
        match self.body.lines().next() {
            // The first block may have a label.
            Some(first) if !first.starts_with(' ') => {
                let rest = &self.body[first.len() + 1..];
                format!("{first}\n{start}{rest}")
            }
            _ => start + &self.body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> String {
        let all = launder(&format!("define i64 @f(i64 %a) {{\n{text}\n}}\n"), Launder::Comparisons);
        let lines = all.lines().filter(|l| !l.contains("%unknown") || l.contains("forgotten") || l.contains("%any."));
        lines.skip(1).filter(|l| *l != "}").collect::<Vec<_>>().join("\n")
    }

    /// The line that makes a forgotten number.
    fn forgotten(name: &str, ty: &str, from: &str) -> String {
        let kind = if ty == "i64" { "r" } else { "w" };
        format!(
            "  {name} = call {ty} asm sideeffect \"$0 ^= $2\", \"={kind},0,{kind}\"({ty} {from}, {ty} %unknown.{ty})\n"
        )
    }

    #[test]
    fn what_is_compared_is_forgotten() {
        let (a, b) = (forgotten("%forgotten1", "i32", "%a"), forgotten("%forgotten2", "i32", "%b"));
        assert_eq!(
            body("  %c = icmp samesign ult i32 %a, %b\n  br i1 %c, label %l, label %m"),
            format!("{a}{b}  %c = icmp ult i32 %forgotten1, %forgotten2\n  br i1 %c, label %l, label %m")
        );
        let a = forgotten("%forgotten1", "i64", "%a");
        assert_eq!(
            body("  %c = icmp eq i64 %a, 5\n  br i1 %c, label %l, label %m"),
            format!("{a}  %c = icmp eq i64 %forgotten1, 5\n  br i1 %c, label %l, label %m")
        );
        let wide = forgotten("%forgotten1.any", "i32", "%forgotten1.wide");
        assert_eq!(
            body("  %c = icmp slt i8 %a, 5\n  br i1 %c, label %l, label %m"),
            format!(
                "  %forgotten1.wide = zext i8 %a to i32\n{wide}  %forgotten1 = trunc i32 %forgotten1.any to i8\n  \
                 %c = icmp slt i8 %forgotten1, 5\n  br i1 %c, label %l, label %m"
            )
        );
    }

    #[test]
    fn every_use_of_a_bit_has_its_own_comparison() {
        let text = body("  %c = icmp eq i64 %a, 5\n  %s = select i1 %c, i64 1, i64 %b\n  br i1 %c, label %l, label %m");
        let again = format!("{}  %again2 = icmp eq i64 %forgotten3, 5\n", forgotten("%forgotten3", "i64", "%a"));
        assert!(text.ends_with(&format!("{again}  br i1 %again2, label %l, label %m")), "{text}");
        // In a loop the same place is another time.
        let text = body("  %c = icmp eq i64 %a, 5\n  br label %l\nl:\n  br i1 %c, label %l, label %m");
        let again = format!("{}  %again1 = icmp eq i64 %forgotten2, 5\n", forgotten("%forgotten2", "i64", "%a"));
        assert_eq!(text, format!("  br label %l\nl:\n{again}  br i1 %again1, label %l, label %m"));
    }

    #[test]
    fn pointers_stay() {
        let text = "  %c = icmp eq ptr %a, null\n  br i1 %c, label %l, label %m";
        assert_eq!(body(text), text);
    }

    #[test]
    fn a_bit_from_elsewhere_is_forgotten_once() {
        let wide = forgotten("%forgotten2", "i32", "%wide1");
        assert_eq!(
            body("  %c = phi i1 [ true, %x ], [ %d, %y ]\n  br i1 %c, label %l, label %m"),
            format!(
                "  %c = phi i1 [ true, %x ], [ %d, %y ]\n  %wide1 = zext i1 %c to i32\n{wide}  \
                 %bit1 = icmp ne i32 %forgotten2, 0\n  br i1 %bit1, label %l, label %m"
            )
        );
        assert!(
            body("  %c = icmp eq i32 %a, 1\n  br i1 %c, label %l, label %m")
                .ends_with("\n  br i1 %c, label %l, label %m")
        );
    }

    #[test]
    fn the_zero_comes_first() {
        let text = launder(
            "define i64 @f(i64 %a) {\nentry:\n  %c = icmp eq i64 %a, 5\n  br i1 %c, label %l, label %m\n}\n",
            Launder::Comparisons,
        );
        assert!(text.starts_with("define i64 @f(i64 %a) {\nentry:\n  %unknown.at = "));
    }
}
