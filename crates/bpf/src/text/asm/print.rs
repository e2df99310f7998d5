//! From instructions to text.

use super::directive::{hook_name, print_map, quoted};
use super::lex;
use crate::helper;
use crate::insn::*;
use crate::program::{Entry, Function, Patch, Program};
use std::collections::{BTreeMap, HashMap};

/// How jump targets are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Targets {
    /// `goto L1`, with a line `L1:`.
    #[default]
    Labels,
    /// `goto +2`: slots from the next instruction.
    Relative,
}

/// How an instruction's targets, functions and maps are called.
pub(super) struct Names<'n, J, F> {
    pub target: &'n dyn Fn(&J) -> String,
    pub func: &'n dyn Fn(&F) -> String,
    pub map: &'n dyn Fn(MapRef) -> String,
}

/// A whole program.
pub(super) fn program(program: &Program, targets: Targets) -> String {
    let mut out: String = program.maps.iter().map(print_map).collect();
    let (functions, maps) = (function_names(program), map_names(program));
    // Functions without code are those that were removed.
    for function in program.functions.iter().filter(|f| !f.nodes.is_empty()) {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &header(function);
        for line in function_lines(function, targets, &functions, &maps) {
            if let Some(label) = line.label {
                out += &format!("{label}:\n");
            }
            out += &format!("    {}\n", line.text);
        }
    }
    out
}

fn header(function: &Function) -> String {
    let mut out = format!(".func {}\n", quoted(&function.name));
    if !function.section.is_empty() {
        out += &format!(".section {}\n", quoted(&function.section));
    }
    out += &match function.entry {
        Entry::Hook(hook) => format!(".hook {}\n", hook_name(hook)),
        Entry::Subprogram { global: false } => ".local\n".to_string(),
        Entry::Subprogram { global: true } => ".global\n".to_string(),
    };
    out
}

/// An instruction as a line of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its label, when some jump goes to it and labels are used.
    pub label: Option<String>,
    /// The instruction.
    pub text: String,
}

/// The instructions of one function in order.
pub(super) fn lines(program: &Program, function: usize, targets: Targets) -> Vec<Line> {
    match program.functions.get(function) {
        Some(function) => function_lines(function, targets, &function_names(program), &map_names(program)),
        None => Vec::new(),
    }
}

fn function_lines(
    function: &Function,
    targets: Targets,
    functions: &[Option<String>],
    maps: &[Option<String>],
) -> Vec<Line> {
    let positions = function.positions();
    let offsets = function.slot_offsets();
    let labels = match targets {
        Targets::Labels => labels(function, &positions),
        Targets::Relative => BTreeMap::new(),
    };
    function
        .nodes
        .iter()
        .enumerate()
        .map(|(i, node)| {
            let target = |id: &InsnId| match (positions.get(id), targets) {
                (Some(p), Targets::Labels) => labels[p].clone(),
                (Some(p), Targets::Relative) => format!("{:+}", offsets[*p] as i64 - offsets[i + 1] as i64),
                // No program that the checker accepts jumps to nowhere; the text says it all the same.
                (None, _) => format!("@{}", id.0),
            };
            let func = |f: &FuncId| functions.get(f.0 as usize).cloned().flatten().unwrap_or_else(|| indexed(*f));
            let map = |m| map_name(maps, m);
            let mut text = insn(&node.insn, &Names { target: &target, func: &func, map: &map });
            if let Some(Patch(n)) = node.patch {
                text += &format!(" @patched {n}");
            }
            Line { label: labels.get(&i).cloned(), text }
        })
        .collect()
}

/// `L1`, `L2`, .. for the targets of a function, in their order.
fn labels(function: &Function, positions: &HashMap<InsnId, usize>) -> BTreeMap<usize, String> {
    let targets = function.nodes.iter().filter_map(|n| positions.get(n.insn.target()?));
    let mut labels: BTreeMap<usize, String> = targets.map(|p| (*p, String::new())).collect();
    for (n, label) in labels.values_mut().enumerate() {
        *label = format!("L{}", n + 1);
    }
    labels
}

fn indexed(f: FuncId) -> String {
    format!("func[idx:{}]", f.0)
}

/// What calls write for each function: its name, when that leads back to it.
fn function_names(program: &Program) -> Vec<Option<String>> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for f in &program.functions {
        *count.entry(&f.name).or_default() += 1;
    }
    let call_name = |f: &Function| match f.name.strip_prefix("bpf_").and_then(helper::id) {
        _ if count[f.name.as_str()] > 1 => None,
        // Without quotes it would be the helper.
        Some(_) => Some(format!("\"{}\"", f.name)),
        None => name(&f.name),
    };
    program.functions.iter().map(call_name).collect()
}

