//! The code that is measured: one instruction, many times.

use karakoram_bpf::helper;
use karakoram_bpf::hook::{Hook, ProgramType};
use karakoram_bpf::insn::*;
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_bpf::program::{Entry, Function, Program};
use std::rc::Rc;

/// What copies of an instruction wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// For the copy before.
    Chain,
    /// For nothing.
    Stream,
    /// There is no difference, or none that could be had.
    Both,
}

/// A program with any number of copies of an instruction.
#[derive(Clone)]
pub struct Sequence {
    /// What is measured.
    pub name: String,
    /// How.
    pub kind: Kind,
    /// Instructions of other sorts that go with each copy, measured before.
    pub with: &'static [(&'static str, usize)],
    /// Whether it is a call, of which fewer are enough.
    pub is_call: bool,
    /// Elements that its maps have, by map.
    pub elements: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Makes the program with so many copies.
    pub build: Rc<dyn Fn(usize) -> Program>,
}

type Raw = Insn<i32, FuncId>;

/// Registers that streams go round. `r1` holds a number that the verifier does not know, `r6` the
/// context.
const ROUND: [u8; 8] = [0, 2, 3, 4, 5, 7, 8, 9];
const UNKNOWN: Reg = Reg::R1;

fn reg(number: u8) -> Reg {
    Reg::new(number).unwrap_or(Reg::R0)
}

fn mov(dst: Reg, src: impl Into<Operand>) -> Raw {
    Insn::Mov { width: Width::W64, dst, src: src.into() }
}

fn constant(dst: Reg, imm: i32) -> Raw {
    Insn::Mov { width: Width::W64, dst, src: Operand::Imm(imm) }
}

fn alu(op: AluOp, width: Width, dst: Reg, src: Operand) -> Raw {
    Insn::Alu { width, op, dst, src }
}

fn store(off: i16, src: Operand) -> Raw {
    Insn::Store { size: Size::D, base: Reg::FP, off, src }
}

fn load(dst: Reg, base: Reg, off: i16) -> Raw {
    Insn::Load { size: Size::D, signed: false, dst, base, off }
}

/// A program: every register set up, the copies, the way out. `extra` is a second function.
fn program(body: Vec<Raw>, maps: Vec<MapDef>, extra: Option<Vec<Raw>>) -> Program {
    // `ingress_ifindex`, which is 1 or more, is any number to the verifier.
    let field = Insn::Load { size: Size::W, signed: false, dst: UNKNOWN, base: reg(6), off: 12 };
    let mut code = vec![mov(reg(6), Reg::R1), field];
    code.extend(ROUND.map(|r| mov(reg(r), UNKNOWN)));
    code.extend([store(-8, Operand::Imm(0)), store(-16, Operand::Reg(UNKNOWN)), store(-24, Operand::Imm(0))]);
    code.extend(body);
    code.extend([constant(Reg::R0, 2), Insn::Exit]);
    let function = |name: &str, entry: Entry, code: &[Raw]| {
        Function::from_raw(name, "", entry, code, 0).unwrap_or_else(|e| panic!("a sequence is no function: {e}"))
    };
    let mut functions = vec![function("main", Entry::Hook(Hook::Kernel(ProgramType::XDP)), &code)];
    functions.extend(extra.map(|code| function("callee", Entry::Subprogram { global: false }, &code)));
    Program { functions, maps, ..Program::default() }
}

fn repeated(copy: impl Fn(usize) -> Vec<Raw> + 'static) -> Rc<dyn Fn(usize) -> Program> {
    Rc::new(move |n| program((0..n).flat_map(&copy).collect(), Vec::new(), None))
}

fn simple(name: &str, kind: Kind, copy: impl Fn(usize) -> Vec<Raw> + 'static) -> Sequence {
    let (name, build) = (name.to_string(), repeated(copy));
    Sequence { name, kind, with: &[], is_call: false, elements: Vec::new(), build }
}

/// An instruction on one register, as a chain on `r2` and as a stream over several.
fn both(name: &'static str, insn: fn(Reg) -> Raw) -> [Sequence; 2] {
    [
        simple(name, Kind::Chain, move |_| vec![insn(reg(2))]),
        simple(name, Kind::Stream, move |i| vec![insn(reg(ROUND[i % ROUND.len()]))]),
    ]
}

