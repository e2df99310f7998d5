//! Loads, stores, atomic operations and block operations on the arena.

use super::{Emitter, distance};
use crate::error::{TranslateError, unsupported};
use crate::module::Ty;
use wasmparser::{MemArg, Operator as O};

/// Copies up to this length are written out.
const SHORT_COPY: u32 = 64;

/// A plain access: type, bits in memory, signed.
fn load(operator: &O) -> Option<(Ty, u32, bool, MemArg)> {
    use Ty::*;
    Some(match operator {
        O::I32Load { memarg } | O::I32AtomicLoad { memarg } => (I32, 32, false, *memarg),
        O::I64Load { memarg } | O::I64AtomicLoad { memarg } => (I64, 64, false, *memarg),
        O::I32Load8U { memarg } | O::I32AtomicLoad8U { memarg } => (I32, 8, false, *memarg),
        O::I32Load8S { memarg } => (I32, 8, true, *memarg),
        O::I32Load16U { memarg } | O::I32AtomicLoad16U { memarg } => (I32, 16, false, *memarg),
        O::I32Load16S { memarg } => (I32, 16, true, *memarg),
        O::I64Load8U { memarg } | O::I64AtomicLoad8U { memarg } => (I64, 8, false, *memarg),
        O::I64Load8S { memarg } => (I64, 8, true, *memarg),
        O::I64Load16U { memarg } | O::I64AtomicLoad16U { memarg } => (I64, 16, false, *memarg),
        O::I64Load16S { memarg } => (I64, 16, true, *memarg),
        O::I64Load32U { memarg } | O::I64AtomicLoad32U { memarg } => (I64, 32, false, *memarg),
        O::I64Load32S { memarg } => (I64, 32, true, *memarg),
        _ => return None,
    })
}

fn store(operator: &O) -> Option<(Ty, u32, MemArg)> {
    use Ty::*;
    Some(match operator {
        O::I32Store { memarg } | O::I32AtomicStore { memarg } => (I32, 32, *memarg),
        O::I64Store { memarg } | O::I64AtomicStore { memarg } => (I64, 64, *memarg),
        O::I32Store8 { memarg } | O::I32AtomicStore8 { memarg } => (I32, 8, *memarg),
        O::I32Store16 { memarg } | O::I32AtomicStore16 { memarg } => (I32, 16, *memarg),
        O::I64Store8 { memarg } | O::I64AtomicStore8 { memarg } => (I64, 8, *memarg),
        O::I64Store16 { memarg } | O::I64AtomicStore16 { memarg } => (I64, 16, *memarg),
        O::I64Store32 { memarg } | O::I64AtomicStore32 { memarg } => (I64, 32, *memarg),
        _ => return None,
    })
}