/// What instructions write for each map, as [`function_names`].
fn map_names(program: &Program) -> Vec<Option<String>> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for m in &program.maps {
        *count.entry(&m.name).or_default() += 1;
    }
    program.maps.iter().map(|m| if count[m.name.as_str()] == 1 { name(&m.name) } else { None }).collect()
}

/// A name as instructions can hold it; quotes there have no escapes.
fn name(name: &str) -> Option<String> {
    if lex::is_plain_name(name) {
        return Some(name.into());
    }
    let can_be_quoted = !name.is_empty() && !name.chars().any(|c| c == '"' || c.is_control());
    can_be_quoted.then(|| format!("\"{name}\""))
}

fn map_name(names: &[Option<String>], map: MapRef) -> String {
    match map {
        MapRef::Fd(fd) => format!("map[fd:{fd}]"),
        MapRef::Index(i) => match usize::try_from(i).ok().and_then(|i| names.get(i).cloned().flatten()) {
            Some(name) => format!("map[{name}]"),
            None => format!("map[idx:{i}]"),
        },
    }
}

/// One instruction of a program on its own: targets are identities, `@7`.
pub(super) fn identified(program: &Program, one: &Insn) -> String {
    let functions = function_names(program);
    let maps = map_names(program);
    let func = |f: &FuncId| functions.get(f.0 as usize).cloned().flatten().unwrap_or_else(|| indexed(*f));
    insn(one, &Names { target: &|id: &InsnId| format!("@{}", id.0), func: &func, map: &|m| map_name(&maps, m) })
}

/// One instruction without a program.
pub(super) fn raw(one: &RawInsn) -> String {
    let func = |d: &i32| match one {
        Insn::Call(_) => format!("pc{d:+}"),
        _ => format!("func[{d:+}]"),
    };
    insn(one, &Names { target: &|d: &i32| format!("{d:+}"), func: &func, map: &|m| map_name(&[], m) })
}

/// The text of an instruction.
pub(super) fn insn<J, F>(insn: &Insn<J, F>, names: &Names<J, F>) -> String {
    match insn {
        Insn::Alu { width, op, dst, src } => {
            format!("{} {} {}", reg(*dst, *width), alu(*op), operand(*src, *width))
        }
        Insn::Mov { width, dst, src } => format!("{} = {}", reg(*dst, *width), operand(*src, *width)),
        Insn::MovSx { width, bits, dst, src } => format!("{} = (s{bits}){}", reg(*dst, *width), reg(*src, *width)),
        Insn::Neg { width, dst } => format!("{0} = -{0}", reg(*dst, *width)),
        Insn::Endian { order, bits, dst } => {
            let order = match order {
                Endian::Little => "le",
                Endian::Big => "be",
                Endian::Swap => "bswap",
            };
            format!("{dst} = {order}{bits} {dst}")
        }
        Insn::AddrCast { dst, src, to, from } => format!("{dst} = addr_space_cast({src}, {to}, {from})"),
        Insn::LoadImm { dst, value } => format!("{dst} = {} ll", constant(value, names)),
        Insn::Load { size, signed, dst, base, off } => {
            let sign = if *signed { 's' } else { 'u' };
            format!("{dst} = *({sign}{} *)({})", size.bits(), address(*base, *off))
        }
        Insn::Store { size, base, off, src } => {
            format!("*(u{} *)({}) = {}", size.bits(), address(*base, *off), operand(*src, Width::W64))
        }
        Insn::Atomic { op, fetch, size, base, off, src } => atomic(*op, *fetch, *size, &address(*base, *off), *src),
        Insn::LoadAcquire { size, dst, base, off } => {
            format!("{} = load_acquire((u{} *)({}))", value_reg(*dst, *size), size.bits(), address(*base, *off))
        }
        Insn::StoreRelease { size, base, off, src } => {
            format!("store_release((u{} *)({}), {})", size.bits(), address(*base, *off), value_reg(*src, *size))
        }
        Insn::LegacyLoad { size, index, off } => {
            let place = match index {
                None => off.to_string(),
                Some(r) if *off == 0 => r.to_string(),
                Some(r) => format!("{r} {}", sum(*off as i64)),
            };
            format!("r0 = *(u{} *)skb[{place}]", size.bits())
        }
        Insn::Jump { target, long } => format!("goto{} {}", if *long { "l" } else { "" }, (names.target)(target)),
        Insn::Branch { width, cond, dst, src, target } => {
            // The kernel prints constants of comparisons in hexadecimal.
            let right = match src {
                Operand::Reg(r) => reg(*r, *width),
                Operand::Imm(i) if *i < 0 => format!("-{:#x}", i.unsigned_abs()),
                Operand::Imm(i) => format!("{i:#x}"),
            };
            format!("if {} {} {right} goto {}", reg(*dst, *width), condition(*cond), (names.target)(target))
        }
        Insn::MayGoto { target } => format!("may_goto {}", (names.target)(target)),
        Insn::Call(callee) => call(callee, names),
        Insn::Exit => "exit".into(),
    }
}

