//! A function's part of the stack, kept where the optimizer sees into it.
//!
//! What is on the stack of WebAssembly is in the arena, where every access is one of memory and nothing is known
//! of it. Mostly a function only loads and stores there, at places that can be told from its text, or has the
//! runtime do so: then its part is a variable of LLVM, which makes values of it. Whether that is so is found by
//! trying: addresses on the stack are operands of a form of their own, and where one gets that is used in
//! another way the attempt has failed, and the function is written once more without.

use super::Emitter;
use crate::module::Function;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use wasmparser::Operator as O;

/// What operands begin with that are addresses, followed by the distance from the stack pointer on entry.
const MARK: &str = "stack";
/// Most bytes of such a part: what becomes of more than that does not fit into registers.
const MOST_BYTES: i32 = 512;
/// What the names of variables begin with that are such parts, followed by the function's number.
const VARIABLE: &str = "%own.";
/// The stack pointer is a multiple of this.
const ALIGNMENT: i32 = 16;

/// The part of the function that is being written.
pub(crate) struct Own {
    /// Locals with addresses: the distance, and the block in which it was set.
    locals: BTreeMap<u32, (i32, usize)>,
    /// Locals that are set once.
    set_once: BTreeSet<u32>,
    /// Locals that were read as ordinary ones.
    read: BTreeSet<u32>,
    /// Whether the stack pointer was read.
    is_taken: bool,
    /// What is accessed: from and to.
    accessed: Vec<(i32, i32)>,
    /// What is copied here from packets: the place in the text, from and to.
    filled: Vec<(String, i32, i32)>,
    /// Whether an address got away.
    has_failed: bool,
}

impl Own {
    pub fn new(function: &Function) -> Own {
        let mut sets: BTreeMap<u32, usize> = BTreeMap::new();
        for (_, operator) in &function.code {
            if let O::LocalSet { local_index } | O::LocalTee { local_index } = operator {
                *sets.entry(*local_index).or_default() += 1;
            }
        }
        let params = function.signature.params.len() as u32;
        let set_once = sets.into_iter().filter(|(local, count)| *count == 1 && *local >= params);
        Own {
            locals: BTreeMap::new(),
            set_once: set_once.map(|(local, _)| local).collect(),
            read: BTreeSet::new(),
            is_taken: false,
            accessed: Vec::new(),
            filled: Vec::new(),
            has_failed: false,
        }
    }
}

/// The distance that an operand stands for, if it is an address.
pub(crate) fn distance(operand: &str) -> Option<i32> {
    operand.strip_prefix(MARK)?.parse().ok()
}

fn operand(distance: i32) -> String {
    format!("{MARK}{distance}")
}

