//! Facts about the semantics that the interpreter must show: arithmetic against wider arithmetic,
//! and that [`effects::of`] tells the truth about what an instruction reads and writes.

use karakoram_bpf::effects;
use karakoram_bpf::hook::Hook;
use karakoram_bpf::insn::*;
use karakoram_bpf::interpreter::{CONTEXT_ADDRESS, Input, Interpreter, Options, Step};
use karakoram_bpf::program::{Entry, Function, Program};
use karakoram_bpf::semantics::{concrete_alu, concrete_compare, concrete_extend, concrete_swap};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Numbers at the edges more often than others.
    fn value(&mut self) -> u64 {
        let edges =
            [0, 1, 2, 7, 31, 32, 63, 64, 0x7f, 0x80, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63, !0, !0 - 1];
        match self.below(4) {
            0 => edges[self.below(edges.len() as u64) as usize],
            1 => self.next() >> self.below(64),
            2 => (edges[self.below(edges.len() as u64) as usize]).wrapping_neg(),
            _ => self.next(),
        }
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn reg(&mut self) -> Reg {
        Reg::new(self.below(10) as u8).expect("below ten")
    }
}

const OPS: [AluOp; 13] = [
    AluOp::Add,
    AluOp::Sub,
    AluOp::Mul,
    AluOp::Div,
    AluOp::SDiv,
    AluOp::Mod,
    AluOp::SMod,
    AluOp::Or,
    AluOp::And,
    AluOp::Xor,
    AluOp::Lsh,
    AluOp::Rsh,
    AluOp::Arsh,
];

const CONDITIONS: [Condition; 11] = [
    Condition::Eq,
    Condition::Ne,
    Condition::Gt,
    Condition::Ge,
    Condition::Lt,
    Condition::Le,
    Condition::Set,
    Condition::SGt,
    Condition::SGe,
    Condition::SLt,
    Condition::SLe,
];

/// The same in 128 bits, where nothing overflows.
fn wide_alu(width: Width, op: AluOp, a: u64, b: u64) -> u64 {
    let bits = width.bits();
    let modulus = 1i128 << bits;
    let unsigned = |v: u64| v as i128 & (modulus - 1);
    let signed = |v: u64| if unsigned(v) >= modulus / 2 { unsigned(v) - modulus } else { unsigned(v) };
    let (ua, ub, sa, sb) = (unsigned(a), unsigned(b), signed(a), signed(b));
    let shift = ub & (bits as i128 - 1);
    let exact = match op {
        AluOp::Add => ua + ub,
        AluOp::Sub => ua - ub,
        AluOp::Mul => (ua as u128).wrapping_mul(ub as u128) as i128,
        AluOp::Div => {
            if ub == 0 {
                0
            } else {
                ua / ub
            }
        }
        AluOp::Mod => {
            if ub == 0 {
                ua
            } else {
                ua % ub
            }
        }
        AluOp::SDiv => {
            if sb == 0 {
                0
            } else {
                sa / sb
            }
        }
        AluOp::SMod => {
            if sb == 0 {
                sa
            } else {
                sa % sb
            }
        }
        AluOp::Or => ua | ub,
        AluOp::And => ua & ub,
        AluOp::Xor => ua ^ ub,
        AluOp::Lsh => ((ua as u128) << shift) as i128,
        AluOp::Rsh => ua >> shift,
        AluOp::Arsh => sa >> shift,
    };
    (exact & (modulus - 1)) as u64
}

#[test]
fn arithmetic_agrees_with_wider_arithmetic() {
    let mut random = Random(1);
    for _ in 0..300_000 {
        let (a, b) = (random.value(), random.value());
        let (width, op) = (random.pick(&[Width::W32, Width::W64]), random.pick(&OPS));
        assert_eq!(concrete_alu(width, op, a, b), wide_alu(width, op, a, b), "{width:?} {op:?} {a:#x} {b:#x}");
    }
}