/// All sequences; those that others build on come first.
pub fn sequences() -> Vec<Sequence> {
    let mut all: Vec<Sequence> = Vec::new();
    all.extend(both("alu", |r| alu(AluOp::Add, Width::W64, r, Operand::Imm(7))));
    all.push(simple("move", Kind::Chain, |i| vec![mov(reg(2 + (i % 2) as u8), reg(3 - (i % 2) as u8))]));
    all.push(simple("move", Kind::Stream, |i| vec![mov(reg(ROUND[i % ROUND.len()]), UNKNOWN)]));
    all.push(simple("constant", Kind::Both, |i| {
        vec![Insn::LoadImm { dst: reg(ROUND[i % ROUND.len()]), value: Imm64::Value(0x1234_5678_9abc_def0) }]
    }));
    all.extend(both("shift_by_register", |r| alu(AluOp::Lsh, Width::W64, r, Operand::Reg(UNKNOWN))));
    all.extend(both("multiply", |r| alu(AluOp::Mul, Width::W64, r, Operand::Imm(7))));
    all.extend(divisions());
    all.extend(both("swap16", |r| Insn::Endian { order: Endian::Big, bits: 16, dst: r }));
    all.extend(both("swap", |r| Insn::Endian { order: Endian::Big, bits: 64, dst: r }));
    all.extend(memory());
    all.extend(control());
    all.extend(helpers());
    all
}

/// The dividend is made large again each time: division is faster when little is left to divide.
fn divisions() -> Vec<Sequence> {
    let one = |name: &'static str, width: Width, kind: Kind| {
        let copy = move |i: usize| {
            let r = if kind == Kind::Chain { reg(2) } else { reg(ROUND[i % ROUND.len()]) };
            vec![alu(AluOp::Or, width, r, Operand::Imm(0x7fff_ff00)), alu(AluOp::Div, width, r, Operand::Imm(10))]
        };
        Sequence { with: &[("alu", 1)], ..simple(name, kind, copy) }
    };
    let widths = [("divide32", Width::W32), ("divide64", Width::W64)];
    widths.iter().flat_map(|(name, w)| [one(name, *w, Kind::Chain), one(name, *w, Kind::Stream)]).collect()
}

fn memory() -> Vec<Sequence> {
    let atomic = |fetch| Insn::Atomic { op: AtomicOp::Add, fetch, size: Size::D, base: Reg::FP, off: -8, src: reg(2) };
    // A frame pointer on the stack that points to itself.
    let walk = |i: usize| {
        let link = [mov(reg(2), Reg::FP), store(-32, Operand::Reg(Reg::FP))];
        let start = if i == 0 { link.to_vec() } else { Vec::new() };
        start.into_iter().chain([load(reg(2), reg(2), -32)]).collect()
    };
    vec![
        simple("load", Kind::Chain, walk),
        simple("load", Kind::Stream, |i| vec![load(reg(ROUND[i % ROUND.len()]), Reg::FP, -8)]),
        simple("store", Kind::Both, |_| vec![store(-8, Operand::Reg(reg(2)))]),
        simple("atomic", Kind::Both, move |_| vec![atomic(false)]),
        simple("atomic_fetch", Kind::Both, move |_| vec![atomic(true)]),
    ]
}

fn control() -> Vec<Sequence> {
    let branch =
        |cond, by| Insn::Branch { width: Width::W64, cond, dst: UNKNOWN, src: Operand::Imm(77_777), target: by };
    // Around a jump there is code that no run comes to, but the verifier thinks so.
    let jump = move |_| vec![branch(Condition::Eq, 1), Insn::Jump { target: 1, long: false }, constant(reg(2), 1)];
    let call = |n: usize| {
        let body = (0..n).map(|_| Insn::Call(Callee::Local(FuncId(1)))).collect();
        program(body, Vec::new(), Some(vec![constant(Reg::R0, 0), Insn::Exit]))
    };
    let is_call = |s: Sequence| Sequence { is_call: true, ..s };
    vec![
        simple("branch", Kind::Both, move |_| vec![branch(Condition::Eq, 0)]),
        simple("branch_taken", Kind::Both, move |_| vec![branch(Condition::Ne, 1), constant(reg(2), 1)]),
        Sequence { with: &[("branch", 1)], ..simple("jump", Kind::Both, jump) },
        is_call(Sequence { with: &[("move", 1)], build: Rc::new(call), ..simple("call", Kind::Both, |_| Vec::new()) }),
    ]
}

