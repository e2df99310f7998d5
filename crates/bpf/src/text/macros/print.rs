//! From an instruction to macros.

use crate::encode;
use crate::helper;
use crate::insn::*;

/// The line of an instruction; two lines where no macro says it in one.
pub(super) fn rows(insn: &RawInsn) -> String {
    named(insn).map_or_else(|| raw(insn), |text| text + ",\n")
}

/// Raw rows, for what has no macro of its own.
fn raw(insn: &RawInsn) -> String {
    let Ok((first, second)) = encode::encode(insn) else { return String::new() };
    [Some(first), second]
        .into_iter()
        .flatten()
        .map(|s| format!("BPF_RAW_INSN({:#04x}, {}, {}, {}, {}),\n", s.code, s.dst, s.src, s.off, s.imm))
        .collect()
}

fn named(insn: &RawInsn) -> Option<String> {
    Some(match *insn {
        Insn::Alu { width, op, dst, src } => {
            let (op, off) = alu(op);
            let off = if off == 0 { String::new() } else { format!(", {off}") };
            let extra = if off.is_empty() { "" } else { "_OFF" };
            let (kind, src) = operand(src);
            format!("BPF_ALU{}_{kind}{extra}({op}, {}, {src}{off})", width.bits(), reg(dst))
        }
        Insn::Mov { width, dst, src } => {
            let (kind, src) = operand(src);
            format!("BPF_MOV{}_{kind}({}, {src})", width.bits(), reg(dst))
        }
        Insn::MovSx { width, bits, dst, src } => {
            format!("BPF_MOVSX{}_REG({}, {}, {bits})", width.bits(), reg(dst), reg(src))
        }
        Insn::Neg { width, dst } => {
            let class = if width == Width::W64 { "BPF_ALU64" } else { "BPF_ALU" };
            format!("BPF_RAW_INSN({class} | BPF_NEG, {}, 0, 0, 0)", reg(dst))
        }
        Insn::Endian { order: Endian::Little, bits, dst } => format!("BPF_ENDIAN(BPF_TO_LE, {}, {bits})", reg(dst)),
        Insn::Endian { order: Endian::Big, bits, dst } => format!("BPF_ENDIAN(BPF_TO_BE, {}, {bits})", reg(dst)),
        Insn::Endian { order: Endian::Swap, bits, dst } => format!("BPF_BSWAP({}, {bits})", reg(dst)),
        Insn::LoadImm { dst, value } => match value {
            Imm64::Value(v) if v < 1 << 31 => format!("BPF_LD_IMM64({}, {v})", reg(dst)),
            Imm64::Value(v) => format!("BPF_LD_IMM64({}, {v:#x})", reg(dst)),
            Imm64::Map(MapRef::Fd(fd)) => format!("BPF_LD_MAP_FD({}, {fd})", reg(dst)),
            Imm64::MapValue(MapRef::Fd(fd), off) => format!("BPF_LD_MAP_VALUE({}, {fd}, {off})", reg(dst)),
            _ => return None,
        },
        Insn::Load { size: s, signed, dst, base, off } => {
            let sign = if signed { "SX" } else { "" };
            format!("BPF_LDX_MEM{sign}({}, {}, {}, {off})", size(s), reg(dst), reg(base))
        }
        Insn::Store { size: s, base, off, src: Operand::Reg(r) } => {
            format!("BPF_STX_MEM({}, {}, {}, {off})", size(s), reg(base), reg(r))
        }
        Insn::Store { size: s, base, off, src: Operand::Imm(i) } => {
            format!("BPF_ST_MEM({}, {}, {off}, {i})", size(s), reg(base))
        }
        Insn::Atomic { op: AtomicOp::Add, fetch: false, size: s, base, off, src } => {
            format!("BPF_STX_XADD({}, {}, {}, {off})", size(s), reg(base), reg(src))
        }
        Insn::Atomic { op, fetch, size: s, base, off, src } => {
            format!("BPF_ATOMIC_OP({}, {}, {}, {}, {off})", size(s), atomic(op, fetch), reg(base), reg(src))
        }
        Insn::LoadAcquire { size: s, dst, base, off } => {
            format!("BPF_ATOMIC_OP({}, BPF_LOAD_ACQ, {}, {}, {off})", size(s), reg(dst), reg(base))
        }
        Insn::StoreRelease { size: s, base, off, src } => {
            format!("BPF_ATOMIC_OP({}, BPF_STORE_REL, {}, {}, {off})", size(s), reg(base), reg(src))
        }
        Insn::LegacyLoad { size: s, index: None, off } => format!("BPF_LD_ABS({}, {off})", size(s)),
        Insn::LegacyLoad { size: s, index: Some(r), off } => format!("BPF_LD_IND({}, {}, {off})", size(s), reg(r)),
        Insn::Jump { target, long: false } => format!("BPF_JMP_A({target})"),
        Insn::Jump { target, long: true } => format!("BPF_JMP32_A({target})"),
        Insn::Branch { width, cond, dst, src, target } => {
            let class = if width == Width::W64 { "BPF_JMP" } else { "BPF_JMP32" };
            let (kind, src) = operand(src);
            format!("{class}_{kind}({}, {}, {src}, {target})", condition(cond), reg(dst))
        }
        Insn::MayGoto { target } => format!("BPF_RAW_INSN(BPF_JMP | BPF_JCOND, 0, 0, {target}, 0)"),
        Insn::Call(Callee::Helper(id)) => {
            let name = helper::name(id).map_or_else(|| id.to_string(), |name| format!("BPF_FUNC_{name}"));
            format!("BPF_RAW_INSN(BPF_JMP | BPF_CALL, 0, 0, 0, {name})")
        }
        Insn::Call(Callee::Local(distance)) => format!("BPF_CALL_REL({distance})"),
        Insn::Call(Callee::Kfunc { id, off }) => format!("BPF_CALL_KFUNC({off}, {id})"),
        Insn::Call(Callee::Register(r)) => format!("BPF_RAW_INSN(BPF_JMP | BPF_CALL | BPF_X, {}, 0, 0, 0)", reg(r)),
        Insn::Exit => "BPF_EXIT_INSN()".into(),
        Insn::AddrCast { .. } | Insn::Call(Callee::Extern(_)) => return None,
    })
}

