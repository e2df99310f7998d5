//! Bytes to instructions and back. The only place that knows opcode numbers
//! (kernel `include/uapi/linux/bpf.h`, `Documentation/bpf/standardization/instruction-set.rst`).

use crate::insn::*;
use std::fmt;

/// Eight bytes: `struct bpf_insn`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Slot {
    /// Opcode.
    pub code: u8,
    /// Destination register, low nibble of the second byte.
    pub dst: u8,
    /// Source register, high nibble.
    pub src: u8,
    /// Signed offset.
    pub off: i16,
    /// Signed constant.
    pub imm: i32,
}

impl Slot {
    /// From little-endian bytes.
    pub fn from_bytes(b: [u8; 8]) -> Slot {
        Slot {
            code: b[0],
            dst: b[1] & 15,
            src: b[1] >> 4,
            off: i16::from_le_bytes([b[2], b[3]]),
            imm: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }

    /// To little-endian bytes.
    pub fn to_bytes(self) -> [u8; 8] {
        let o = self.off.to_le_bytes();
        let i = self.imm.to_le_bytes();
        [self.code, self.dst | self.src << 4, o[0], o[1], i[0], i[1], i[2], i[3]]
    }
}

/// Slots of a byte array; an error names the length when it is not a multiple of eight.
pub fn slots_from_bytes(bytes: &[u8]) -> Result<Vec<Slot>, DecodeError> {
    if !bytes.len().is_multiple_of(8) {
        return Err(DecodeError { slot: bytes.len() / 8, reason: "the code does not end on an 8-byte boundary" });
    }
    Ok(bytes.chunks_exact(8).map(|c| Slot::from_bytes(c.try_into().expect("chunk of 8"))).collect())
}

/// Why bytes are no instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Index of the offending slot.
    pub slot: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "slot {}: {}", self.slot, self.reason)
    }
}

impl std::error::Error for DecodeError {}

/// Why an instruction has no encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodeError {
    /// A jump target does not fit its field.
    Distance(i64),
    /// No such instruction exists; the reason says why.
    Invalid(&'static str),
    /// The operand has no number here (an unresolved extern).
    Unresolved,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            EncodeError::Distance(d) => write!(f, "jump distance {d} does not fit its field"),
            EncodeError::Invalid(why) => f.write_str(why),
            EncodeError::Unresolved => f.write_str("extern symbol without a number"),
        }
    }
}

impl std::error::Error for EncodeError {}

const CLASS_LD: u8 = 0;
const CLASS_LDX: u8 = 1;
const CLASS_ST: u8 = 2;
const CLASS_STX: u8 = 3;
const CLASS_ALU: u8 = 4;
const CLASS_JMP: u8 = 5;
const CLASS_JMP32: u8 = 6;
const CLASS_ALU64: u8 = 7;
const MODE_IMM: u8 = 0x00;
const MODE_ABS: u8 = 0x20;
const MODE_IND: u8 = 0x40;
const MODE_MEM: u8 = 0x60;
const MODE_MEMSX: u8 = 0x80;
const MODE_ATOMIC: u8 = 0xc0;
const SOURCE_REG: u8 = 0x08;
const FETCH: i32 = 1;
const LOAD_ACQUIRE: i32 = 0x100;
const STORE_RELEASE: i32 = 0x110;

const ALU: [(u8, AluOp); 11] = [
    (0x00, AluOp::Add),
    (0x10, AluOp::Sub),
    (0x20, AluOp::Mul),
    (0x30, AluOp::Div),
    (0x40, AluOp::Or),
    (0x50, AluOp::And),
    (0x60, AluOp::Lsh),
    (0x70, AluOp::Rsh),
    (0x90, AluOp::Mod),
    (0xa0, AluOp::Xor),
    (0xc0, AluOp::Arsh),
];
const CONDITIONS: [(u8, Condition); 11] = [
    (0x10, Condition::Eq),
    (0x20, Condition::Gt),
    (0x30, Condition::Ge),
    (0x40, Condition::Set),
    (0x50, Condition::Ne),
    (0x60, Condition::SGt),
    (0x70, Condition::SGe),
    (0xa0, Condition::Lt),
    (0xb0, Condition::Le),
    (0xc0, Condition::SLt),
    (0xd0, Condition::SLe),
];
const ATOMICS: [(i32, AtomicOp); 6] = [
    (0x00, AtomicOp::Add),
    (0x40, AtomicOp::Or),
    (0x50, AtomicOp::And),
    (0xa0, AtomicOp::Xor),
    (0xe0, AtomicOp::Xchg),
    (0xf0, AtomicOp::Cmpxchg),
];

