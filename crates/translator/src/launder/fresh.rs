//! Numbers that the verifier knows nothing about where they are compared, and nobody looks at afterwards.
//!
//! What comes from memory, from a packet or from a helper is unknown, and so is what is computed of it and of
//! constants. When each of these numbers is used once, and the last of them by a comparison whose bit is used
//! once, then what the verifier learns by the comparison is about registers that are dead by then. Such a number
//! need not be forgotten. In a function with loops it must be all the same: as long as the verifier has not
//! finished with a loop it compares what is dead, too.

use super::ways::is_phi;
use std::collections::{HashMap, HashSet};

/// Intrinsics of one number.
const OF_ONE: [&str; 3] = ["@llvm.bswap.", "@llvm.ctpop.", "@llvm.bitreverse."];
/// Arithmetic of two numbers.
const ARITHMETIC: [&str; 9] = ["add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr"];

/// The operands of comparisons, by line and name, that need not be forgotten.
pub(super) fn operands(lines: &[String]) -> HashSet<(usize, String)> {
    let mut found = HashSet::new();
    if lines.iter().any(|l| l.contains("may_goto")) {
        return found;
    }
    let mut uses: HashMap<String, usize> = HashMap::new();
    let mut numbers: HashMap<String, Number> = HashMap::new();
    for line in lines {
        let (defined, right) = parted(line);
        for name in names(right) {
            *uses.entry(name).or_default() += 1;
        }
        if let Some(number) = defined.and_then(|_| Number::made_by(right)) {
            numbers.insert(defined.unwrap_or_default().to_string(), number);
        }
    }
    let once = |name: &str| uses.get(name) == Some(&1);
    for (at, line) in lines.iter().enumerate() {
        let (Some(bit), Some(("icmp", rest))) = (parted(line).0, parted(line).1.split_once(' ')) else { continue };
        if !once(bit) || is_phi_of_bits(lines, bit) {
            continue;
        }
        for operand in names(rest) {
            if is_fresh(&operand, &numbers, &once, MOST_STEPS) {
                found.insert((at, operand));
            }
        }
    }
    found
}

/// Longest computation that is followed.
const MOST_STEPS: usize = 8;

/// A number that may be fresh.
struct Number {
    /// What it is computed of; nothing for one that comes from outside.
    of: Vec<String>,
}

impl Number {
    /// What the right side of a definition makes, if it is of this kind.
    fn made_by(right: &str) -> Option<Number> {
        let (word, rest) = right.split_once(' ')?;
        let of = match word {
            "load" if !rest.starts_with("ptr") => Vec::new(),
            "trunc" | "zext" | "sext" => names(rest),
            _ if ARITHMETIC.contains(&word) => names(rest),
            "call" | "tail" if OF_ONE.iter().any(|name| rest.contains(name)) => names(rest),
            // Helpers of the kernel.
            "call" | "tail" if rest.contains("i64 inttoptr (i64 ") => Vec::new(),
            _ => return None,
        };
        // A bit is not a number.
        let is_bit = rest.starts_with("i1 ") || rest.contains(" to i1");
        (!is_bit).then_some(Number { of })
    }
}

fn is_fresh(name: &str, numbers: &HashMap<String, Number>, once: &impl Fn(&str) -> bool, steps: usize) -> bool {
    let Some(number) = numbers.get(name).filter(|_| steps > 0 && once(name)) else { return false };
    number.of.iter().all(|part| is_fresh(part, numbers, once, steps - 1))
}

/// Whether a bit is used by a `phi`: it is then a number on the way, and another comparison behind it.
fn is_phi_of_bits(lines: &[String], bit: &str) -> bool {
    lines.iter().any(|line| is_phi(line) && names(parted(line).1).iter().any(|name| name == bit))
}

/// What a line defines, and its right side.
fn parted(line: &str) -> (Option<&str>, &str) {
    let line = line.trim_start();
    match line.split_once(" = ") {
        Some((name, right)) if name.starts_with('%') => (Some(name), right),
        _ => (None, line),
    }
}

/// The values that a text names; labels are among them.
fn names(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$' | '-');
    let parts = text.split('%').skip(1);
    parts.map(|part| format!("%{}", &part[..part.find(|c| !is_name(c)).unwrap_or(part.len())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let mut found: Vec<_> = operands(&lines).into_iter().collect();
        found.sort();
        found
    }

    const LOOP: &str = "  callbr void asm sideeffect \"may_goto ${0:l}\", \"!i\"() to label %on [label %late]\non:";

    #[test]
    fn what_comes_from_memory_and_is_used_once_is_fresh() {
        let text = "  %a = load i16, ptr %p, align 1\n  %b = and i16 %a, 63\n  %c = icmp eq i16 %b, 0\n  br i1 %c, label %l, label %m";
        assert_eq!(found(text), [(2, "%b".to_string())]);
        assert_eq!(found(&text.replace("i16 %a, 63", "i16 %a, %other")), []);
        assert_eq!(found(&format!("{text}\nl:\n  %d = zext i16 %a to i32")), []);
        assert_eq!(found(&format!("{text}\nl:\n  %d = select i1 %c, i32 1, i32 2")), []);
    }

    #[test]
    fn where_there_are_loops_nothing_is() {
        let load = "  %a = load i8, ptr %p, align 1";
        let compare = "  %c = icmp eq i8 %a, 0\n  br i1 %c, label %l, label %m";
        assert_eq!(found(&format!("{load}\nl:\n{compare}")).len(), 1);
        assert_eq!(found(&format!("{load}\n{LOOP}\n{compare}")), []);
        assert_eq!(found(&format!("{LOOP}\n{load}\n{compare}")), []);
    }
}
