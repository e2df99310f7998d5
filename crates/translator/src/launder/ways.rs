//! Makes the verifier forget by which way it came.
//!
//! While it has not finished with a loop, the verifier merges states only when numbers are in the same
//! ranges and copies of the same numbers. What is put together where ways meet is therefore made unknown
//! on each of the ways, before they meet: then all numbers there depend on the place only. And once more
//! behind, as is what becomes branches later (a choice, a bit made a number): what was copied is then no
//! longer known to be the same.

use super::COMPARING;
use std::collections::{BTreeMap, HashMap};

/// The lines of a function, changed if it has loops.
pub(super) fn forget(lines: Vec<String>) -> Vec<String> {
    match lines.iter().any(|l| l.contains("may_goto")) {
        true => forget_choices(forget_joins(lines)),
        false => lines,
    }
}

/// What `phi`s put together.
fn forget_joins(lines: Vec<String>) -> Vec<String> {
    let ends = ends_of_blocks(&lines);
    // What is computed before the end of a block, by the line of that.
    let mut added: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut count = 0;
    let mut changed: Vec<String> = Vec::with_capacity(lines.len());
    // What is computed after the `phi`s of the current block.
    let mut after: Vec<String> = Vec::new();
    let mut places: Vec<usize> = Vec::with_capacity(lines.len());
    for line in &lines {
        let phi = Phi::parse(line);
        if !is_phi(line) && !is_label(line) {
            changed.append(&mut after);
        }
        places.push(changed.len());
        let Some(mut phi) = phi else {
            changed.push(line.clone());
            continue;
        };
        let mut by_block: HashMap<String, String> = HashMap::new();
        for (value, block) in &mut phi.inputs {
            let forgotten = by_block.entry(block.clone()).or_insert_with(|| {
                count += 1;
                let name = format!("%came{count}");
                let end = ends.get(block.as_str()).or(ends.get("")).copied().expect("a block");
                added.entry(end).or_default().extend(forgetting(&name, &phi.ty, value));
                name
            });
            *value = forgotten.clone();
        }
        if phi.ty == "i1" {
            after.push(format!("  {} = icmp ne i32 {}, 0", phi.name, number_of(&phi.name)));
        }
        changed.push(phi.text());
    }
    let mut added: BTreeMap<usize, Vec<String>> = added.into_iter().map(|(at, lines)| (places[at], lines)).collect();
    let mut out = Vec::with_capacity(changed.len() * 5 / 4);
    for (at, line) in changed.into_iter().enumerate() {
        out.extend(added.remove(&at).unwrap_or_default());
        out.push(line);
    }
    out
}

/// A `phi` of numbers.
struct Phi {
    name: String,
    ty: String,
    /// Values and the blocks they come from.
    inputs: Vec<(String, String)>,
    tail: String,
}

impl Phi {
    fn parse(line: &str) -> Option<Phi> {
        let (name, rest) = line.trim_start().split_once(" = phi ")?;
        let (ty, rest) = rest.split_once(' ')?;
        if !["i1", "i8", "i16", "i32", "i64"].contains(&ty) {
            return None;
        }
        let (inputs, tail) = rest.split_at(rest.rfind(']')? + 1);
        let inputs = inputs.split(['[', ']']).filter_map(|pair| {
            let (value, block) = pair.trim().split_once(", ")?;
            block.starts_with('%').then(|| (value.to_string(), block[1..].to_string()))
        });
        Some(Phi { name: name.to_string(), ty: ty.to_string(), inputs: inputs.collect(), tail: tail.to_string() })
    }

    /// A bit is a number until it is used.
    fn text(&self) -> String {
        let inputs: Vec<String> = self.inputs.iter().map(|(value, block)| format!("[ {value}, %{block} ]")).collect();
        let (name, ty) = match self.ty.as_str() {
            "i1" => (number_of(&self.name), "i32"),
            ty => (self.name.clone(), ty),
        };
        format!("  {name} = phi {ty} {}{}", inputs.join(", "), self.tail)
    }
}

