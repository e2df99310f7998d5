//! From macros and raw rows to slots.

use super::constants;
use super::expression::Cursor;
use super::tokens::{self, Kind};
use crate::encode::Slot;
use crate::text::flat::Row;
use crate::text::{MAX_SLOTS, TextError};

type Result<T> = std::result::Result<T, TextError>;

/// One slot, or the two of a 64-bit constant.
type Pair = (Slot, Option<Slot>);

/// Reads all rows of a text.
pub(super) fn parse(source: &str) -> Result<Vec<Row>> {
    let tokens = tokens::tokens(source)?;
    let mut c = Cursor::new(&tokens);
    let wrapped = header(&mut c)?;
    let mut rows = Vec::new();
    while c.peek().is_some() && c.peek() != Some(Kind::Symbol("}")) {
        let line = c.line();
        let (first, second) = row(&mut c)?;
        rows.extend([Some(first), second].into_iter().flatten().map(|slot| Row { slot, line }));
        if rows.len() > MAX_SLOTS {
            return Err(TextError::at(line, "", format!("more than {MAX_SLOTS} slots")));
        }
        if !c.take(",") {
            break;
        }
    }
    if wrapped {
        c.expect("}")?;
        c.take(";");
    }
    match c.peek() {
        None => Ok(rows),
        Some(_) => Err(c.error("expected `,` and the next macro")),
    }
}

/// `struct bpf_insn prog[] = {` with its storage words, when it is there.
fn header(c: &mut Cursor) -> Result<bool> {
    while c.take_name("static") || c.take_name("const") {}
    if !c.take_name("struct") {
        return Ok(false);
    }
    if !c.take_name("bpf_insn") {
        return Err(c.error("expected `bpf_insn`"));
    }
    c.skip_past("=")?;
    c.expect("{")?;
    Ok(true)
}

/// One macro, or one raw row.
fn row(c: &mut Cursor) -> Result<Pair> {
    if c.take("(") {
        // `(struct bpf_insn) { .. }`
        if !c.take_name("struct") || !c.take_name("bpf_insn") {
            return Err(c.error("expected `struct bpf_insn`"));
        }
        c.expect(")")?;
    }
    if c.take("{") {
        return Ok((raw_row(c)?, None));
    }
    let start = c.error("unknown macro");
    let Some(name) = c.name() else { return Err(c.error("expected a macro or `{code, dst, src, off, imm}`")) };
    c.expect("(")?;
    let mut args = Args::default();
    while !c.take(")") {
        if !args.values.is_empty() {
            c.expect(",")?;
        }
        // Which argument is a register tells two orders of BPF_LD_IND apart.
        args.registers.push(matches!(c.peek(), Some(Kind::Name(n)) if constants::register(n).is_some()));
        args.values.push(c.expression()?);
    }
    let number = args.values.len();
    let found = expand(name, &args).ok_or(start.clone())?;
    found.map_err(|e| match e {
        Wrong::Count(wanted) => {
            TextError { reason: format!("takes {wanted} arguments, not {number}"), ..start.clone() }
        }
        Wrong::Value(n, why) => TextError { reason: format!("argument {}: {why}", n + 1), ..start.clone() },
    })
}

/// `code, dst, src, off, imm}`, possibly with names.
fn raw_row(c: &mut Cursor) -> Result<Slot> {
    const FIELDS: [&str; 5] = ["code", "dst_reg", "src_reg", "off", "imm"];
    let start = c.error("");
    let mut values = [0i128; 5];
    let mut next = 0;
    while !c.take("}") {
        if c.take(".") {
            let unknown = c.error("a row has the fields code, dst_reg, src_reg, off, imm");
            let place = c.name().and_then(|name| FIELDS.iter().position(|f| *f == name));
            next = place.ok_or(unknown)?;
            c.expect("=")?;
        }
        if next >= values.len() {
            return Err(c.error("a row has five fields: code, dst, src, off, imm"));
        }
        values[next] = c.expression()?;
        next += 1;
        if !c.take(",") {
            c.expect("}")?;
            break;
        }
    }
    let args = Args { values: values.to_vec(), registers: Vec::new() };
    args.raw([0, 1, 2, 3, 4]).map_err(|e| match e {
        Wrong::Value(n, why) => TextError { reason: format!("{}: {why}", FIELDS[n]), ..start },
        Wrong::Count(_) => TextError { reason: "a row has five fields".into(), ..start },
    })
}