impl Emitter<'_> {
    /// Whether an address got where it must not.
    pub fn has_failed(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.has_failed)
    }

    /// Takes note that an address is used in a way that nobody can follow.
    pub(crate) fn fail_own(&mut self) {
        if let Some(own) = &mut self.own {
            own.has_failed = true;
        }
    }

    /// What an operator does to addresses; false when it is none of these.
    pub(super) fn own_operator(&mut self, operator: &O) -> bool {
        if self.own.is_none() {
            return false;
        }
        match operator {
            O::GlobalGet { global_index: 0 } => {
                let own = self.own.as_mut().expect("checked above");
                // Behind a branch it would not be known where it points by then.
                own.has_failed |= std::mem::replace(&mut own.is_taken, true);
                self.push(crate::module::Ty::I32, operand(0));
                true
            }
            O::GlobalSet { global_index: 0 } => {
                let (_, value) = self.operands.pop().expect("validated");
                if distance(&value).is_none() {
                    self.fail_own();
                }
                true
            }
            O::I32Add | O::I32Sub | O::I32Or => self.own_arithmetic(operator),
            O::Drop if self.operands.last().is_some_and(|(_, v)| distance(v).is_some()) => {
                self.operands.pop();
                true
            }
            O::LocalGet { local_index } => self.get_own(*local_index),
            O::LocalSet { local_index } | O::LocalTee { local_index } => {
                self.set_own(*local_index, matches!(operator, O::LocalTee { .. }))
            }
            _ => false,
        }
    }

    fn own_arithmetic(&mut self, operator: &O) -> bool {
        let [.., (_, a), (_, b)] = &self.operands[..] else { return false };
        let (place, number) = match (distance(a), distance(b)) {
            (Some(place), None) => (place, b),
            (None, Some(place)) if !matches!(operator, O::I32Sub) => (place, a),
            _ => return false,
        };
        let Ok(number) = number.parse::<i32>() else { return false };
        let sum = match operator {
            O::I32Add => place.checked_add(number),
            O::I32Sub => place.checked_sub(number),
            // The compiler's way to add to what it knows to be aligned.
            _ => (place & number == 0 && (0..ALIGNMENT).contains(&number)).then(|| place + number),
        };
        let Some(sum) = sum else { return false };
        self.operands.truncate(self.operands.len() - 2);
        self.push(crate::module::Ty::I32, operand(sum));
        true
    }

    fn get_own(&mut self, local: u32) -> bool {
        let own = self.own.as_mut().expect("checked above");
        let Some((place, block)) = own.locals.get(&local).copied() else {
            own.read.insert(local);
            return false;
        };
        // Where the block is over in which it was set, it may not have been.
        if self.controls.iter().all(|c| c.id != block) {
            self.fail_own();
        }
        self.push(crate::module::Ty::I32, operand(place));
        true
    }

    fn set_own(&mut self, local: u32, keeps: bool) -> bool {
        let Some(place) = self.operands.last().and_then(|(_, v)| distance(v)) else { return false };
        let block = self.controls.last().map_or(0, |c| c.id);
        let own = self.own.as_mut().expect("checked above");
        if !own.set_once.contains(&local) || own.read.contains(&local) {
            own.has_failed = true;
        }
        own.locals.insert(local, (place, block));
        if !keeps {
            self.operands.pop();
        }
        true
    }

    /// A pointer to so many bytes at an address that is an operand; `None` when it is none, or they are not all in
    /// this function's part.
    pub(crate) fn own_pointer(&mut self, value: &str, offset: u64, bytes: u32) -> Option<String> {
        let from = i64::from(distance(value)?) + offset as i64;
        let to = from + i64::from(bytes);
        let own = self.own.as_mut()?;
        if from < i64::from(-MOST_BYTES) || to > 0 {
            own.has_failed = true;
            return Some("null".to_string());
        }
        own.accessed.push((from as i32, to as i32));
        Some(self.text.value(format!("getelementptr i8, ptr %stack.top, i64 {from}")))
    }

    /// Marks where so many bytes are copied here from the packet that `pointer` points into. What of them is
    /// accessed is known at the end of the function.
    pub(crate) fn fill_own(&mut self, value: &str, bytes: u32, pointer: &str) {
        let Some(from) = distance(value) else { return };
        let Some(own) = &mut self.own else { return };
        let to = from.saturating_add_unsigned(bytes);
        if from < -MOST_BYTES || to > 0 {
            own.has_failed = true;
            return;
        }
        let mark = format!("<<filled {} {pointer}>>", own.filled.len());
        own.filled.push((pointer.to_string(), from, to));
        self.text.line(mark);
    }

    /// The function's text with its part of the stack.
    pub(super) fn finish_own(&mut self, text: String) -> String {
        let stack = format!("{VARIABLE}{}", self.number);
        let Some(own) = self.own.take() else { return text };
        let lowest = own.accessed.iter().map(|(from, _)| *from).min();
        let Some(lowest) = lowest else {
            return own
                .filled
                .iter()
                .enumerate()
                .fold(text, |text, (n, (pointer, ..))| text.replacen(&format!("  <<filled {n} {pointer}>>\n"), "", 1));
        };
        let bytes = lowest.unsigned_abs().next_multiple_of(8);
        let mut start = format!(
            "entry:\n  {stack} = alloca [{bytes} x i8], align 8\n  %stack.top = getelementptr i8, ptr {stack}, i64 {bytes}\n"
        );
        // Bytes that nobody has written are some bytes, but not undefined.
        for at in (0..bytes).step_by(8) {
            let _ = write!(
                start,
                "  %stack.zero{at} = getelementptr i8, ptr {stack}, i64 {at}\n  store i64 0, ptr %stack.zero{at}, align 8\n"
            );
        }
        let mut text = text.replacen("entry:\n", &start, 1);
        for (n, (pointer, from, to)) in own.filled.iter().enumerate() {
            let copies = filling(n, pointer, *from, &parts(&own.accessed, *from, *to));
            text = text.replacen(&format!("  <<filled {n} {pointer}>>\n"), &copies, 1);
        }
        text
    }
}