/// What makes a value unknown. Of a constant the unknown zero is taken away: the verifier would remember
/// by how much a sum with a constant is larger.
fn forgetting(name: &str, ty: &str, value: &str) -> Vec<String> {
    let wide = if ty == "i1" { "i32" } else { ty };
    match value {
        "undef" | "poison" => vec![format!("  {name} = add {wide} %unknown.{wide}, %unknown.{wide}")],
        "true" | "false" => vec![format!("  {name} = sub i32 {}, %unknown.i32", i32::from(value == "true"))],
        _ if ty == "i1" => vec![
            format!("  {name}.bit = zext i1 {value} to i32"),
            format!("  {name} = add i32 {name}.bit, %unknown.i32"),
        ],
        _ if value.starts_with('%') => vec![format!("  {name} = add {ty} {value}, %unknown.{ty}")],
        _ => vec![format!("  {name} = sub {ty} {value}, %unknown.{ty}")],
    }
}

/// Those of pointers, too.
pub(super) fn is_phi(line: &str) -> bool {
    line.contains(" = phi ")
}

pub(super) fn is_label(line: &str) -> bool {
    !line.starts_with(' ') && line.contains(':')
}

/// The lines where blocks end, by label; the first block may have none.
fn ends_of_blocks(lines: &[String]) -> HashMap<&str, usize> {
    const ENDS: [&str; 5] = ["br ", "switch ", "callbr ", "ret ", "unreachable"];
    let mut ends = HashMap::new();
    let mut label = "";
    for (at, line) in lines.iter().enumerate() {
        if is_label(line) {
            label = line.split(':').next().unwrap_or("").trim_matches('"');
        } else if ENDS.iter().any(|end| line.trim_start().starts_with(end)) || line.contains(" = callbr ") {
            ends.entry(label).or_insert(at);
        }
    }
    ends
}

/// What becomes branches behind this.
fn forget_choices(lines: Vec<String>) -> Vec<String> {
    let names: HashMap<String, String> = lines.iter().filter_map(|line| choice(line.trim_start())).collect();
    let mut out = Vec::with_capacity(lines.len() * 5 / 4);
    // What is computed after the `phi`s of the current block.
    let mut after: Vec<String> = Vec::new();
    for line in lines {
        if !is_phi(&line) && !is_label(&line) {
            out.append(&mut after);
        }
        let definition = line.split_once(" = ");
        let Some((name, rest)) = definition else {
            out.push(without_choices(&line, &names));
            continue;
        };
        out.push(format!("{name} = {}", without_choices(rest, &names)));
        let name = name.trim_start();
        if let Some(ty) = names.get(name) {
            after.push(format!("  {} = add {ty} {name}, %unknown.{ty}", forgotten(name)));
        }
    }
    out.append(&mut after);
    out
}

/// Name and type of a number that is one or another.
fn choice(text: &str) -> Option<(String, String)> {
    let (name, rest) = text.split_once(" = ")?;
    let is_number = |ty: &str| ["i8", "i16", "i32", "i64"].contains(&ty);
    let words = || rest.split(' ');
    let ty = match words().next()? {
        "phi" => words().nth(1)?,
        // select i1 %c, i32 %a, i32 %b
        "select" => words().nth(3)?,
        "zext" | "sext" if rest.contains(" i1 %") => words().next_back()?,
        _ if COMPARING.iter().any(|c| rest.contains(c)) => words().take_while(|w| !w.starts_with('@')).last()?,
        _ => return None,
    };
    is_number(ty).then(|| (name.to_string(), ty.to_string()))
}

/// The name of a bit as a number.
fn number_of(bit: &str) -> String {
    format!("%bit.{}", bit.trim_start_matches('%'))
}

/// The name of a forgotten value. A number cannot begin a name with letters.
fn forgotten(name: &str) -> String {
    format!("%any.{}", name.trim_start_matches('%'))
}

/// The line with the forgotten values in place of those named.
fn without_choices(line: &str, names: &HashMap<String, String>) -> String {
    match names.is_empty() {
        true => line.to_string(),
        false => renamed(line, |name| names.contains_key(name).then(|| forgotten(name))),
    }
}