/// Arguments of a macro.
#[derive(Default)]
struct Args {
    values: Vec<i128>,
    registers: Vec<bool>,
}

/// What is wrong with the arguments.
enum Wrong {
    /// Their number; that many are wanted.
    Count(usize),
    /// The value of one.
    Value(usize, &'static str),
}

type Field<T> = std::result::Result<T, Wrong>;

impl Args {
    fn value(&self, n: usize) -> Field<i128> {
        self.values.get(n).copied().ok_or(Wrong::Count(n + 1))
    }

    fn code(&self, n: usize) -> Field<u8> {
        self.value(n)?.try_into().map_err(|_| Wrong::Value(n, "an opcode is a number from 0 to 255"))
    }

    fn reg(&self, n: usize) -> Field<u8> {
        match self.value(n)? {
            v @ 0..=15 => Ok(v as u8),
            _ => Err(Wrong::Value(n, "a register is BPF_REG_0 to BPF_REG_10")),
        }
    }

    fn off(&self, n: usize) -> Field<i16> {
        self.value(n)?.try_into().map_err(|_| Wrong::Value(n, "an offset is a number from -32768 to 32767"))
    }

    fn imm(&self, n: usize) -> Field<i32> {
        let v = self.value(n)?;
        // As C converts: 0xffffffff becomes -1.
        i32::try_from(v)
            .or_else(|_| u32::try_from(v).map(|v| v as i32))
            .map_err(|_| Wrong::Value(n, "the constant does not fit 32 bits; BPF_LD_IMM64 loads 64"))
    }

    fn wide(&self, n: usize) -> Field<u64> {
        let v = self.value(n)?;
        u64::try_from(v)
            .or_else(|_| i64::try_from(v).map(|v| v as u64))
            .map_err(|_| Wrong::Value(n, "the constant does not fit 64 bits"))
    }

    /// The five fields of a slot, from the arguments of those numbers.
    fn raw(&self, [code, dst, src, off, imm]: [usize; 5]) -> Field<Slot> {
        Ok(Slot {
            code: self.code(code)?,
            dst: self.reg(dst)?,
            src: self.reg(src)?,
            off: self.off(off)?,
            imm: self.imm(imm)?,
        })
    }

    /// `class | operation | source` with the operation from argument `n`.
    fn operation(&self, class: u8, n: usize, by_register: bool) -> Field<u8> {
        Ok(class | self.code(n)? & 0xf0 | if by_register { X } else { 0 })
    }