fn size_of(code: u8) -> Size {
    match code & 0x18 {
        0x00 => Size::W,
        0x08 => Size::H,
        0x10 => Size::B,
        _ => Size::D,
    }
}

fn size_code(size: Size) -> u8 {
    match size {
        Size::W => 0x00,
        Size::H => 0x08,
        Size::B => 0x10,
        Size::D => 0x18,
    }
}

/// Decodes the instruction that starts at `slots[at]`; use [`Insn::slots`] to step.
pub fn decode(slots: &[Slot], at: usize) -> Result<RawInsn, DecodeError> {
    let s = *slots.get(at).ok_or(DecodeError { slot: at, reason: "the code ends inside an instruction" })?;
    decode_one(s, slots.get(at + 1)).map_err(|reason| DecodeError { slot: at, reason })
}

fn reg(n: u8) -> Result<Reg, &'static str> {
    Reg::new(n).ok_or("no such register")
}

fn zero(ok: bool) -> Result<(), &'static str> {
    if ok { Ok(()) } else { Err("a reserved field is not zero") }
}

fn decode_one(s: Slot, next: Option<&Slot>) -> Result<RawInsn, &'static str> {
    match s.code & 7 {
        CLASS_ALU => decode_alu(s, Width::W32),
        CLASS_ALU64 => decode_alu(s, Width::W64),
        CLASS_JMP => decode_jump(s, Width::W64),
        CLASS_JMP32 => decode_jump(s, Width::W32),
        CLASS_LD => decode_ld(s, next),
        CLASS_LDX => {
            zero(s.imm == 0)?;
            let size = size_of(s.code);
            let signed = match s.code & 0xe0 {
                MODE_MEM => false,
                MODE_MEMSX if size != Size::D => true,
                _ => return Err("unknown mode of a load"),
            };
            Ok(Insn::Load { size, signed, dst: reg(s.dst)?, base: reg(s.src)?, off: s.off })
        }
        CLASS_ST => {
            if s.code & 0xe0 != MODE_MEM {
                return Err("unknown mode of a store");
            }
            zero(s.src == 0)?;
            Ok(Insn::Store { size: size_of(s.code), base: reg(s.dst)?, off: s.off, src: Operand::Imm(s.imm) })
        }
        _ => decode_stx(s),
    }
}

fn decode_alu(s: Slot, width: Width) -> Result<RawInsn, &'static str> {
    let dst = reg(s.dst)?;
    let by_reg = s.code & SOURCE_REG != 0;
    let op = s.code & 0xf0;
    if op == 0xd0 {
        zero(s.off == 0 && s.src == 0)?;
        let order = match (width, by_reg) {
            (Width::W32, false) => Endian::Little,
            (Width::W32, true) => Endian::Big,
            (Width::W64, false) => Endian::Swap,
            (Width::W64, true) => return Err("a reserved field is not zero"),
        };
        let bits = match s.imm {
            16 => 16,
            32 => 32,
            64 => 64,
            _ => return Err("byte swap of a width that is not 16, 32 or 64"),
        };
        return Ok(Insn::Endian { order, bits, dst });
    }
    if op == 0x80 {
        zero(!by_reg && s.off == 0 && s.src == 0 && s.imm == 0)?;
        return Ok(Insn::Neg { width, dst });
    }
    let src = if by_reg {
        zero(s.imm == 0 || (op == 0xb0 && s.off == 1))?;
        Operand::Reg(reg(s.src)?)
    } else {
        zero(s.src == 0)?;
        Operand::Imm(s.imm)
    };
    if op == 0xb0 {
        return match (s.off, src) {
            (0, src) => Ok(Insn::Mov { width, dst, src }),
            (8 | 16, Operand::Reg(src)) => Ok(Insn::MovSx { width, bits: s.off as u8, dst, src }),
            (32, Operand::Reg(src)) if width == Width::W64 => Ok(Insn::MovSx { width, bits: 32, dst, src }),
            (1, Operand::Reg(src)) if width == Width::W64 => {
                Ok(Insn::AddrCast { dst, src, to: (s.imm as u32 >> 16) as u16, from: s.imm as u16 })
            }
            _ => Err("a move with an offset that means nothing"),
        };
    }
    let (_, alu) = *ALU.iter().find(|(c, _)| *c == op).ok_or("unknown ALU operation")?;
    let alu = match (s.off, alu) {
        (0, alu) => alu,
        (1, AluOp::Div) => AluOp::SDiv,
        (1, AluOp::Mod) => AluOp::SMod,
        _ => return Err("a reserved field is not zero"),
    };
    if matches!(alu, AluOp::Lsh | AluOp::Rsh | AluOp::Arsh)
        && matches!(src, Operand::Imm(i) if i < 0 || i as u32 >= width.bits())
    {
        return Err("a constant shift by more than the width");
    }
    if matches!(alu, AluOp::Div | AluOp::Mod | AluOp::SDiv | AluOp::SMod) && src == Operand::Imm(0) {
        return Err("a division by the constant zero");
    }
    Ok(Insn::Alu { width, op: alu, dst, src })
}