/// Atomic read-modify-writes: type, LLVM's operation, bits in memory.
fn modify(operator: &O) -> Option<(Ty, &'static str, u32, MemArg)> {
    use Ty::*;
    Some(match operator {
        O::I32AtomicRmwAdd { memarg } => (I32, "add", 32, *memarg),
        O::I64AtomicRmwAdd { memarg } => (I64, "add", 64, *memarg),
        O::I32AtomicRmwSub { memarg } => (I32, "sub", 32, *memarg),
        O::I64AtomicRmwSub { memarg } => (I64, "sub", 64, *memarg),
        O::I32AtomicRmwAnd { memarg } => (I32, "and", 32, *memarg),
        O::I64AtomicRmwAnd { memarg } => (I64, "and", 64, *memarg),
        O::I32AtomicRmwOr { memarg } => (I32, "or", 32, *memarg),
        O::I64AtomicRmwOr { memarg } => (I64, "or", 64, *memarg),
        O::I32AtomicRmwXor { memarg } => (I32, "xor", 32, *memarg),
        O::I64AtomicRmwXor { memarg } => (I64, "xor", 64, *memarg),
        O::I32AtomicRmwXchg { memarg } => (I32, "xchg", 32, *memarg),
        O::I64AtomicRmwXchg { memarg } => (I64, "xchg", 64, *memarg),
        O::I32AtomicRmw8AddU { memarg } => (I32, "add", 8, *memarg),
        O::I32AtomicRmw16AddU { memarg } => (I32, "add", 16, *memarg),
        O::I32AtomicRmw8SubU { memarg } => (I32, "sub", 8, *memarg),
        O::I32AtomicRmw16SubU { memarg } => (I32, "sub", 16, *memarg),
        O::I32AtomicRmw8AndU { memarg } => (I32, "and", 8, *memarg),
        O::I32AtomicRmw16AndU { memarg } => (I32, "and", 16, *memarg),
        O::I32AtomicRmw8OrU { memarg } => (I32, "or", 8, *memarg),
        O::I32AtomicRmw16OrU { memarg } => (I32, "or", 16, *memarg),
        O::I32AtomicRmw8XorU { memarg } => (I32, "xor", 8, *memarg),
        O::I32AtomicRmw16XorU { memarg } => (I32, "xor", 16, *memarg),
        O::I32AtomicRmw8XchgU { memarg } => (I32, "xchg", 8, *memarg),
        O::I32AtomicRmw16XchgU { memarg } => (I32, "xchg", 16, *memarg),
        _ => return None,
    })
}

fn exchange(operator: &O) -> Option<(Ty, u32, MemArg)> {
    use Ty::*;
    Some(match operator {
        O::I32AtomicRmwCmpxchg { memarg } => (I32, 32, *memarg),
        O::I64AtomicRmwCmpxchg { memarg } => (I64, 64, *memarg),
        O::I32AtomicRmw8CmpxchgU { memarg } => (I32, 8, *memarg),
        O::I32AtomicRmw16CmpxchgU { memarg } => (I32, 16, *memarg),
        _ => return None,
    })
}