fn call<J, F>(callee: &Callee<F>, names: &Names<J, F>) -> String {
    match callee {
        Callee::Helper(id) => match helper::name(*id) {
            Some(name) if *id != 0 => format!("call bpf_{name}"),
            _ => format!("call {id}"),
        },
        Callee::Local(f) => format!("call {}", (names.func)(f)),
        Callee::Kfunc { id, off: 0 } => format!("call kfunc[id:{id}]"),
        Callee::Kfunc { id, off } => format!("call kfunc[id:{id} off:{off}]"),
        Callee::Extern(n) => format!("call extern[{n}]"),
        Callee::Register(r) => format!("callx {r}"),
    }
}

fn constant<J, F>(value: &Imm64<F>, names: &Names<J, F>) -> String {
    match value {
        Imm64::Value(v) => format!("{v:#x}"),
        Imm64::Map(m) => (names.map)(*m),
        Imm64::MapValue(m, off) => format!("{}[0]+{off}", (names.map)(*m)),
        Imm64::Btf { id, fd: 0 } => format!("btf[id:{id}]"),
        Imm64::Btf { id, fd } => format!("btf[id:{id} fd:{fd}]"),
        Imm64::Function(f) => {
            let name = (names.func)(f);
            if name.starts_with("func[") { name } else { format!("func[{name}]") }
        }
        Imm64::Extern(n) => format!("extern[{n}]"),
    }
}

fn atomic(op: AtomicOp, fetch: bool, size: Size, address: &str, src: Reg) -> String {
    let bits = size.bits();
    let r = value_reg(src, size);
    let suffix = if size == Size::D { "_64" } else { "32_32" };
    let (sign, name) = match op {
        AtomicOp::Add => ("+=", "add"),
        AtomicOp::Or => ("|=", "or"),
        AtomicOp::And => ("&=", "and"),
        AtomicOp::Xor => ("^=", "xor"),
        AtomicOp::Xchg => return format!("{r} = xchg{suffix}({address}, {r})"),
        AtomicOp::Cmpxchg => {
            let r0 = value_reg(Reg::R0, size);
            return format!("{r0} = cmpxchg{suffix}({address}, {r0}, {r})");
        }
    };
    if fetch {
        format!("{r} = atomic_fetch_{name}((u{bits} *)({address}), {r})")
    } else {
        format!("lock *(u{bits} *)({address}) {sign} {r}")
    }
}

fn reg(r: Reg, width: Width) -> String {
    match width {
        Width::W64 => r.to_string(),
        Width::W32 => format!("w{}", r.index()),
    }
}

/// A register as LLVM writes it beside an atomic access of that size.
fn value_reg(r: Reg, size: Size) -> String {
    reg(r, if size == Size::D { Width::W64 } else { Width::W32 })
}

fn operand(src: Operand, width: Width) -> String {
    match src {
        Operand::Reg(r) => reg(r, width),
        Operand::Imm(i) => i.to_string(),
    }
}

fn address(base: Reg, off: i16) -> String {
    format!("{base} {}", sum(off as i64))
}

/// `+ 4` or `- 4`
fn sum(off: i64) -> String {
    if off < 0 { format!("- {}", -off) } else { format!("+ {off}") }
}

fn alu(op: AluOp) -> &'static str {
    match op {
        AluOp::Add => "+=",
        AluOp::Sub => "-=",
        AluOp::Mul => "*=",
        AluOp::Div => "/=",
        AluOp::SDiv => "s/=",
        AluOp::Mod => "%=",
        AluOp::SMod => "s%=",
        AluOp::Or => "|=",
        AluOp::And => "&=",
        AluOp::Xor => "^=",
        AluOp::Lsh => "<<=",
        AluOp::Rsh => ">>=",
        AluOp::Arsh => "s>>=",
    }
}

/// A condition as it is written between two operands.
pub fn condition(cond: Condition) -> &'static str {
    match cond {
        Condition::Eq => "==",
        Condition::Ne => "!=",
        Condition::Gt => ">",
        Condition::Ge => ">=",
        Condition::Lt => "<",
        Condition::Le => "<=",
        Condition::Set => "&",
        Condition::SGt => "s>",
        Condition::SGe => "s>=",
        Condition::SLt => "s<",
        Condition::SLe => "s<=",
    }
}