fn decode_jump(s: Slot, width: Width) -> Result<RawInsn, &'static str> {
    let by_reg = s.code & SOURCE_REG != 0;
    match (s.code & 0xf0, width) {
        (0x00, Width::W64) => {
            zero(!by_reg && s.dst == 0 && s.src == 0 && s.imm == 0)?;
            return Ok(Insn::Jump { target: s.off as i32, long: false });
        }
        (0x00, Width::W32) => {
            zero(!by_reg && s.dst == 0 && s.src == 0 && s.off == 0)?;
            return Ok(Insn::Jump { target: s.imm, long: true });
        }
        (0x80, Width::W64) if by_reg => {
            zero(s.src == 0 && s.off == 0 && s.imm == 0)?;
            return Ok(Insn::Call(Callee::Register(reg(s.dst)?)));
        }
        (0x80, Width::W64) => {
            zero(s.dst == 0 && (s.off == 0 || s.src == 2))?;
            return Ok(Insn::Call(match s.src {
                0 => Callee::Helper(s.imm),
                1 => Callee::Local(s.imm),
                2 => Callee::Kfunc { id: s.imm, off: s.off },
                _ => return Err("unknown kind of call"),
            }));
        }
        (0x90, Width::W64) => {
            zero(!by_reg && s.dst == 0 && s.src == 0 && s.off == 0 && s.imm == 0)?;
            return Ok(Insn::Exit);
        }
        (0xe0, Width::W64) => {
            zero(!by_reg && s.dst == 0 && s.src == 0 && s.imm == 0)?;
            return Ok(Insn::MayGoto { target: s.off as i32 });
        }
        _ => {}
    }
    let (_, cond) = *CONDITIONS.iter().find(|(c, _)| *c == s.code & 0xf0).ok_or("unknown jump operation")?;
    let src = if by_reg {
        zero(s.imm == 0)?;
        Operand::Reg(reg(s.src)?)
    } else {
        zero(s.src == 0)?;
        Operand::Imm(s.imm)
    };
    Ok(Insn::Branch { width, cond, dst: reg(s.dst)?, src, target: s.off as i32 })
}

fn decode_ld(s: Slot, next: Option<&Slot>) -> Result<RawInsn, &'static str> {
    let size = size_of(s.code);
    match s.code & 0xe0 {
        MODE_ABS if size != Size::D => {
            zero(s.dst == 0 && s.src == 0 && s.off == 0)?;
            Ok(Insn::LegacyLoad { size, index: None, off: s.imm })
        }
        MODE_IND if size != Size::D => {
            zero(s.dst == 0 && s.off == 0)?;
            Ok(Insn::LegacyLoad { size, index: Some(reg(s.src)?), off: s.imm })
        }
        MODE_IMM if size == Size::D => {
            let high = *next.ok_or("the second half of a 64-bit constant is missing")?;
            zero(s.off == 0 && high.code == 0 && high.dst == 0 && high.src == 0 && high.off == 0)?;
            let value = match s.src {
                0 => Imm64::Value(s.imm as u32 as u64 | (high.imm as u32 as u64) << 32),
                1 | 5 => {
                    zero(high.imm == 0)?;
                    Imm64::Map(if s.src == 1 { MapRef::Fd(s.imm) } else { MapRef::Index(s.imm) })
                }
                2 | 6 => {
                    let map = if s.src == 2 { MapRef::Fd(s.imm) } else { MapRef::Index(s.imm) };
                    Imm64::MapValue(map, high.imm as u32)
                }
                3 => Imm64::Btf { id: s.imm, fd: high.imm },
                4 => {
                    zero(high.imm == 0)?;
                    Imm64::Function(s.imm)
                }
                _ => return Err("unknown kind of 64-bit constant"),
            };
            Ok(Insn::LoadImm { dst: reg(s.dst)?, value })
        }
        _ => Err("unknown mode of a load"),
    }
}