#[test]
fn comparisons_agree_with_subtraction_in_wider_arithmetic() {
    let mut random = Random(2);
    for _ in 0..300_000 {
        let (a, b) = (random.value(), random.value());
        let (width, cond) = (random.pick(&[Width::W32, Width::W64]), random.pick(&CONDITIONS));
        let bits = width.bits();
        let unsigned = |v: u64| v as i128 & ((1i128 << bits) - 1);
        let signed = |v: u64| (unsigned(v) << (128 - bits)) >> (128 - bits);
        let (u, s) = (unsigned(a) - unsigned(b), signed(a) - signed(b));
        let expected = match cond {
            Condition::Eq => u == 0,
            Condition::Ne => u != 0,
            Condition::Gt => u > 0,
            Condition::Ge => u >= 0,
            Condition::Lt => u < 0,
            Condition::Le => u <= 0,
            Condition::Set => unsigned(a) & unsigned(b) != 0,
            Condition::SGt => s > 0,
            Condition::SGe => s >= 0,
            Condition::SLt => s < 0,
            Condition::SLe => s <= 0,
        };
        assert_eq!(concrete_compare(width, cond, a, b), expected, "{width:?} {cond:?} {a:#x} {b:#x}");
        assert_eq!(concrete_compare(width, cond.swapped(), b, a), expected, "swapped {cond:?}");
        if let Some(negated) = cond.negated() {
            assert_eq!(concrete_compare(width, negated, a, b), !expected, "negated {cond:?}");
        }
    }
}

#[test]
fn extensions_and_swaps_agree_with_bytes() {
    let mut random = Random(3);
    for _ in 0..100_000 {
        let v = random.value();
        let bits = random.below(64) as u32 + 1;
        let low = v as u128 & ((1u128 << bits) - 1);
        assert_eq!(concrete_extend(v, bits, false) as u128, low);
        let signed = if low >> (bits - 1) & 1 == 1 { low as i128 - (1i128 << bits) } else { low as i128 };
        assert_eq!(concrete_extend(v, bits, true) as i64 as i128, signed);
        let bits = random.pick(&[16, 32, 64]);
        let bytes = v.to_le_bytes();
        let swapped = bytes[..bits as usize / 8].iter().fold(0u64, |s, b| s << 8 | *b as u64);
        assert_eq!(concrete_swap(v, bits), swapped);
        assert_eq!(concrete_swap(swapped, bits), concrete_extend(v, bits, false));
    }
}

/// An instruction that neither faults nor leaves the function; memory is reached through `r1`, `r6`
/// and `r10`, which hold valid addresses.
fn straight_line(random: &mut Random) -> Insn {
    let width = random.pick(&[Width::W32, Width::W64]);
    let size = random.pick(&[Size::B, Size::H, Size::W, Size::D]);
    let word = random.pick(&[Size::W, Size::D]);
    let (dst, src) = (random.reg(), random.reg());
    let operand = if random.below(2) == 0 { Operand::Reg(src) } else { Operand::Imm(random.value() as i32) };
    let base = random.pick(&[Reg::R1, Reg::R6, Reg::FP]);
    let off = if base == Reg::FP { -64 + 8 * random.below(8) as i16 } else { 8 * random.below(4) as i16 };
    match random.below(14) {
        0 | 1 => Insn::Alu { width, op: random.pick(&OPS), dst, src: operand },
        2 => Insn::Mov { width, dst, src: operand },
        3 => Insn::MovSx { width, bits: random.pick(&[8, 16]), dst, src },
        4 => Insn::Neg { width, dst },
        5 => Insn::Endian {
            order: random.pick(&[Endian::Little, Endian::Big, Endian::Swap]),
            bits: random.pick(&[16, 32, 64]),
            dst,
        },
        6 => Insn::LoadImm { dst, value: Imm64::Value(random.value()) },
        7 => Insn::Load { size, signed: false, dst, base, off },
        8 => Insn::Load { size: random.pick(&[Size::B, Size::H, Size::W]), signed: true, dst, base, off },
        9 => Insn::Store { size, base, off, src: operand },
        10 => {
            let op = random.pick(&[
                AtomicOp::Add,
                AtomicOp::Or,
                AtomicOp::And,
                AtomicOp::Xor,
                AtomicOp::Xchg,
                AtomicOp::Cmpxchg,
            ]);
            let fetch = matches!(op, AtomicOp::Xchg | AtomicOp::Cmpxchg) || random.below(2) == 0;
            Insn::Atomic { op, fetch, size: word, base, off, src }
        }
        11 => Insn::LoadAcquire { size, dst, base, off },
        12 => Insn::StoreRelease { size, base, off, src },
        _ => {
            let index = (random.below(2) == 0).then_some(Reg::new(7).expect("a register"));
            Insn::LegacyLoad { size: random.pick(&[Size::B, Size::H, Size::W]), index, off: random.below(8) as i32 }
        }
    }
}