fn reg(r: Reg) -> String {
    format!("BPF_REG_{}", r.index())
}

fn operand(src: Operand) -> (&'static str, String) {
    match src {
        Operand::Reg(r) => ("REG", reg(r)),
        Operand::Imm(i) => ("IMM", i.to_string()),
    }
}

fn size(size: Size) -> &'static str {
    match size {
        Size::B => "BPF_B",
        Size::H => "BPF_H",
        Size::W => "BPF_W",
        Size::D => "BPF_DW",
    }
}

/// Name, and the offset that makes it signed.
fn alu(op: AluOp) -> (&'static str, i16) {
    match op {
        AluOp::Add => ("BPF_ADD", 0),
        AluOp::Sub => ("BPF_SUB", 0),
        AluOp::Mul => ("BPF_MUL", 0),
        AluOp::Div => ("BPF_DIV", 0),
        AluOp::SDiv => ("BPF_DIV", 1),
        AluOp::Mod => ("BPF_MOD", 0),
        AluOp::SMod => ("BPF_MOD", 1),
        AluOp::Or => ("BPF_OR", 0),
        AluOp::And => ("BPF_AND", 0),
        AluOp::Xor => ("BPF_XOR", 0),
        AluOp::Lsh => ("BPF_LSH", 0),
        AluOp::Rsh => ("BPF_RSH", 0),
        AluOp::Arsh => ("BPF_ARSH", 0),
    }
}

fn atomic(op: AtomicOp, fetch: bool) -> String {
    let name = match op {
        AtomicOp::Add => "BPF_ADD",
        AtomicOp::Or => "BPF_OR",
        AtomicOp::And => "BPF_AND",
        AtomicOp::Xor => "BPF_XOR",
        AtomicOp::Xchg => return "BPF_XCHG".into(),
        AtomicOp::Cmpxchg => return "BPF_CMPXCHG".into(),
    };
    if fetch { format!("{name} | BPF_FETCH") } else { name.into() }
}

fn condition(cond: Condition) -> &'static str {
    match cond {
        Condition::Eq => "BPF_JEQ",
        Condition::Ne => "BPF_JNE",
        Condition::Gt => "BPF_JGT",
        Condition::Ge => "BPF_JGE",
        Condition::Lt => "BPF_JLT",
        Condition::Le => "BPF_JLE",
        Condition::Set => "BPF_JSET",
        Condition::SGt => "BPF_JSGT",
        Condition::SGe => "BPF_JSGE",
        Condition::SLt => "BPF_JSLT",
        Condition::SLe => "BPF_JSLE",
    }
}