fn decode_stx(s: Slot) -> Result<RawInsn, &'static str> {
    let size = size_of(s.code);
    let (base, src, off) = (reg(s.dst)?, reg(s.src)?, s.off);
    match s.code & 0xe0 {
        MODE_MEM => {
            zero(s.imm == 0)?;
            Ok(Insn::Store { size, base, off, src: Operand::Reg(src) })
        }
        MODE_ATOMIC => match s.imm {
            LOAD_ACQUIRE => Ok(Insn::LoadAcquire { size, dst: base, base: src, off }),
            STORE_RELEASE => Ok(Insn::StoreRelease { size, base, off, src }),
            _ if matches!(size, Size::B | Size::H) => Err("an atomic operation on less than four bytes"),
            imm => {
                let (code, op) = *ATOMICS.iter().find(|(c, _)| *c == imm & !FETCH).ok_or("unknown atomic operation")?;
                let fetch = imm & FETCH != 0;
                if code >= 0xe0 && !fetch {
                    return Err("unknown atomic operation");
                }
                Ok(Insn::Atomic { op, fetch, size, base, off, src })
            }
        },
        _ => Err("unknown mode of a store"),
    }
}

/// Encodes one instruction as its one or two slots.
pub fn encode(insn: &RawInsn) -> Result<(Slot, Option<Slot>), EncodeError> {
    let mut s = Slot::default();
    let mut second = None;
    match *insn {
        Insn::Alu { width, op, dst, src } => {
            let (op, off) = match op {
                AluOp::SDiv => (AluOp::Div, 1),
                AluOp::SMod => (AluOp::Mod, 1),
                op => (op, 0),
            };
            let (code, _) = *ALU.iter().find(|(_, o)| *o == op).expect("every operation is in the table");
            s = alu_slot(width, code, dst, src);
            s.off = off;
        }
        Insn::Mov { width, dst, src } => s = alu_slot(width, 0xb0, dst, src),
        Insn::MovSx { width, bits, dst, src } => {
            s = alu_slot(width, 0xb0, dst, Operand::Reg(src));
            s.off = bits as i16;
        }
        Insn::Neg { width, dst } => s = alu_slot(width, 0x80, dst, Operand::Imm(0)),
        Insn::Endian { order, bits, dst } => {
            let (class, source) = match order {
                Endian::Little => (CLASS_ALU, 0),
                Endian::Big => (CLASS_ALU, SOURCE_REG),
                Endian::Swap => (CLASS_ALU64, 0),
            };
            s = Slot { code: class | source | 0xd0, dst: dst.index() as u8, imm: bits as i32, ..s };
        }
        Insn::AddrCast { dst, src, to, from } => {
            s = alu_slot(Width::W64, 0xb0, dst, Operand::Reg(src));
            s.off = 1;
            s.imm = ((to as u32) << 16 | from as u32) as i32;
        }
        Insn::LoadImm { dst, value } => {
            let (kind, low, high) = match value {
                Imm64::Value(v) => (0, v as i32, (v >> 32) as i32),
                Imm64::Map(MapRef::Fd(fd)) => (1, fd, 0),
                Imm64::Map(MapRef::Index(i)) => (5, i, 0),
                Imm64::MapValue(MapRef::Fd(fd), off) => (2, fd, off as i32),
                Imm64::MapValue(MapRef::Index(i), off) => (6, i, off as i32),
                Imm64::Btf { id, fd } => (3, id, fd),
                Imm64::Function(f) => (4, f, 0),
                Imm64::Extern(_) => return Err(EncodeError::Unresolved),
            };
            s = Slot { code: 0x18, dst: dst.index() as u8, src: kind, off: 0, imm: low };
            second = Some(Slot { imm: high, ..Slot::default() });
        }
        Insn::Load { size, signed, dst, base, off } => {
            let mode = if signed { MODE_MEMSX } else { MODE_MEM };
            s = memory_slot(CLASS_LDX | mode, size, dst, Some(base), off, 0);
        }
        Insn::Store { size, base, off, src: Operand::Reg(src) } => {
            s = memory_slot(CLASS_STX | MODE_MEM, size, base, Some(src), off, 0);
        }
        Insn::Store { size, base, off, src: Operand::Imm(imm) } => {
            s = memory_slot(CLASS_ST | MODE_MEM, size, base, None, off, imm);
        }
        Insn::Atomic { op, fetch, size, base, off, src } => {
            let (code, _) = *ATOMICS.iter().find(|(_, o)| *o == op).expect("every operation is in the table");
            let imm = code | if fetch { FETCH } else { 0 };
            s = memory_slot(CLASS_STX | MODE_ATOMIC, size, base, Some(src), off, imm);
        }
        Insn::LoadAcquire { size, dst, base, off } => {
            s = memory_slot(CLASS_STX | MODE_ATOMIC, size, dst, Some(base), off, LOAD_ACQUIRE);
        }
        Insn::StoreRelease { size, base, off, src } => {
            s = memory_slot(CLASS_STX | MODE_ATOMIC, size, base, Some(src), off, STORE_RELEASE);
        }
        Insn::LegacyLoad { size, index, off } => {
            let mode = if index.is_some() { MODE_IND } else { MODE_ABS };
            s.code = CLASS_LD | mode | size_code(size);
            s.src = index.map_or(0, |r| r.index() as u8);
            s.imm = off;
        }
        Insn::Jump { target, long: false } => {
            s.code = CLASS_JMP;
            s.off = short(target)?;
        }
        Insn::Jump { target, long: true } => {
            s.code = CLASS_JMP32;
            s.imm = target;
        }
        Insn::Branch { width, cond, dst, src, target } => {
            let (code, _) = *CONDITIONS.iter().find(|(_, c)| *c == cond).expect("every condition is in the table");
            let class = if width == Width::W64 { CLASS_JMP } else { CLASS_JMP32 };
            s = operand_slot(class | code, dst, src);
            s.off = short(target)?;
        }
        Insn::MayGoto { target } => {
            s.code = CLASS_JMP | 0xe0;
            s.off = short(target)?;
        }
        Insn::Call(callee) => {
            s.code = CLASS_JMP | 0x80;
            match callee {
                Callee::Helper(id) => s.imm = id,
                Callee::Local(f) => (s.src, s.imm) = (1, f),
                Callee::Kfunc { id, off } => (s.src, s.imm, s.off) = (2, id, off),
                Callee::Extern(_) => return Err(EncodeError::Unresolved),
                Callee::Register(r) => (s.code, s.dst) = (s.code | SOURCE_REG, r.index() as u8),
            }
        }
        Insn::Exit => s.code = CLASS_JMP | 0x90,
    }
    match decode_one(s, second.as_ref()) {
        Ok(back) if back == *insn => Ok((s, second)),
        Ok(_) => Err(EncodeError::Invalid("the instruction has fields that its encoding cannot hold")),
        Err(reason) => Err(EncodeError::Invalid(reason)),
    }
}