/// Runs one instruction with those registers; gives the registers and the buffer afterwards.
fn run_one(insn: Insn, registers: [u64; 10], buffer: &[u8], poison: u64) -> ([u64; 11], Vec<u8>) {
    let load =
        |(n, v): (usize, &u64)| Insn::LoadImm { dst: Reg::new(n as u8).expect("below ten"), value: Imm64::Value(*v) };
    let mut raw: Vec<Insn<i32, FuncId>> = Vec::new();
    // The same stack in every run.
    for word in 0..8 {
        raw.push(Insn::Store {
            size: Size::D,
            base: Reg::FP,
            off: -8 - 8 * word,
            src: Operand::Imm(word as i32 * 0x1111),
        });
    }
    raw.extend(registers.iter().enumerate().map(load));
    raw.push(insn.map(|_| 0, |f| f));
    raw.push(Insn::Exit);
    let hook = Hook::Buffer(buffer.len() as u32);
    let function = Function::from_raw("main", "", Entry::Hook(hook), &raw, 0).expect("straight-line code");
    let program = Program { functions: vec![function], ..Program::default() };
    let mut last = [0; 11];
    let mut observer = |step: &Step| {
        last = *step.registers;
        true
    };
    let options = Options { poison: Some(poison), ..Options::default() };
    let input = Input { context: buffer.to_vec(), ..Input::default() };
    let outcome = Interpreter::new(&program, options)
        .run_observed(FuncId(0), input, &mut observer)
        .unwrap_or_else(|fault| panic!("{insn:?}: {fault}"));
    (last, outcome.context)
}

#[test]
fn effects_name_all_registers_that_count() {
    let mut random = Random(4);
    for _ in 0..20_000 {
        let insn = straight_line(&mut random);
        let effects = effects::of(&insn);
        let mut registers = [0; 10];
        registers.fill_with(|| random.value());
        (registers[1], registers[6]) = (CONTEXT_ADDRESS, CONTEXT_ADDRESS + 8);
        registers[7] = random.below(8);
        let buffer: Vec<u8> = (0..64).map(|_| random.next() as u8).collect();
        let (after, memory) = run_one(insn, registers, &buffer, 1);
        for reg in Reg::all().filter(|r| *r != Reg::FP) {
            let before = registers[reg.index()];
            assert!(
                effects.writes.contains(reg) || after[reg.index()] == before,
                "{insn:?} changes {reg}, which its effects do not name"
            );
        }
        assert!(effects.writes_memory || memory == buffer, "{insn:?} writes memory, which its effects do not say");

        // Other values in registers it does not read, and another world outside: the same result.
        let mut others = registers;
        for reg in Reg::all().filter(|r| *r != Reg::FP && !effects.reads.contains(*r)) {
            others[reg.index()] = random.value();
        }
        let (again, same_memory) = run_one(insn, others, &buffer, 1);
        for reg in effects.writes.iter() {
            assert_eq!(again[reg.index()], after[reg.index()], "{insn:?}: {reg} depends on a register not named");
        }
        assert_eq!(same_memory, memory, "{insn:?}: memory depends on a register not named");

        // If it is not said to read memory, other memory makes no difference.
        if !effects.reads_memory {
            let other: Vec<u8> = (0..64).map(|_| random.next() as u8).collect();
            let (again, _) = run_one(insn, registers, &other, 1);
            assert_eq!(again, after, "{insn:?} reads memory, which its effects do not say");
        }
    }
}