/// The line with other names, percent signs included.
pub(super) fn renamed(line: &str, other: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    for (n, part) in line.split('%').enumerate() {
        if n == 0 {
            out.push_str(part);
            continue;
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '$' | '-');
        let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let name = format!("%{name}");
        out.push_str(&other(&name).unwrap_or(name));
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str) -> String {
        forget(text.lines().map(String::from).collect()).join("\n")
    }

    const LOOP: &str = "  callbr void asm sideeffect \"may_goto ${0:l}\", \"!i\"() to label %on [label %late]";

    #[test]
    fn what_ways_bring_together_is_forgotten_on_each() {
        let text = format!(
            "entry:\n  br label %loop\n\nloop: ; preds = %entry, %on\n  %i = phi i32 [ 7, %entry ], [ %n, %on ]\n{LOOP}\non:\n  %n = add i32 %i, 1\n  br label %loop"
        );
        let wanted = format!(
            "entry:\n  %came1 = sub i32 7, %unknown.i32\n  br label %loop\n\nloop: ; preds = %entry, %on\n  %i = phi i32 [ %came1, %entry ], [ %came2, %on ]\n  %any.i = add i32 %i, %unknown.i32\n{LOOP}\non:\n  %n = add i32 %any.i, 1\n  %came2 = add i32 %n, %unknown.i32\n  br label %loop"
        );
        assert_eq!(changed(&text), wanted);
    }

    #[test]
    fn bits_are_numbers_on_the_way() {
        let text = format!(
            "entry:\n{LOOP}\non:\n  br label %late\nlate:\n  %b = phi i1 [ true, %entry ], [ %c, %on ]\n  %p = phi ptr [ %x, %entry ], [ %y, %on ]\n  br i1 %b, label %l, label %m"
        );
        let text = changed(&text);
        assert!(text.contains("entry:\n  %came1 = sub i32 1, %unknown.i32\n  callbr"), "{text}");
        assert!(text.contains("on:\n  %came2.bit = zext i1 %c to i32\n"), "{text}");
        assert!(text.contains("  %came2 = add i32 %any.came2.bit, %unknown.i32\n"), "{text}");
        let behind = "  %bit.b = phi i32 [ %came1, %entry ], [ %came2, %on ]\n  %p = phi ptr [ %x, %entry ], [ %y, %on ]\n  %any.bit.b";
        assert!(text.contains(behind), "{text}");
        assert!(text.contains("  %b = icmp ne i32 %any.bit.b, 0\n  br i1 %b"), "{text}");
    }

    #[test]
    fn values_without_names_stay_numbered_or_get_names() {
        let text =
            format!("entry:\n{LOOP}\non:\n  %7 = phi i1 [ true, %entry ], [ %c, %on ]\n  br i1 %7, label %l, label %m");
        let text = changed(&text);
        assert!(text.contains("  %bit.7 = phi i32 ["), "{text}");
        assert!(text.contains("  %7 = icmp ne i32 %any.bit.7, 0"), "{text}");
    }

    #[test]
    fn one_block_by_several_ways_computes_once() {
        let text = format!(
            "entry:\n  switch i32 %a, label %x [\n    i32 1, label %x\n  ]\nx:\n  %b = phi i64 [ %c, %entry ], [ %c, %entry ]\n{LOOP}"
        );
        let text = changed(&text);
        assert!(text.contains("entry:\n  %came1 = add i64 %c, %unknown.i64\n  switch"), "{text}");
        assert!(text.contains("phi i64 [ %came1, %entry ], [ %came1, %entry ]"), "{text}");
    }

    #[test]
    fn choices_are_forgotten_behind() {
        let text = changed(&format!("{LOOP}\n  %a = select i1 %c, i32 1, i32 2\n  %b = add i32 %a, 1"));
        assert!(text.ends_with("  %any.a = add i32 %a, %unknown.i32\n  %b = add i32 %any.a, 1"), "{text}");
    }
}
