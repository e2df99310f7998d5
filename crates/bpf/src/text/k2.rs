//! The `.k2` language: one instruction a line, a mnemonic and decimal operands.
//!
//! | form | mnemonics | operands |
//! |---|---|---|
//! | arithmetic | `ADD SUB MUL DIV OR AND LSH RSH MOD XOR MOV ARSH`, then `64` or `32`, then `XC` or `XY` | dst constant, or dst src |
//! | negation | `NEG64XC NEG32XC` | dst |
//! | byte order | `LE BE` | dst bits |
//! | 64-bit constant | `LDMAPID`, `MOVDWXC` | dst fd, or dst constant |
//! | load | `LDXB LDXH LDXW LDXDW` | dst src offset |
//! | store | `STXB STXH STXW STXDW`, `STB STH STW STDW` | dst offset src, or dst offset constant |
//! | atomic | `XADD32 XADD64` | dst offset src |
//! | packet | `LDABSH`, `LDINDH` | offset, or src |
//! | jump | `JA` | distance |
//! | branch | `JEQ JGT JGE JSET JNE JSGT JSGE JLT JLE JSLT JSLE`, then `32` or nothing, then `XC` or `XY` | dst constant distance, or dst src distance |
//! | rest | `CALL`, `EXIT`, `NOP` | helper's number, none, none |
//!
//! Distances count slots from the next instruction; the two kinds of 64-bit constant have two slots.
//! `NOP` lines are dropped and jumps over them shortened. The original language has no comments and no
//! blank lines; here `;`, `#` and `//` begin a comment.

use super::flat::{self, Row};
use super::{TextError, asm};
use crate::encode;
use crate::hook::Hook;
use crate::insn::*;
use crate::map::MapDef;
use crate::program::Program;

const ALU: [(&str, AluOp); 11] = [
    ("ADD", AluOp::Add),
    ("SUB", AluOp::Sub),
    ("MUL", AluOp::Mul),
    ("DIV", AluOp::Div),
    ("OR", AluOp::Or),
    ("AND", AluOp::And),
    ("LSH", AluOp::Lsh),
    ("RSH", AluOp::Rsh),
    ("MOD", AluOp::Mod),
    ("XOR", AluOp::Xor),
    ("ARSH", AluOp::Arsh),
];

const BRANCHES: [(&str, Condition); 11] = [
    ("JEQ", Condition::Eq),
    ("JGT", Condition::Gt),
    ("JGE", Condition::Ge),
    ("JSET", Condition::Set),
    ("JNE", Condition::Ne),
    ("JSGT", Condition::SGt),
    ("JSGE", Condition::SGe),
    ("JLT", Condition::Lt),
    ("JLE", Condition::Le),
    ("JSLT", Condition::SLt),
    ("JSLE", Condition::SLe),
];

const SIZES: [(&str, Size); 4] = [("B", Size::B), ("H", Size::H), ("W", Size::W), ("DW", Size::D)];

/// Reads a program.
pub fn parse(source: &str, hook: Hook, maps: Vec<MapDef>) -> Result<Program, TextError> {
    let mut lines = Vec::new();
    for (index, text) in source.lines().enumerate() {
        let end = [";", "#", "//"].iter().filter_map(|c| text.find(c)).min().unwrap_or(text.len());
        let mut words = text[..end].split_whitespace();
        if let Some(mnemonic) = words.next() {
            let operands = words.collect();
            lines.push((
                index + 1,
                instruction(mnemonic, &mut Operands { mnemonic, operands, at: 0, line: index + 1 })?,
            ));
        }
    }
    flat::program(&without_nops(&lines)?, hook, maps)
}

/// Whether a line begins like one of this language.
pub(super) fn is_instruction(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let Some(mnemonic) = words.next() else { return false };
    let mut operands = Operands { mnemonic, operands: words.collect(), at: 0, line: 0 };
    instruction(mnemonic, &mut operands).is_ok()
}