fn short(distance: i32) -> Result<i16, EncodeError> {
    distance.try_into().map_err(|_| EncodeError::Distance(distance as i64))
}

fn operand_slot(code: u8, dst: Reg, src: Operand) -> Slot {
    match src {
        Operand::Reg(r) => {
            Slot { code: code | SOURCE_REG, dst: dst.index() as u8, src: r.index() as u8, ..Slot::default() }
        }
        Operand::Imm(imm) => Slot { code, dst: dst.index() as u8, imm, ..Slot::default() },
    }
}

fn alu_slot(width: Width, op: u8, dst: Reg, src: Operand) -> Slot {
    operand_slot(op | if width == Width::W64 { CLASS_ALU64 } else { CLASS_ALU }, dst, src)
}

fn memory_slot(code: u8, size: Size, dst: Reg, src: Option<Reg>, off: i16, imm: i32) -> Slot {
    Slot { code: code | size_code(size), dst: dst.index() as u8, src: src.map_or(0, |r| r.index() as u8), off, imm }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every opcode and a spread of the other fields: what decodes, encodes to the same bytes.
    #[test]
    fn decode_and_encode_are_inverse() {
        let mut valid = 0;
        for code in 0..=255u8 {
            for (dst, src) in
                [(0, 0), (3, 0), (0, 1), (0, 2), (5, 7), (10, 10), (11, 0), (1, 4), (2, 5), (2, 6), (9, 15)]
            {
                for off in [0, 1, 8, 16, 32, -5, 300] {
                    for imm in [0, 1, 2, 16, 32, 64, -1, 0x41, 0x50, 0xe1, 0xf1, 0xe0, 0x100, 0x110, 0x10000] {
                        let slots = [Slot { code, dst, src, off, imm }, Slot::default()];
                        if let Ok(insn) = decode(&slots, 0) {
                            valid += 1;
                            let (first, second) = encode(&insn).expect("what decodes must encode");
                            assert_eq!(first, slots[0], "{insn:?}");
                            assert_eq!(second.is_some(), insn.slots() == 2);
                        }
                    }
                }
            }
        }
        assert!(valid > 5_000, "only {valid} valid encodings met");
    }

    #[test]
    fn truncated_wide_load_is_refused() {
        let error = decode(&[Slot { code: 0x18, ..Slot::default() }], 0).unwrap_err();
        assert_eq!(error.to_string(), "slot 0: the second half of a 64-bit constant is missing");
    }
}
