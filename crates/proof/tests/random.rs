//! Random programs against the interpreter: whatever the prover accepts must run the same, and no
//! run may do what the facts rule out. Seeds are fixed; `KARA_SEED` and `KARA_ROUNDS` look further.

use karakoram_bpf::hook::Hook;
use karakoram_bpf::insn::*;
use karakoram_bpf::interpreter::{Input, Interpreter, Kind as Object, Options, Step};
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_bpf::program::{Entry, Function, Node, Program};
use karakoram_bpf::text::asm;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Proven, Prover};
use karakoram_proof::facts::{Facts, Kind, Location, Root};
use karakoram_proof::region::Region;
use karakoram_proof::rewrite::Rewrite;
use std::collections::HashMap;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn reg(n: usize) -> Reg {
    Reg::new(n as u8).expect("0 to 10")
}

/// Registers that random code computes with; r6 is the buffer, r7 a map value, r9 a pointer with an
/// unknown offset into the buffer.
const WORK: [usize; 5] = [0, 2, 3, 4, 8];
const BUFFER: u32 = 64;

fn operand(r: &mut Random) -> Operand {
    if r.one_in(2) {
        Operand::Reg(reg(r.pick(&WORK)))
    } else {
        Operand::Imm(r.pick(&[0, 1, 2, 7, 8, 16, 255, 256, -1, 65535, 31, 32]))
    }
}

fn place(r: &mut Random, size: Size) -> (Reg, i16) {
    let align = size.bytes() as usize;
    match r.below(8) {
        0..=3 => (Reg::FP, -((1 + r.below(16 / align)) as i16 * align as i16)),
        4 | 5 => (reg(6), r.below(17) as i16),
        6 => (reg(7), (r.below(16 / align) * align) as i16),
        _ => (reg(9), r.below(9) as i16),
    }
}

/// One random instruction; jumps go to `targets`.
fn insn(r: &mut Random, targets: &[InsnId]) -> Insn {
    use AluOp::*;
    use Condition::*;
    let width = if r.one_in(2) { Width::W32 } else { Width::W64 };
    let dst = reg(r.pick(&WORK));
    let size = r.pick(&[Size::B, Size::H, Size::W, Size::D]);
    match r.below(16) {
        0..=3 => {
            let op = r.pick(&[Add, Sub, Or, And, Xor, Lsh, Rsh, Arsh, Mul, Add, And, Or, Div, Mod, SDiv, SMod]);
            let src = match op {
                Lsh | Rsh | Arsh => Operand::Imm(r.pick(&[1, 8, 16, 31])),
                Div | Mod | SDiv | SMod => Operand::Imm(r.pick(&[1, 2, 3, 8, 10, -1])),
                _ => operand(r),
            };
            Insn::Alu { width, op, dst, src }
        }
        4..=6 => Insn::Mov { width, dst, src: operand(r) },
        7 => Insn::MovSx { width, bits: r.pick(&[8, 16]), dst, src: reg(r.pick(&WORK)) },
        8 => Insn::Endian {
            order: r.pick(&[Endian::Big, Endian::Swap, Endian::Little]),
            bits: r.pick(&[16, 32, 64]),
            dst,
        },
        9 | 10 => {
            let (base, off) = place(r, size);
            Insn::Load { size, signed: size != Size::D && r.one_in(6), dst, base, off }
        }
        11..=13 => {
            let (base, off) = place(r, size);
            Insn::Store { size, base, off, src: operand(r) }
        }
        14 if !targets.is_empty() => {
            let cond = r.pick(&[Eq, Ne, Gt, Ge, Lt, Le, Set, SGt, SGe, SLt, SLe]);
            Insn::Branch { width, cond, dst, src: operand(r), target: targets[r.below(targets.len())] }
        }
        15 if r.one_in(3) => Insn::Atomic {
            op: r.pick(&[AtomicOp::Add, AtomicOp::Xor]),
            fetch: r.one_in(2),
            size: Size::D,
            base: reg(7),
            off: 8,
            src: dst,
        },
        _ => Insn::Neg { width, dst },
    }
}