/// Drops `NOP` (`None`) and lets jumps go to the next real instruction.
fn without_nops(lines: &[(usize, Option<RawInsn>)]) -> Result<Vec<Row>, TextError> {
    let slots = |insn: &Option<RawInsn>| insn.map_or(1, |i| i.slots());
    let total: usize = lines.iter().map(|(_, i)| slots(i)).sum();
    // New slot of every old one; `None` for the second half of a constant. The end is a place too.
    let mut moved: Vec<Option<i64>> = Vec::with_capacity(total + 1);
    let mut new = 0i64;
    for (_, insn) in lines {
        moved.push(Some(new));
        if let Some(insn) = insn {
            moved.extend(std::iter::repeat_n(None, insn.slots() - 1));
            new += insn.slots() as i64;
        }
    }
    moved.push(Some(new));
    let mut rows = Vec::new();
    let mut old = 0i64;
    for (line, insn) in lines {
        old += slots(insn) as i64;
        let Some(insn) = insn else { continue };
        let next = rows.len() as i64 + insn.slots() as i64;
        let target = |distance: i32| {
            let to = usize::try_from(old + distance as i64).ok().and_then(|to| moved.get(to).copied().flatten());
            let why = "the jump goes to no instruction";
            to.map(|to| (to - next) as i32).ok_or_else(|| TextError::at(*line, &distance.to_string(), why))
        };
        let insn = insn.try_map(target, Ok)?;
        let (first, second) = encode::encode(&insn).map_err(|e| TextError::at(*line, "", e.to_string()))?;
        rows.extend([Some(first), second].into_iter().flatten().map(|slot| Row { slot, line: *line }));
    }
    Ok(rows)
}

/// The operands of one line.
struct Operands<'a> {
    mnemonic: &'a str,
    operands: Vec<&'a str>,
    at: usize,
    line: usize,
}

impl Operands<'_> {
    fn number(&mut self, what: &str, low: i128, high: i128) -> Result<i128, TextError> {
        let Some(word) = self.operands.get(self.at) else {
            return Err(TextError::at(self.line, self.mnemonic, format!("the {what} is missing")));
        };
        self.at += 1;
        match word.parse::<i128>() {
            Ok(n) if (low..=high).contains(&n) => Ok(n),
            Ok(_) => Err(TextError::at(self.line, word, format!("the {what} must be from {low} to {high}"))),
            Err(_) => Err(TextError::at(self.line, word, format!("expected the {what}, a decimal number"))),
        }
    }

    fn reg(&mut self, what: &str) -> Result<Reg, TextError> {
        let n = self.number(what, 0, 10)?;
        Reg::new(n as u8).ok_or_else(|| TextError::at(self.line, self.mnemonic, "no such register"))
    }

    fn dst(&mut self) -> Result<Reg, TextError> {
        self.reg("destination register")
    }

    fn src(&mut self) -> Result<Reg, TextError> {
        self.reg("source register")
    }

    fn imm(&mut self) -> Result<i32, TextError> {
        Ok(self.number("constant", i32::MIN as i128, i32::MAX as i128)? as i32)
    }

    fn off(&mut self, what: &str) -> Result<i16, TextError> {
        Ok(self.number(what, i16::MIN as i128, i16::MAX as i128)? as i16)
    }

    fn operand(&mut self, by_register: bool) -> Result<Operand, TextError> {
        Ok(if by_register { Operand::Reg(self.src()?) } else { Operand::Imm(self.imm()?) })
    }
}