    /// `class | size | mode` with the size from the first argument.
    fn memory(&self, class: u8, mode: u8) -> Field<u8> {
        Ok(class | self.code(0)? & 0x18 | mode)
    }
}

const LD: u8 = 0x00;
const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const ALU: u8 = 0x04;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
const ALU64: u8 = 0x07;
const X: u8 = 0x08;
const MOV: u8 = 0xb0;
const END: u8 = 0xd0;
const CALL: u8 = 0x80;
const WIDE: u8 = 0x18;

/// The slots of a macro, when there is one of that name.
fn expand(name: &str, a: &Args) -> Option<Field<Pair>> {
    if let Some((count, wide)) = wide_macro(name, a) {
        return Some(if a.values.len() == count { wide } else { Err(Wrong::Count(count)) });
    }
    let (count, slot) = narrow_macro(name, a)?;
    Some(if a.values.len() == count { slot.map(|s| (s, None)) } else { Err(Wrong::Count(count)) })
}

/// Macros of two slots, and their number of arguments.
fn wide_macro(name: &str, a: &Args) -> Option<(usize, Field<Pair>)> {
    let pair = |dst: Field<u8>, kind: Field<u8>, low: Field<i32>, high: Field<i32>| {
        let first = Slot { code: WIDE, dst: dst?, src: kind?, off: 0, imm: low? };
        Ok((first, Some(Slot { imm: high?, ..Slot::default() })))
    };
    let low = |n| a.wide(n).map(|v| v as i32);
    let high = |n| a.wide(n).map(|v| (v >> 32) as i32);
    Some(match name {
        "BPF_LD_IMM64" => (2, pair(a.reg(0), Ok(0), low(1), high(1))),
        "BPF_LD_IMM64_RAW" => (3, pair(a.reg(0), a.reg(1), low(2), high(2))),
        "BPF_LD_MAP_FD" => (2, pair(a.reg(0), Ok(1), a.imm(1), Ok(0))),
        "BPF_LD_MAP_VALUE" => (3, pair(a.reg(0), Ok(2), a.imm(1), a.imm(2))),
        "BPF_LD_IMM64_RAW_FULL" => {
            let wide = pair(a.reg(0), a.reg(1), a.imm(4), a.imm(5)).and_then(|(first, second)| {
                let second = second.map(|s| Ok(Slot { off: a.off(3)?, ..s })).transpose()?;
                Ok((Slot { off: a.off(2)?, ..first }, second))
            });
            (6, wide)
        }
        _ => return None,
    })
}

/// Macros of one slot, and their number of arguments.
fn narrow_macro(name: &str, a: &Args) -> Option<(usize, Field<Slot>)> {
    alu_macro(name, a).or_else(|| memory_macro(name, a)).or_else(|| jump_macro(name, a))
}

fn alu_macro(name: &str, a: &Args) -> Option<(usize, Field<Slot>)> {
    let with_reg = |code: Field<u8>, dst, src, off: Field<i16>| {
        Ok(Slot { code: code?, dst: a.reg(dst)?, src: a.reg(src)?, off: off?, imm: 0 })
    };
    let with_imm = |code: Field<u8>, dst, imm, off: Field<i16>| {
        Ok(Slot { code: code?, dst: a.reg(dst)?, src: 0, off: off?, imm: a.imm(imm)? })
    };
    Some(match name {
        "BPF_ALU64_REG" => (3, with_reg(a.operation(ALU64, 0, true), 1, 2, Ok(0))),
        "BPF_ALU32_REG" => (3, with_reg(a.operation(ALU, 0, true), 1, 2, Ok(0))),
        "BPF_ALU64_IMM" => (3, with_imm(a.operation(ALU64, 0, false), 1, 2, Ok(0))),
        "BPF_ALU32_IMM" => (3, with_imm(a.operation(ALU, 0, false), 1, 2, Ok(0))),
        "BPF_ALU64_REG_OFF" => (4, with_reg(a.operation(ALU64, 0, true), 1, 2, a.off(3))),
        "BPF_ALU32_REG_OFF" => (4, with_reg(a.operation(ALU, 0, true), 1, 2, a.off(3))),
        "BPF_ALU64_IMM_OFF" => (4, with_imm(a.operation(ALU64, 0, false), 1, 2, a.off(3))),
        "BPF_ALU32_IMM_OFF" => (4, with_imm(a.operation(ALU, 0, false), 1, 2, a.off(3))),
        "BPF_MOV64_REG" => (2, with_reg(Ok(ALU64 | MOV | X), 0, 1, Ok(0))),
        "BPF_MOV32_REG" => (2, with_reg(Ok(ALU | MOV | X), 0, 1, Ok(0))),
        "BPF_MOV64_IMM" => (2, with_imm(Ok(ALU64 | MOV), 0, 1, Ok(0))),
        "BPF_MOV32_IMM" => (2, with_imm(Ok(ALU | MOV), 0, 1, Ok(0))),
        "BPF_MOVSX64_REG" => (3, with_reg(Ok(ALU64 | MOV | X), 0, 1, a.off(2))),
        "BPF_MOVSX32_REG" => (3, with_reg(Ok(ALU | MOV | X), 0, 1, a.off(2))),
        // The kernel marks its own zero extensions in the constant; programs may not.
        "BPF_ZEXT_REG" => (1, with_reg(Ok(ALU | MOV | X), 0, 0, Ok(0))),
        "BPF_MOV64_RAW" | "BPF_MOV32_RAW" => {
            let class = if name == "BPF_MOV64_RAW" { ALU64 } else { ALU };
            let slot = a.code(0).and_then(|source| {
                let code = class | MOV | source & X;
                Ok(Slot { code, dst: a.reg(1)?, src: a.reg(2)?, off: 0, imm: a.imm(3)? })
            });
            (4, slot)
        }
        "BPF_ENDIAN" => (3, with_imm(a.code(0).map(|order| ALU | END | order & X), 1, 2, Ok(0))),
        "BPF_BSWAP" => (2, with_imm(Ok(ALU64 | END), 0, 1, Ok(0))),
        "BPF_NEG64" | "BPF_NEG32" => {
            let class = if name == "BPF_NEG64" { ALU64 } else { ALU };
            (1, a.reg(0).map(|dst| Slot { code: class | 0x80, dst, ..Slot::default() }))
        }
        _ => return None,
    })
}

fn memory_macro(name: &str, a: &Args) -> Option<(usize, Field<Slot>)> {
    let slot = |code: Field<u8>, dst: Field<u8>, src: Field<u8>, off: Field<i16>, imm: Field<i32>| {
        Ok(Slot { code: code?, dst: dst?, src: src?, off: off?, imm: imm? })
    };
    Some(match name {
        "BPF_LD_ABS" => (2, slot(a.memory(LD, 0x20), Ok(0), Ok(0), Ok(0), a.imm(1))),
        "BPF_LD_IND" => {
            // The kernel's order is (size, register, constant); K2 prints (size, constant, register).
            let swapped = a.registers.get(2) == Some(&true) && a.registers.get(1) == Some(&false);
            let (src, imm) = if swapped { (2, 1) } else { (1, 2) };
            (3, slot(a.memory(LD, 0x40), Ok(0), a.reg(src), Ok(0), a.imm(imm)))
        }
        "BPF_LDX_MEM" => (4, slot(a.memory(LDX, 0x60), a.reg(1), a.reg(2), a.off(3), Ok(0))),
        "BPF_LDX_MEMSX" => (4, slot(a.memory(LDX, 0x80), a.reg(1), a.reg(2), a.off(3), Ok(0))),
        "BPF_STX_MEM" => (4, slot(a.memory(STX, 0x60), a.reg(1), a.reg(2), a.off(3), Ok(0))),
        "BPF_STX_XADD" => (4, slot(a.memory(STX, 0xc0), a.reg(1), a.reg(2), a.off(3), Ok(0))),
        "BPF_ATOMIC_OP" => (5, slot(a.memory(STX, 0xc0), a.reg(2), a.reg(3), a.off(4), a.imm(1))),
        "BPF_ST_MEM" => (4, slot(a.memory(ST, 0x60), a.reg(1), Ok(0), a.off(2), a.imm(3))),
        _ => return None,
    })
}

fn jump_macro(name: &str, a: &Args) -> Option<(usize, Field<Slot>)> {
    let by_reg =
        |class| Ok(Slot { code: a.operation(class, 0, true)?, dst: a.reg(1)?, src: a.reg(2)?, off: a.off(3)?, imm: 0 });
    let by_imm = |class| {
        Ok(Slot { code: a.operation(class, 0, false)?, dst: a.reg(1)?, src: 0, off: a.off(3)?, imm: a.imm(2)? })
    };
    let only_imm = |code, src| Ok(Slot { code, src, imm: a.imm(0)?, ..Slot::default() });
    Some(match name {
        "BPF_JMP_REG" => (4, by_reg(JMP)),
        "BPF_JMP32_REG" => (4, by_reg(JMP32)),
        "BPF_JMP_IMM" => (4, by_imm(JMP)),
        "BPF_JMP32_IMM" => (4, by_imm(JMP32)),
        "BPF_JMP_A" => (1, a.off(0).map(|off| Slot { code: JMP, off, ..Slot::default() })),
        "BPF_JMP32_A" => (1, only_imm(JMP32, 0)),
        "BPF_EMIT_CALL" | "BPF_CALL_FUNC" => (1, only_imm(JMP | CALL, 0)),
        "BPF_CALL_REL" => (1, only_imm(JMP | CALL, 1)),
        "BPF_CALL_KFUNC" => {
            let slot = a.off(0).and_then(|off| Ok(Slot { code: JMP | CALL, src: 2, off, imm: a.imm(1)?, dst: 0 }));
            (2, slot)
        }
        "BPF_EXIT_INSN" => (0, Ok(Slot { code: JMP | 0x90, ..Slot::default() })),
        "BPF_RAW_INSN" => (5, a.raw([0, 1, 2, 3, 4])),
        _ => return None,
    })
}