impl Emitter<'_> {
    /// A pointer into the arena from an address in 64 bits. The cast is assembly, so that the optimizer
    /// neither compares such pointers nor computes loops with them.
    pub(crate) fn arena_pointer(&mut self, wide: &str) -> String {
        self.text.value(format!("call ptr asm \"$0 = addr_space_cast($0, 0x0, 0x1)\", \"=r,0\"(i64 {wide}) #2"))
    }

    fn pop_pointer(&mut self, argument: MemArg) -> String {
        let address = self.pop();
        let wide = self.text.value(format!("zext i32 {address} to i64"));
        let pointer = self.arena_pointer(&wide);
        match argument.offset {
            0 => pointer,
            offset => self.text.value(format!("getelementptr i8, ptr {pointer}, i64 {offset}")),
        }
    }

    /// As [`Emitter::pop_pointer`], also to this function's own part of the stack.
    fn pop_pointer_to(&mut self, argument: MemArg, bits: u32) -> String {
        let address = self.operands.last().map_or(String::new(), |(_, value)| value.clone());
        match self.own_pointer(&address, argument.offset, bits / 8) {
            Some(pointer) => {
                self.operands.pop();
                pointer
            }
            None => self.pop_pointer(argument),
        }
    }

    /// Writes an operator of this kind; false when it is none.
    pub(crate) fn memory(&mut self, operator: &O) -> Result<bool, TranslateError> {
        if let Some((ty, bits, signed, argument)) = load(operator) {
            let pointer = self.pop_pointer_to(argument, bits);
            let value = self.text.value(format!("load i{bits}, ptr {pointer}, align 1"));
            let value = match bits == ty.bits() {
                true => value,
                false => {
                    let how = if signed { "sext" } else { "zext" };
                    self.text.value(format!("{how} i{bits} {value} to {}", ty.name()))
                }
            };
            self.push(ty, value);
        } else if let Some((ty, bits, argument)) = store(operator) {
            let value = self.pop();
            let pointer = self.pop_pointer_to(argument, bits);
            let value = self.low_bits(ty, bits, value);
            self.text.line(format!("store i{bits} {value}, ptr {pointer}, align 1"));
        } else if let Some((ty, what, bits, argument)) = modify(operator) {
            let value = self.pop();
            match bits < 32 {
                true => self.narrow_atomic(what, bits, argument, None, &value),
                false => {
                    let pointer = self.pop_pointer(argument);
                    let old = self.text.value(format!("atomicrmw {what} ptr {pointer}, {} {value} seq_cst", ty.name()));
                    self.push(ty, old);
                }
            }
        } else if let Some((ty, bits, argument)) = exchange(operator) {
            let (new, expected) = (self.pop(), self.pop());
            match bits < 32 {
                true => self.narrow_atomic("cmpxchg", bits, argument, Some(&expected), &new),
                false => self.compare_exchange(ty, argument, &expected, &new),
            }
        } else {
            return self.block_operator(operator);
        }
        Ok(true)
    }

    fn low_bits(&mut self, ty: Ty, bits: u32, value: String) -> String {
        match bits == ty.bits() {
            true => value,
            false => self.text.value(format!("trunc {} {value} to i{bits}", ty.name())),
        }
    }

    fn compare_exchange(&mut self, ty: Ty, argument: MemArg, expected: &str, new: &str) {
        let (pointer, t) = (self.pop_pointer(argument), ty.name());
        let pair = self.text.value(format!("cmpxchg ptr {pointer}, {t} {expected}, {t} {new} seq_cst seq_cst"));
        let old = self.text.value(format!("extractvalue {{ {t}, i1 }} {pair}, 0"));
        self.push(ty, old);
    }

    /// BPF has atomics of 32 and 64 bits only: one of fewer bits is a loop in the runtime.
    fn narrow_atomic(&mut self, what: &str, bits: u32, argument: MemArg, expected: Option<&str>, value: &str) {
        let address = self.pop();
        let address = self.text.value(format!("add i32 {address}, {}", argument.offset));
        let address = self.widen(Ty::I32, &address);
        let value = self.widen(Ty::I32, value);
        let expected = match expected {
            Some(expected) => self.widen(Ty::I32, expected),
            None => "0".to_string(),
        };
        let dbg = self.place;
        let wide = self.text.value(format!(
            "call i64 @kara_atomic_{what}{bits}(i64 {address}, i64 {value}, i64 {expected}), !dbg !{dbg}"
        ));
        let old = self.narrow(Ty::I32, &wide);
        self.push(Ty::I32, old);
    }

    fn block_operator(&mut self, operator: &O) -> Result<bool, TranslateError> {
        match operator {
            O::AtomicFence => self.text.line("call void asm sideeffect \"\", \"~{memory}\"()"),
            O::MemorySize { .. } => self.push(Ty::I32, (self.module.memory_end >> 16).to_string()),
            O::MemoryGrow { .. } => {
                self.pop();
                self.push(Ty::I32, "-1".to_string());
            }
            O::MemoryCopy { .. } => {
                let length = self.pop();
                let (from, to) = (self.pop_place(), self.pop_place());
                match length.parse::<u32>() {
                    Ok(length) if length <= SHORT_COPY => self.short_copy(&to, &from, length),
                    _ => self.block_call("copy", &to, &from, &length),
                }
            }
            O::MemoryFill { .. } => {
                let (length, byte, to) = (self.pop(), self.pop(), self.pop_place());
                match (length.parse::<u32>(), byte.parse::<u8>()) {
                    (Ok(length), Ok(byte)) if length <= SHORT_COPY => self.short_fill(&to, byte, length),
                    _ => self.block_call("fill", &to, &byte, &length),
                }
            }
            O::MemoryInit { .. } | O::DataDrop { .. } => return unsupported("memory that is filled at run time"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A call of the language's `memcmp`.
    pub(super) fn compare(&mut self) {
        let (length, other, one) = (self.pop(), self.pop(), self.pop());
        let [one, other, length] = [one, other, length].map(|v| self.widen(Ty::I32, &v));
        let dbg = self.place;
        let call = format!("call i64 @kara_compare(i64 {one}, i64 {other}, i64 {length}), !dbg !{dbg}");
        let wide = self.text.value(call);
        let value = self.narrow(Ty::I32, &wide);
        self.push(Ty::I32, value);
    }

    /// An operand that may be an address in this function's own part of the stack.
    pub(crate) fn pop_place(&mut self) -> String {
        match self.operands.last().filter(|(_, value)| distance(value).is_some()) {
            Some(_) => self.operands.pop().expect("looked at").1,
            None => self.pop(),
        }
    }

    /// A pointer to so many bytes at what [`Emitter::pop_place`] returned, in 64 bits when it is none of those
    /// addresses.
    pub(crate) fn wide_pointer_to(&mut self, place: &str, bytes: u32) -> String {
        match self.own_pointer(place, 0, bytes) {
            Some(pointer) => pointer,
            None => self.arena_pointer(place),
        }
    }

    /// The same in 32 bits.
    fn pointer_to(&mut self, place: &str, bytes: u32) -> String {
        match self.own_pointer(place, 0, bytes) {
            Some(pointer) => pointer,
            None => {
                let wide = self.widen(Ty::I32, place);
                self.arena_pointer(&wide)
            }
        }
    }

    fn block_call(&mut self, what: &str, to: &str, from: &str, length: &str) {
        if [to, from].into_iter().any(|place| distance(place).is_some()) {
            return self.fail_own();
        }
        let to = self.widen(Ty::I32, to);
        let from = self.widen(Ty::I32, from);
        let length = self.widen(Ty::I32, length);
        let dbg = self.place;
        self.text.line(format!("call i64 @kara_{what}(i64 {to}, i64 {from}, i64 {length}), !dbg !{dbg}"));
    }

    /// Everything is read before anything is written, as the two may overlap.
    fn short_copy(&mut self, to: &str, from: &str, length: u32) {
        let (to, from) = (self.pointer_to(to, length), self.pointer_to(from, length));
        self.copy_pieces(&to, &from, length);
    }

    /// So many bytes from one pointer to another.
    pub(crate) fn copy_pieces(&mut self, to: &str, from: &str, length: u32) {
        let mut values = Vec::new();
        for (at, bytes) in pieces(length) {
            let place = self.text.value(format!("getelementptr i8, ptr {from}, i64 {at}"));
            values.push(self.text.value(format!("load i{}, ptr {place}, align 1", 8 * bytes)));
        }
        for ((at, bytes), value) in pieces(length).into_iter().zip(values) {
            let place = self.text.value(format!("getelementptr i8, ptr {to}, i64 {at}"));
            self.text.line(format!("store i{} {value}, ptr {place}, align 1", 8 * bytes));
        }
    }

    fn short_fill(&mut self, to: &str, byte: u8, length: u32) {
        let to = self.pointer_to(to, length);
        for (at, bytes) in pieces(length) {
            let value = (0..bytes).fold(0u64, |all, _| all << 8 | byte as u64);
            let place = self.text.value(format!("getelementptr i8, ptr {to}, i64 {at}"));
            self.text.line(format!("store i{} {}, ptr {place}, align 1", 8 * bytes, value as i64));
        }
    }
}

/// A length as powers of two: offset and bytes.
pub(super) fn pieces(length: u32) -> Vec<(u32, u32)> {
    let (mut at, mut pieces) = (0, Vec::new());
    for bytes in [8, 4, 2, 1] {
        while length - at >= bytes {
            pieces.push((at, bytes));
            at += bytes;
        }
    }
    pieces
}
