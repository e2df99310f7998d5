//! Makes the verifier forget what it knows about numbers before they are compared.
//!
//! The verifier follows constants: a loop that counts to a thousand is a thousand different states to
//! it. It may merge states once it reaches the same place again, unless a comparison was decided by a
//! known number on the way, which makes that number part of the state. `r = le64 r` changes nothing on
//! a little-endian machine, costs no machine code there, and leaves a number that the verifier knows
//! nothing about. With it before every comparison no comparison is ever decided, and states that
//! differ in numbers only are merged.
//!
//! Comparisons inside inline assembly are the runtime's own, of pointers, and are left alone.

/// How the verifier is made to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Launder {
    /// Not at all.
    None,
    /// By `le64` in place.
    #[default]
    ByteOrder,
}

/// The registers that a line compares, if it is a conditional jump.
fn compared(line: &str) -> Vec<&str> {
    let Some(rest) = line.trim_start().strip_prefix("if ") else { return Vec::new() };
    let mut words = rest.split_whitespace();
    let (a, _, b) = (words.next(), words.next(), words.next());
    [a, b].into_iter().flatten().filter_map(register).collect()
}

/// The number of a register, of 64 bits or its lower half.
fn register(word: &str) -> Option<&str> {
    let number = word.strip_prefix(['r', 'w'])?;
    number.parse::<u8>().ok().map(|_| number)
}

/// Whether a line belongs to debug information that is left out.
fn is_debug(line: &str) -> bool {
    let line = line.trim_start();
    [".loc\t", ".file\t", ".cfi_", ".addrsig"].iter().any(|p| line.starts_with(p))
}

/// What a line says about sections: whether the new one is wanted.
fn section(line: &str) -> Option<bool> {
    let line = line.trim_start();
    if line == ".text" {
        return Some(true);
    }
    let name = line.strip_prefix(".section\t")?.trim_start_matches('"');
    Some(!(name.starts_with(".debug_") || name.starts_with(".note") || name.starts_with(".llvm")))
}

/// The assembly text that `llc` wrote, without debug sections and with what makes the verifier forget.
pub fn launder(assembly: &str, how: Launder) -> String {
    let mut out = String::with_capacity(assembly.len() * 5 / 4);
    let (mut is_wanted, mut is_inline) = (true, false);
    for line in assembly.lines() {
        is_wanted = section(line).unwrap_or(is_wanted);
        if !is_wanted || is_debug(line) {
            continue;
        }
        match line.trim() {
            "#APP" => is_inline = true,
            "#NO_APP" => is_inline = false,
            _ => {}
        }
        if how == Launder::ByteOrder && !is_inline {
            for number in compared(line) {
                out.push_str(&format!("\tr{number} = le64 r{number}\n"));
            }
        }
        match zero_extension(line) {
            Some((to, from)) => out.push_str(&format!("\tw{to} = w{from}\n")),
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// A copy of a lower half to a whole register, which LLVM writes in a form that it does not read.
fn zero_extension(line: &str) -> Option<(&str, &str)> {
    let (to, from) = line.trim().split_once(" = ")?;
    (to.starts_with('r') && from.starts_with('w')).then_some(())?;
    register(to).zip(register(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_forgotten() {
        assert_eq!(
            launder("\tif w1 s> w2 goto LBB0_1\n", Launder::ByteOrder),
            "\tr1 = le64 r1\n\tr2 = le64 r2\n\tif w1 s> w2 goto LBB0_1\n"
        );
        assert_eq!(launder("\tif r3 == 5 goto L\n", Launder::ByteOrder), "\tr3 = le64 r3\n\tif r3 == 5 goto L\n");
    }

    #[test]
    fn pointers_of_the_runtime_stay() {
        let text = "\t#APP\n\tif r1 > r2 goto L\n\t#NO_APP\n\tr1 = r2\n";
        assert_eq!(launder(text, Launder::ByteOrder), text);
    }

    #[test]
    fn debug_sections_go() {
        assert_eq!(launder("\t.section\t.debug_info,\"\"\n\t.long 1\n\t.section\t.BTF\n\t.long 2\n", Launder::None), "\t.section\t.BTF\n\t.long 2\n");
    }
}
