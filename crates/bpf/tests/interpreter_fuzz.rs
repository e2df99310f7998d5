//! No program and no input makes the interpreter panic, and the same run twice gives the same result.

use karakoram_bpf::hook::{Hook, ProgramType};
use karakoram_bpf::insn::*;
use karakoram_bpf::interpreter::{CONTEXT_ADDRESS, Input, Interpreter, Options};
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_bpf::program::{Entry, Function, Program};

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

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn reg(&mut self) -> Reg {
        Reg::new(self.below(10) as u8).expect("below ten")
    }

    fn value(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => self.next(),
            2 => self.next() >> 32,
            3 => CONTEXT_ADDRESS + self.below(64),
            4 => u64::MAX - self.below(64),
            _ => self.below(300),
        }
    }
}

const HELPERS: u64 = 220;

fn insn(random: &mut Random, functions: u64, maps: u64) -> Insn<i32, FuncId> {
    let size = random.pick(&[Size::B, Size::H, Size::W, Size::D]);
    let (dst, src) = (random.reg(), random.reg());
    let base = random.pick(&[dst, src, Reg::R1, Reg::R6, Reg::FP, Reg::FP]);
    let off = random.pick(&[-8, -16, -64, -512, 0, 4, 8, 76, 80]);
    let function = FuncId(random.below(functions + 1) as u32);
    let map = MapRef::Index(random.below(maps + 1) as i32);
    match random.below(24) {
        0 | 1 => Insn::Alu {
            width: random.pick(&[Width::W32, Width::W64]),
            op: random.pick(&[AluOp::Add, AluOp::Sub, AluOp::SDiv, AluOp::SMod, AluOp::Lsh, AluOp::Arsh, AluOp::Mul]),
            dst,
            src: random.pick(&[Operand::Reg(src), Operand::Imm(-8), Operand::Imm(0), Operand::Imm(i32::MIN)]),
        },
        2 => Insn::Mov { width: Width::W64, dst, src: Operand::Reg(random.pick(&[src, Reg::FP, Reg::R1, Reg::R6])) },
        3 | 4 => Insn::Mov { width: Width::W64, dst, src: Operand::Imm(random.value() as i32) },
        5 => Insn::LoadImm { dst, value: Imm64::Value(random.value()) },
        6 => Insn::LoadImm { dst, value: Imm64::Map(map) },
        7 => Insn::LoadImm { dst, value: Imm64::MapValue(map, random.value() as u32) },
        8 => Insn::LoadImm { dst, value: Imm64::Function(function) },
        9 => Insn::Load { size, signed: false, dst, base, off },
        10 => Insn::Store { size, base: Reg::FP, off: -8, src: Operand::Reg(src) },
        11 => Insn::Store { size, base, off, src: Operand::Imm(random.value() as i32) },
        12 => Insn::Atomic { op: AtomicOp::Cmpxchg, fetch: true, size: Size::D, base, off, src },
        13 => Insn::LegacyLoad { size: Size::W, index: Some(src), off: random.value() as i32 },
        14 => Insn::Branch {
            width: Width::W64,
            cond: Condition::SGt,
            dst,
            src: Operand::Imm(3),
            target: random.below(5) as i32 - 2,
        },
        15 => Insn::MayGoto { target: random.below(3) as i32 },
        16 => Insn::Call(Callee::Local(function)),
        17 => Insn::Call(Callee::Kfunc { id: random.below(3) as i32, off: 0 }),
        _ => Insn::Call(Callee::Helper(random.below(HELPERS) as i32)),
    }
}

/// Arguments that a helper often accepts: map, stack, stack, small numbers.
fn arguments(random: &mut Random, maps: u64, code: &mut Vec<Insn<i32, FuncId>>) {
    for n in 1..=5 {
        let dst = Reg::new(n).expect("an argument");
        match random.below(6) {
            0 => code.push(Insn::LoadImm { dst, value: Imm64::Map(MapRef::Index(random.below(maps) as i32)) }),
            1 | 2 => {
                code.push(Insn::Mov { width: Width::W64, dst, src: Operand::Reg(Reg::FP) });
                let down = -(random.below(500) as i32);
                code.push(Insn::Alu { width: Width::W64, op: AluOp::Add, dst, src: Operand::Imm(down) });
            }
            3 => code.push(Insn::Mov { width: Width::W64, dst, src: Operand::Reg(Reg::R6) }),
            4 => code.push(Insn::LoadImm { dst, value: Imm64::Function(FuncId(1)) }),
            _ => code.push(Insn::Mov { width: Width::W64, dst, src: Operand::Imm(random.value() as i32) }),
        }
    }
    code.push(Insn::Call(Callee::Helper(random.below(HELPERS) as i32)));
}