/// A prologue that defines everything, random code with forward jumps, and an epilogue that looks
/// at a few registers.
fn program(r: &mut Random) -> (Program, std::ops::Range<usize>) {
    let prologue = asm::parse(
        ".map m type=array key=4 value=16 entries=2 fd=4
         .hook buffer=64
         r6 = r1
         *(u64 *)(r10 - 8) = 1
         *(u64 *)(r10 - 16) = 2
         *(u32 *)(r10 - 20) = 1
         r2 = r10
         r2 += -20
         r1 = map[m] ll
         call bpf_map_lookup_elem
         if r0 == 0 goto out
         r7 = r0
         r9 = *(u8 *)(r6 + 40)
         r9 &= 15
         r9 += r6
         r0 = *(u64 *)(r6 + 0)
         r2 = *(u32 *)(r6 + 8)
         r3 = *(u8 *)(r6 + 12)
         r4 = *(u16 *)(r6 + 14)
         r8 = 5
         out:
         exit",
    )
    .expect("parses");
    let mut nodes = prologue.functions[0].nodes.clone();
    let exit = nodes.pop().expect("exit");
    let (from, count) = (nodes.len(), 4 + r.below(18));
    for i in 0..count {
        let later: Vec<InsnId> = (i + 1..=count).map(|k| InsnId((100 + k) as u32)).collect();
        nodes.push(Node { id: InsnId((100 + i) as u32), insn: insn(r, &later), patch: None });
    }
    let tail = [
        Insn::Alu { width: Width::W64, op: AluOp::Xor, dst: Reg::R0, src: Operand::Reg(reg(r.pick(&WORK))) },
        Insn::Load { size: Size::W, signed: false, dst: reg(2), base: Reg::FP, off: r.pick(&[-4, -8, -12, -16]) },
        Insn::Alu { width: Width::W64, op: AluOp::Add, dst: Reg::R0, src: Operand::Reg(reg(2)) },
    ];
    for (i, insn) in tail.into_iter().enumerate() {
        nodes.push(Node { id: InsnId((100 + count + i) as u32), insn, patch: None });
    }
    nodes.push(exit);
    let maps = vec![MapDef {
        name: "m".into(),
        kind: MapType::ARRAY,
        key_size: 4,
        value_size: 16,
        max_entries: 2,
        flags: 0,
        fd: Some(4),
        initial: None,
        frozen: false,
        inner: None,
    }];
    let function =
        Function { name: "main".into(), section: String::new(), entry: Entry::Hook(Hook::Buffer(BUFFER)), nodes };
    (Program { functions: vec![function], maps, ..Program::default() }, from..from + count)
}

/// A random change of the code in a window: mostly deletions and small alterations.
fn change(r: &mut Random, original: &[Node], fresh: u32) -> Vec<Node> {
    let mut nodes = original.to_vec();
    for k in 0..1 + r.below(3) {
        let at = r.below(nodes.len().max(1));
        let new = Node { id: InsnId(fresh + k as u32), insn: insn(r, &[]), patch: None };
        match r.below(7) {
            _ if nodes.is_empty() => nodes.push(new),
            0..=2 => {
                nodes.remove(at);
            }
            3 => nodes.insert(at, new),
            4 => nodes[at].insn = new.insn,
            5 if at + 1 < nodes.len() => nodes.swap(at, at + 1),
            _ => {
                let src = operand(r);
                match &mut nodes[at].insn {
                    Insn::Alu { src: s, op, .. }
                        if !matches!(
                            op,
                            AluOp::Lsh | AluOp::Rsh | AluOp::Arsh | AluOp::Div | AluOp::Mod | AluOp::SDiv | AluOp::SMod
                        ) =>
                    {
                        *s = src
                    }
                    Insn::Mov { src: s, width, .. } => {
                        *s = src;
                        *width = if r.one_in(2) { Width::W32 } else { Width::W64 };
                    }
                    Insn::Store { src: s, .. } | Insn::Branch { src: s, .. } => *s = src,
                    Insn::Load { size, off, .. } => {
                        (*size, *off) = (r.pick(&[Size::B, Size::H, Size::W, Size::D]), *off & !7)
                    }
                    _ => {}
                }
            }
        }
    }
    nodes
}

fn inputs(r: &mut Random) -> Vec<Input> {
    (0..24)
        .map(|_| {
            let small = r.one_in(2);
            let packet =
                (0..BUFFER).map(|_| if small { r.pick(&[0u8, 1, 2, 8, 16, 255]) } else { r.next() as u8 }).collect();
            Input { context: packet, ..Input::default() }
        })
        .collect()
}

fn run(program: &Program, input: &Input, poison: u64) -> Result<String, String> {
    let mut interpreter = Interpreter::new(program, Options { poison: Some(poison), ..Options::default() });
    let outcome = interpreter.run(FuncId(0), input.clone()).map_err(|f| f.to_string())?;
    // Helper calls are compared through what they leave behind.
    Ok(format!("{:#x} {:?} {:?}", outcome.value, outcome.context, interpreter.state.maps))
}