/// One line; `None` is a `NOP`.
fn instruction(mnemonic: &str, o: &mut Operands) -> Result<Option<RawInsn>, TextError> {
    let insn = match mnemonic {
        "NOP" => None,
        "EXIT" => Some(Insn::Exit),
        "NEG64XC" => Some(Insn::Neg { width: Width::W64, dst: o.dst()? }),
        "NEG32XC" => Some(Insn::Neg { width: Width::W32, dst: o.dst()? }),
        "LE" | "BE" => {
            let order = if mnemonic == "LE" { Endian::Little } else { Endian::Big };
            Some(Insn::Endian { order, dst: o.dst()?, bits: o.number("number of bits", 16, 64)? as u8 })
        }
        "LDMAPID" => Some(Insn::LoadImm { dst: o.dst()?, value: Imm64::Map(MapRef::Fd(o.imm()?)) }),
        "MOVDWXC" => {
            let dst = o.dst()?;
            let value = o.number("constant", i64::MIN as i128, u64::MAX as i128)? as u64;
            Some(Insn::LoadImm { dst, value: Imm64::Value(value) })
        }
        "XADD64" => Some(atomic_add(Size::D, o)?),
        "XADD32" => Some(atomic_add(Size::W, o)?),
        "LDABSH" => Some(Insn::LegacyLoad { size: Size::H, index: None, off: o.imm()? }),
        "LDINDH" => Some(Insn::LegacyLoad { size: Size::H, index: Some(o.src()?), off: 0 }),
        "JA" => Some(Insn::Jump { target: o.off("distance")? as i32, long: false }),
        "CALL" => Some(Insn::Call(Callee::Helper(o.imm()?))),
        _ => Some(regular(mnemonic, o)?),
    };
    if let Some(extra) = o.operands.get(o.at) {
        return Err(TextError::at(o.line, extra, format!("{mnemonic} has no more operands")));
    }
    if let Some(Err(why)) = insn.as_ref().map(encode::encode) {
        return Err(TextError::at(o.line, mnemonic, why.to_string()));
    }
    Ok(insn)
}

fn atomic_add(size: Size, o: &mut Operands) -> Result<RawInsn, TextError> {
    let (base, off) = (o.dst()?, o.off("offset")?);
    Ok(Insn::Atomic { op: AtomicOp::Add, fetch: false, size, base, off, src: o.src()? })
}

/// Mnemonics that are composed of parts.
fn regular(mnemonic: &str, o: &mut Operands) -> Result<RawInsn, TextError> {
    let size = |prefix: &str| {
        let rest = mnemonic.strip_prefix(prefix)?;
        SIZES.iter().find(|(name, _)| *name == rest).map(|(_, size)| *size)
    };
    if let Some(size) = size("LDX") {
        let (dst, base) = (o.dst()?, o.src()?);
        return Ok(Insn::Load { size, signed: false, dst, base, off: o.off("offset")? });
    }
    if let Some(size) = size("STX") {
        let (base, off) = (o.dst()?, o.off("offset")?);
        return Ok(Insn::Store { size, base, off, src: Operand::Reg(o.src()?) });
    }
    if let Some(size) = size("ST") {
        let (base, off) = (o.dst()?, o.off("offset")?);
        return Ok(Insn::Store { size, base, off, src: Operand::Imm(o.imm()?) });
    }
    let unknown = || TextError::at(o.line, mnemonic, "unknown instruction");
    let (stem, by_register) = match (mnemonic.strip_suffix("XC"), mnemonic.strip_suffix("XY")) {
        (Some(stem), _) => (stem, false),
        (_, Some(stem)) => (stem, true),
        _ => return Err(unknown()),
    };
    let (name, width) = match (stem.strip_suffix("64"), stem.strip_suffix("32")) {
        (Some(name), _) => (name, Some(Width::W64)),
        (_, Some(name)) => (name, Some(Width::W32)),
        _ => (stem, None),
    };
    if let (Some((_, cond)), None | Some(Width::W32)) = (BRANCHES.iter().find(|(n, _)| *n == name), width) {
        let (cond, width) = (*cond, width.unwrap_or(Width::W64));
        let (dst, src) = (o.dst()?, o.operand(by_register)?);
        return Ok(Insn::Branch { width, cond, dst, src, target: o.off("distance")? as i32 });
    }
    let width = width.ok_or_else(unknown)?;
    if name == "MOV" {
        return Ok(Insn::Mov { width, dst: o.dst()?, src: o.operand(by_register)? });
    }
    let op = ALU.iter().find(|(n, _)| *n == name).ok_or_else(unknown)?.1;
    Ok(Insn::Alu { width, op, dst: o.dst()?, src: o.operand(by_register)? })
}