fn helper_call(name: &str) -> Raw {
    Insn::Call(Callee::Helper(helper::id(name).unwrap_or(-1)))
}

/// A helper without a map; `set_up` makes its arguments.
fn helper(name: &'static str, set_up: fn() -> Vec<Raw>, with: &'static [(&'static str, usize)]) -> Sequence {
    let copy = move |_| set_up().into_iter().chain([helper_call(name)]).collect();
    Sequence { with, is_call: true, ..simple(&format!("helper.{name}"), Kind::Both, copy) }
}

/// A helper on a map of that type, whose first key is 0.
fn map_helper(name: &'static str, kind: MapType) -> Sequence {
    let is_trie = kind == MapType::LPM_TRIE;
    let key_size = if is_trie { 8 } else { 4 };
    let def = MapDef {
        name: "map".into(),
        kind,
        key_size,
        value_size: 8,
        max_entries: 1024,
        flags: is_trie as u32,
        fd: None,
        initial: None,
        frozen: false,
        inner: None,
    };
    let address = |r: u8, off: i32| [mov(reg(r), Reg::FP), alu(AluOp::Add, Width::W64, reg(r), Operand::Imm(off))];
    let copy = move |_| -> Vec<Raw> {
        let map = Insn::LoadImm { dst: Reg::R1, value: Imm64::Map(MapRef::Index(0)) };
        let mut code: Vec<Raw> = [map].into_iter().chain(address(2, -8)).collect();
        if name == "map_update_elem" {
            code.extend(address(3, -24));
            code.push(constant(reg(4), 0));
        }
        code.push(helper_call(name));
        code
    };
    let build = move |n: usize| program((0..n).flat_map(copy).collect(), vec![def.clone()], None);
    Sequence {
        name: format!("helper.{name}.{}", kind.name()),
        kind: Kind::Both,
        with: &[("constant", 1), ("move", 1), ("alu", 1)],
        is_call: true,
        elements: vec![vec![(vec![0; key_size as usize], vec![0; 8])]],
        build: Rc::new(build),
    }
}

fn helpers() -> Vec<Sequence> {
    let nothing: fn() -> Vec<Raw> = Vec::new;
    let mut all = vec![
        helper("get_smp_processor_id", nothing, &[]),
        helper("get_prandom_u32", nothing, &[]),
        helper("ktime_get_ns", nothing, &[]),
        helper("ktime_get_boot_ns", nothing, &[]),
        helper("redirect", || vec![constant(Reg::R1, 1), constant(reg(2), 0)], &[("move", 2)]),
        helper(
            "csum_diff",
            || {
                let buffer = [mov(reg(3), Reg::FP), alu(AluOp::Add, Width::W64, reg(3), Operand::Imm(-24))];
                let rest = [constant(Reg::R1, 0), constant(reg(2), 0), constant(reg(4), 20), constant(reg(5), 0)];
                buffer.into_iter().chain(rest).collect()
            },
            &[("move", 5), ("alu", 1)],
        ),
        helper("xdp_adjust_head", || vec![mov(Reg::R1, reg(6)), constant(reg(2), 0)], &[("move", 2)]),
        helper("xdp_adjust_tail", || vec![mov(Reg::R1, reg(6)), constant(reg(2), 0)], &[("move", 2)]),
    ];
    let arrays = [MapType::ARRAY, MapType::PERCPU_ARRAY];
    let tables = [MapType::HASH, MapType::PERCPU_HASH, MapType::LRU_HASH, MapType::LPM_TRIE];
    all.extend(arrays.iter().chain(&tables).map(|kind| map_helper("map_lookup_elem", *kind)));
    all.extend([MapType::ARRAY, MapType::HASH, MapType::LRU_HASH].map(|kind| map_helper("map_update_elem", kind)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_grow_by_the_copy() {
        for s in sequences() {
            let slots = |n| (s.build)(n).slots();
            assert!(slots(3) > slots(2), "{}", s.name);
            assert_eq!(slots(12) - slots(11), slots(3) - slots(2), "{}", s.name);
        }
    }

    #[test]
    fn what_goes_with_a_sequence_is_measured_before() {
        let all = sequences();
        for (i, s) in all.iter().enumerate() {
            for (name, _) in s.with {
                assert!(all[..i].iter().any(|other| other.name == *name), "{} needs {name}", s.name);
            }
        }
    }
}