fn function(random: &mut Random, name: &str, entry: Entry, functions: u64, maps: u64) -> Function {
    let mut code = vec![Insn::Mov { width: Width::W64, dst: Reg::R6, src: Operand::Reg(Reg::R1) }];
    for _ in 0..random.below(12) + 2 {
        match random.below(3) {
            0 => arguments(random, maps, &mut code),
            _ => code.push(insn(random, functions, maps)),
        }
    }
    code.push(Insn::Exit);
    let last = code.len() as i32;
    // Jumps that leave the function or hit the middle of a constant are taken out, others kept.
    loop {
        match Function::from_raw(name, "", entry.clone(), &code, 0) {
            Ok(function) => return function,
            Err(_) => {
                for (i, insn) in code.iter_mut().enumerate() {
                    if insn.target().is_some() {
                        *insn = insn.map(|_| if i as i32 + 1 < last { 0 } else { -1 }, |f| f);
                    }
                }
            }
        }
    }
}

fn program(random: &mut Random) -> Program {
    let kind = ProgramType(random.below(33) as u32);
    let hook = random.pick(&[Hook::Kernel(kind), Hook::Kernel(ProgramType::XDP), Hook::Buffer(40), Hook::Constant]);
    let maps: Vec<MapDef> = (0..35)
        .map(|kind| MapDef {
            name: format!("m{kind}"),
            kind: MapType(kind),
            key_size: random.pick(&[0, 4, 8, 20]),
            value_size: random.pick(&[0, 1, 4, 8, 100, u32::MAX]),
            max_entries: random.pick(&[0, 1, 3, 4096, u32::MAX]),
            flags: 0,
            fd: Some(kind as i32),
            initial: Some(vec![1, 2, 3]),
            frozen: random.below(8) == 0,
            inner: None,
        })
        .collect();
    let main = function(random, "main", Entry::Hook(hook), 2, 35);
    let sub = function(random, "sub", Entry::Subprogram { global: false }, 2, 35);
    Program { functions: vec![main, sub], maps, ..Program::default() }
}

#[test]
fn nothing_panics_and_every_run_is_repeatable() {
    let mut random = Random(7);
    let (mut ended, rounds) = (0, 8_000);
    for round in 0..rounds {
        let program = program(&mut random);
        let mut options = Options {
            poison: (random.below(2) == 0).then_some(3),
            model_unknown_calls: random.below(4) != 0,
            kernel_loads: random.below(4) != 0,
            clock_step_ns: random.value(),
            cpus: random.below(3) as u32,
            ..Options::default()
        };
        options.limits.instructions = 2_000;
        options.limits.map_bytes = 1 << 20;
        options.limits.record_bytes = 1 << 16;
        options.limits.event_bytes = 1 << 16;
        let input = Input {
            context: vec![random.next() as u8; random.below(40) as usize],
            packet: (0..random.below(80)).map(|_| random.next() as u8).collect(),
            metadata: vec![1; random.pick(&[0, 0, 4, 300])],
            arguments: None,
        };
        let mut interpreter = Interpreter::new(&program, options);
        let _ = interpreter.state.maps[3].set(&[0; 4], &[1, 0, 0, 0]);
        interpreter.state.clock_ns = random.value();
        let mut again = interpreter.clone();
        let first = interpreter.run(FuncId(0), input.clone());
        ended += first.is_ok() as u32;
        let second = again.run(FuncId(0), input.clone());
        assert_eq!(first, second, "round {round}");
        assert_eq!(interpreter.state.difference(&again.state), None, "round {round}");
        if let Err(fault) = &first {
            assert!(!fault.to_string().is_empty());
        }
        let _ = interpreter.run(FuncId(1), input);
    }
    assert!(ended > rounds / 20, "only {ended} of {rounds} runs came to their end");
}