/// Writes a program; an instruction that has no mnemonic is an error.
pub fn print(program: &Program) -> Result<String, TextError> {
    let mut out = String::new();
    for insn in flat::instructions(program)? {
        out += &line(program, &insn).ok_or_else(|| {
            let reason = match insn {
                Insn::LoadImm { value: Imm64::Map(_), .. } => {
                    "the map has no file descriptor, by which the .k2 language names it; write assembly instead"
                }
                _ => "the .k2 language has no such instruction; write .bpf macros or assembly instead",
            };
            TextError { line: 0, token: asm::print_raw(&insn), reason: reason.into() }
        })?;
        out.push('\n');
    }
    Ok(out)
}

fn line(program: &Program, insn: &RawInsn) -> Option<String> {
    let n = |r: &Reg| r.index();
    let suffix = |src: &Operand| match src {
        Operand::Reg(r) => ("XY", r.index() as i32),
        Operand::Imm(i) => ("XC", *i),
    };
    let size = |size: &Size| SIZES.iter().find(|(_, s)| s == size).map(|(name, _)| *name);
    Some(match insn {
        Insn::Alu { width, op, dst, src } => {
            let (name, _) = ALU.iter().find(|(_, o)| o == op)?;
            let (kind, value) = suffix(src);
            format!("{name}{}{kind} {} {value}", width.bits(), n(dst))
        }
        Insn::Mov { width, dst, src } => {
            let (kind, value) = suffix(src);
            format!("MOV{}{kind} {} {value}", width.bits(), n(dst))
        }
        Insn::Neg { width, dst } => format!("NEG{}XC {}", width.bits(), n(dst)),
        Insn::Endian { order: Endian::Little, bits, dst } => format!("LE {} {bits}", n(dst)),
        Insn::Endian { order: Endian::Big, bits, dst } => format!("BE {} {bits}", n(dst)),
        Insn::LoadImm { dst, value: Imm64::Value(v) } => format!("MOVDWXC {} {}", n(dst), *v as i64),
        Insn::LoadImm { dst, value: Imm64::Map(map) } => {
            let fd = match map {
                MapRef::Fd(fd) => *fd,
                MapRef::Index(_) => program.map(*map)?.fd?,
            };
            format!("LDMAPID {} {fd}", n(dst))
        }
        Insn::Load { size: s, signed: false, dst, base, off } => {
            format!("LDX{} {} {} {off}", size(s)?, n(dst), n(base))
        }
        Insn::Store { size: s, base, off, src: Operand::Reg(r) } => {
            format!("STX{} {} {off} {}", size(s)?, n(base), n(r))
        }
        Insn::Store { size: s, base, off, src: Operand::Imm(i) } => format!("ST{} {} {off} {i}", size(s)?, n(base)),
        Insn::Atomic { op: AtomicOp::Add, fetch: false, size, base, off, src } => {
            format!("XADD{} {} {off} {}", size.bits(), n(base), n(src))
        }
        Insn::LegacyLoad { size: Size::H, index: None, off } => format!("LDABSH {off}"),
        Insn::LegacyLoad { size: Size::H, index: Some(r), off: 0 } => format!("LDINDH {}", n(r)),
        Insn::Jump { target, long: false } => format!("JA {target}"),
        Insn::Branch { width, cond, dst, src, target } => {
            let (name, _) = BRANCHES.iter().find(|(_, c)| c == cond)?;
            let bits = if *width == Width::W32 { "32" } else { "" };
            let (kind, value) = suffix(src);
            format!("{name}{bits}{kind} {} {value} {target}", n(dst))
        }
        Insn::Call(Callee::Helper(id)) => format!("CALL {id}"),
        Insn::Exit => "EXIT".into(),
        _ => return None,
    })
}