#[test]
fn accepted_rewrites_run_the_same() {
    let mut r = Random(environment("KARA_SEED", 0x1bad_b002));
    let (mut accepted, mut judged) = (0, 0);
    for round in 0..environment("KARA_ROUNDS", 150) {
        let (p, body) = program(&mut r);
        let prover = Prover::new(&p, ProverOptions::default());
        let facts = prover.facts(&p, FuncId(0));
        let inputs = inputs(&mut r);
        for _ in 0..30 {
            let start = body.start + r.below(body.len());
            let end = (start + 1 + r.below(8)).min(body.end + 2);
            let nodes = change(&mut r, &p.functions[0].nodes[start..end], 1000);
            if nodes == p.functions[0].nodes[start..end] {
                continue;
            }
            let rewrite = Rewrite::of_range(FuncId(0), start..end, nodes, "random");
            judged += 1;
            let mut proven = Proven::input(p.clone());
            let verdict = prover.apply(&mut proven, FuncId(0), &facts, vec![rewrite.clone()], &mut || true);
            if !matches!(verdict[..], [Some(Ok(_))]) {
                continue;
            }
            accepted += 1;
            for input in &inputs {
                let (a, b) = (run(&p, input, 1), run(proven.program(), input, 2));
                let Ok(a) = a else { continue };
                assert_eq!(
                    Ok(a),
                    b,
                    "round {round}: proven, but different on {:?}\n{}\n--- window {start}..{end} becomes\n{}",
                    input.context,
                    asm::print(&p),
                    asm::print(proven.program())
                );
            }
        }
    }
    println!("{accepted} of {judged} random rewrites were proven");
    assert!(accepted > 100, "only {accepted} of {judged} were accepted: the test does not test much");
}

/// What the interpreter shows at one step against the facts at that position.
fn observe(facts: &Facts, step: &Step) -> Result<(), String> {
    let Some(state) = &facts.before[step.position] else {
        return Err("the facts say that this is never reached".to_string());
    };
    let mut roots: HashMap<Root, u64> = HashMap::new();
    for (location, fact) in state.locations() {
        let Location::Reg(reg) = location else { continue };
        let value = step.register(reg);
        // Data may look like an address by chance; it hardly looks like one of a live object.
        let region = step.classify(value).filter(|_| step.memory.peek(value, 1).is_some()).map(|r| r.kind);
        let fits = match fact.kind {
            Kind::Uninit => continue,
            Kind::Scalar => fact.range.contains(value) && region != Some(Object::Stack),
            Kind::Unknown => fact.range.contains(value),
            Kind::Map(_) => true,
            Kind::Pointer { nullable: true, .. } if value == 0 => true,
            Kind::Pointer { region: Region::Stack, .. } => matches!(region, Some(Object::Stack) | None),
            Kind::Pointer { region: Region::Packet, .. } => {
                matches!(region, Some(Object::Packet | Object::Context) | None)
            }
            Kind::Pointer { region: Region::MapValue(_) | Region::SomeMapValue, .. } => {
                matches!(region, Some(Object::MapValue) | None)
            }
            Kind::Pointer { .. } => true,
        };
        if !fits {
            return Err(format!("{reg} = {value:#x} ({region:?}), which {fact:?} rules out"));
        }
        if let Some(root) = fact.root {
            let base = value.wrapping_sub(fact.delta);
            if *roots.entry(root).or_insert(base) != base {
                return Err(format!("{reg} = {value:#x} contradicts another value related to {root:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn no_run_does_what_facts_rule_out() {
    let mut r = Random(environment("KARA_SEED", 0x5eed_0001));
    for _ in 0..environment("KARA_ROUNDS", 150) {
        let (p, _) = program(&mut r);
        let prover = Prover::new(&p, ProverOptions::default());
        let facts = prover.facts(&p, FuncId(0));
        for input in inputs(&mut r) {
            let mut problem = None;
            let mut interpreter = Interpreter::new(&p, Options { poison: Some(r.next()), ..Options::default() });
            let mut watch = |step: &Step| {
                problem = observe(&facts, step).err().map(|why| format!("at position {}: {why}", step.position));
                problem.is_none()
            };
            let _ = interpreter.run_observed(FuncId(0), input, &mut watch);
            if let Some(problem) = problem {
                panic!("{problem}\n{}", asm::print(&p));
            }
        }
    }
}