/// Functions whose parts are still variables in LLVM's text form of an optimized module. The verifier would look
/// at their contents, byte by byte, and knows more of them than it should.
pub fn left(optimized: &str) -> Vec<u32> {
    let lines = optimized.lines().filter_map(|line| line.trim_start().strip_prefix(VARIABLE)?.split_once(" = alloca "));
    let mut left: Vec<u32> = lines.filter_map(|(name, _)| name.split('.').next()?.parse().ok()).collect();
    left.sort_unstable();
    left.dedup();
    left
}

/// Copies parts of what begins at `from` on the stack from a pointer.
fn filling(number: usize, pointer: &str, from: i32, parts: &[(i32, i32)]) -> String {
    let mut text = String::new();
    for (start, end) in parts {
        for (at, bytes) in super::memory::pieces((end - start) as u32) {
            let place = start + at as i32;
            let (name, bits) = (format!("%filled{number}.{}", place - from), 8 * bytes);
            let _ = write!(
                text,
                "  {name}.from = getelementptr i8, ptr {pointer}, i64 {}\n  {name} = load i{bits}, ptr {name}.from, align 1\n  \
                 {name}.to = getelementptr i8, ptr %stack.top, i64 {place}\n  store i{bits} {name}, ptr {name}.to, align 1\n",
                place - from
            );
        }
    }
    text
}

/// What of an area is accessed, cut such that each access is in one part.
fn parts(accessed: &[(i32, i32)], from: i32, to: i32) -> Vec<(i32, i32)> {
    let inside = accessed.iter().map(|(a, b)| ((*a).max(from), (*b).min(to))).filter(|(a, b)| a < b);
    let mut inside: Vec<(i32, i32)> = inside.collect();
    inside.sort_unstable();
    let mut parts: Vec<(i32, i32)> = Vec::new();
    for (a, b) in inside {
        match parts.last_mut() {
            Some((_, end)) if a < *end => *end = b.max(*end),
            _ => parts.push((a, b)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_cut_where_no_access_is_cut() {
        let accessed = [(-50, -44), (-38, -36), (-20, -16), (-18, -14), (-4, 0), (-38, -36)];
        assert_eq!(parts(&accessed, -50, 0), [(-50, -44), (-38, -36), (-20, -14), (-4, 0)]);
        assert_eq!(parts(&accessed, -37, -15), [(-37, -36), (-20, -15)]);
    }

    #[test]
    fn what_is_left_is_known_by_its_name() {
        let text = "define i64 @f3() {\n  %own.12.sroa.4.i = alloca i64, align 8\n  %own.3 = alloca [8 x i8]\n  %m1 = alloca i32";
        assert_eq!(left(text), [3, 12]);
    }

    #[test]
    fn addresses_are_operands_of_their_own_form() {
        assert_eq!(distance(&operand(-16)), Some(-16));
        assert_eq!(distance(&operand(0)), Some(0));
        assert_eq!([distance("-16"), distance("%v1")], [None, None]);
    }
}
