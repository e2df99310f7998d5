//! Which comparison each use of a bit gets.
//!
//! The code generator compares again wherever a bit is used, with the same numbers. What the verifier learns
//! of a number at the first place decides the comparison at the second, and in a loop that at the same place
//! the next time. So a bit is only used once, where it is made; every other use gets a comparison of its
//! own, of a number that was forgotten just before.

use super::ways::{is_label, is_phi};
use std::collections::{HashMap, HashSet};

/// Comparisons by the bits that they make, and who uses them.
#[derive(Default)]
pub(super) struct Bits {
    made: HashMap<String, Made>,
}

struct Made {
    /// The right side of the definition.
    comparison: String,
    block: usize,
    /// The line that uses the bit itself.
    user: Option<usize>,
    /// Whether a `phi` does: that cannot have its own.
    in_phi: bool,
}

impl Bits {
    /// Of a function.
    pub fn of(lines: &[String]) -> Bits {
        let mut bits = Bits::default();
        let blocks: Vec<usize> = lines
            .iter()
            .scan(0, |block, line| {
                *block += usize::from(is_label(line));
                Some(*block)
            })
            .collect();
        for (line, block) in lines.iter().zip(&blocks) {
            if let Some((name, comparison)) = definition(line) {
                let made = Made { comparison, block: *block, user: None, in_phi: false };
                bits.made.insert(name, made);
            }
        }
        for (at, line) in lines.iter().enumerate() {
            for bit in used(line) {
                let Some(made) = bits.made.get_mut(&bit) else { continue };
                if is_phi(line) {
                    made.in_phi = true;
                } else if made.user.is_none() && made.block == blocks[at] {
                    made.user = Some(at);
                }
            }
        }
        bits
    }

    /// Whether nobody uses the bit that this line makes: all have their own.
    pub fn is_useless(&self, line: &str) -> bool {
        let made = definition(line).and_then(|(name, _)| self.made.get(&name));
        made.is_some_and(|m| m.user.is_none() && !m.in_phi)
    }

    /// Bits that a line shall make itself, with what makes them.
    pub fn wanted(&self, at: usize, line: &str) -> Vec<(String, String)> {
        if is_phi(line) {
            return Vec::new();
        }
        let others = |bit: &String| self.made.get(bit).filter(|m| m.in_phi || m.user != Some(at));
        used(line).into_iter().filter_map(|bit| others(&bit).map(|m| (bit.clone(), m.comparison.clone()))).collect()
    }
}

/// Name and right side of a comparison, or of the lowest bit of a number.
fn definition(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.trim_start().split_once(" = ")?;
    let is_one = rest.starts_with("icmp ") || (rest.starts_with("trunc ") && makes_bit(rest));
    is_one.then(|| (name.to_string(), rest.to_string()))
}

/// Whether that is what is behind a type: `trunc i32 %a to i1, !range !7`, but not `to i16`.
pub(super) fn makes_bit(truncation: &str) -> bool {
    truncation.split_once(" to i1").is_some_and(|(_, after)| after.is_empty() || after.starts_with(','))
}

/// What a line uses as bits, each once.
fn used(line: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    if is_phi(line) {
        if let Some((_, inputs)) = line.split_once(" = phi i1 ") {
            names = inputs.split('[').filter_map(|i| Some(i.trim().split_once(',')?.0.to_string())).collect();
        }
    } else {
        let right = line.split_once(" = ").map_or(line, |(_, rest)| rest);
        let mut are_bits = false;
        for word in right.split([' ', '(', ')']) {
            let name = word.strip_suffix(',').unwrap_or(word);
            if are_bits && (name.starts_with('%') || name == "true" || name == "false") {
                names.push(name.to_string());
                // `and i1 %a, %b` has two.
                are_bits = word.ends_with(',');
            } else {
                are_bits = name == "i1";
            }
        }
    }
    names.retain(|name| name.starts_with('%') && seen.insert(name.clone()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_uses_a_bit_elsewhere_makes_its_own() {
        let text = "entry:\n  %c = icmp eq i32 %a, 5\n  %d = trunc i32 %a to i1\n  %e = trunc i32 %a to i16\n  \
                    %s = select i1 %c, i32 1, i32 2\n  br i1 %c, label %x, label %y\nx:\n  br i1 %d, label %x, label %y";
        let lines: Vec<String> = text.lines().map(String::from).collect();
        let bits = Bits::of(&lines);
        assert!(bits.wanted(4, &lines[4]).is_empty());
        assert_eq!(bits.wanted(5, &lines[5]), [("%c".to_string(), "icmp eq i32 %a, 5".to_string())]);
        assert_eq!(bits.wanted(7, &lines[7]), [("%d".to_string(), "trunc i32 %a to i1".to_string())]);
        assert_eq!(lines.iter().map(|l| bits.is_useless(l)).collect::<Vec<_>>()[1..4], [false, true, false]);
    }

    #[test]
    fn bits_are_found() {
        assert_eq!(used("  br i1 %a, label %b, label %c"), ["%a"]);
        assert_eq!(used("  %d = select i1 %a, i1 %b, i1 true"), ["%a", "%b"]);
        assert_eq!(used("  %d = xor i1 %a, %b"), ["%a", "%b"]);
        assert_eq!(used("  %d = and i1 true, %b"), ["%b"]);
        assert_eq!(used("  %d = zext i1 %a to i32"), ["%a"]);
        assert_eq!(used("  %d = phi i1 [ %a, %x ], [ true, %y ], [ %b, %z ]"), ["%a", "%b"]);
        assert_eq!(used("  %d = add i32 %a, %b"), [] as [&str; 0]);
    }
}
