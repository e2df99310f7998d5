//! Trial runs on a few numbers that the facts allow, to see which instructions certainly change
//! something, without asking the prover.

use crate::context::Context;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use karakoram_bpf::semantics::{self, Flow, Machine};
use karakoram_proof::facts::{Fact, Kind, Root, State};
use karakoram_proof::range::Range;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Runs for each block.
const RUNS: u64 = 6;

/// For each position, whether some run shows that the instruction changes a register that matters
/// afterwards, or memory. Where nothing is known, `false`.
pub fn effective(context: &Context) -> Vec<bool> {
    let mut changes = vec![false; context.len()];
    for block in context.facts.flow.blocks.iter().filter(|b| context.facts.is_reachable(b.start)) {
        for run in 0..RUNS {
            let mut trial: Option<Trial> = None;
            for p in block.clone() {
                if trial.is_none() {
                    trial = context.state(p).and_then(|s| Trial::start(s, run, p as u64));
                }
                let Some(t) = &mut trial else { continue };
                t.changed = RegSet::EMPTY;
                t.stored = false;
                let goes_on = !context.is_patched(p) && matches!(semantics::step(t, context.insn(p)), Ok(Flow::Next));
                if !goes_on {
                    trial = None;
                    continue;
                }
                let live = context.live_after(p);
                changes[p] |= t.stored || t.changed.iter().any(|r| live.contains(r));
            }
        }
    }
    changes
}

/// The instruction is not understood here.
struct Fault;

struct Trial {
    seed: u64,
    regs: [Option<u64>; Reg::COUNT],
    memory: HashMap<u64, u8>,
    changed: RegSet,
    stored: bool,
}

const FRAME: u64 = 0xffff_c900_0000_8000;

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Trial {
    /// Numbers for all locations; `None` when they do not fit together.
    fn start(state: &State, run: u64, place: u64) -> Option<Trial> {
        let seed = mix(run << 32 ^ place);
        let mut trial =
            Trial { seed, regs: [None; Reg::COUNT], memory: HashMap::new(), changed: RegSet::EMPTY, stored: false };
        let mut roots: HashMap<Root, u64> = HashMap::from([(Root::Frame, FRAME)]);
        let mut draws = seed;
        let mut number = |fact: &Fact| {
            draws = mix(draws);
            let is_number = matches!(fact.kind, Kind::Scalar | Kind::Unknown);
            let fits = |v: u64| !is_number || fact.range.contains(v);
            if let Some(v) = fact.value() {
                return Some(v);
            }
            let fresh = if is_number { within(&fact.range, run, draws) } else { draws & 0x7fff_ffff_fff8 };
            let Some(root) = fact.root else { return Some(fresh) };
            let value = roots.entry(root).or_insert(fresh.wrapping_sub(fact.delta)).wrapping_add(fact.delta);
            fits(value).then_some(value)
        };
        for r in Reg::all() {
            let fact = &state.regs[r.index()];
            if fact.kind != Kind::Uninit {
                trial.regs[r.index()] = Some(number(fact)?);
            }
        }
        for ((offset, size), fact) in state.stack.iter() {
            if fact.kind != Kind::Uninit {
                let value = number(fact)?;
                trial.write(FRAME.wrapping_add(*offset as i64 as u64), *size as u32, value);
            }
        }
        Some(trial)
    }

    fn read(&self, address: u64, bytes: u32) -> u64 {
        let byte = |a: u64| self.memory.get(&a).copied().unwrap_or_else(|| mix(a ^ self.seed) as u8);
        (0..bytes as u64).fold(0, |all, i| all | (byte(address.wrapping_add(i)) as u64) << (8 * i))
    }

    fn write(&mut self, address: u64, bytes: u32, value: u64) {
        for i in 0..bytes as u64 {
            self.memory.insert(address.wrapping_add(i), (value >> (8 * i)) as u8);
        }
    }
}

/// A member of a range: in the first runs its ends.
fn within(range: &Range, run: u64, draw: u64) -> u64 {
    let width = range.max.wrapping_sub(range.min).wrapping_add(1);
    let inside = if width == 0 { draw } else { range.min.wrapping_add(draw % width) };
    let fixed = inside & !range.zeros | range.ones;
    match run {
        0 => range.min,
        1 => range.max,
        _ if range.contains(fixed) => fixed,
        _ if range.contains(inside) => inside,
        _ => range.min,
    }
}

impl Machine for Trial {
    type Value = u64;
    type Cond = bool;
    type Error = Fault;

    fn constant(&mut self, value: u64) -> u64 {
        value
    }
    fn reg(&mut self, reg: Reg) -> Result<u64, Fault> {
        self.regs[reg.index()].ok_or(Fault)
    }
    fn set_reg(&mut self, reg: Reg, value: u64) -> Result<(), Fault> {
        if self.regs[reg.index()] != Some(value) {
            self.changed = self.changed.with(reg);
        }
        self.regs[reg.index()] = Some(value);
        Ok(())
    }
    fn alu(&mut self, width: Width, op: AluOp, a: &u64, b: &u64) -> Result<u64, Fault> {
        Ok(semantics::concrete_alu(width, op, *a, *b))
    }
    fn extend(&mut self, value: &u64, bits: u32, signed: bool) -> u64 {
        semantics::concrete_extend(*value, bits, signed)
    }
    fn swap_bytes(&mut self, value: &u64, bits: u32) -> u64 {
        semantics::concrete_swap(*value, bits)
    }
    fn compare(&mut self, width: Width, cond: Condition, a: &u64, b: &u64) -> bool {
        semantics::concrete_compare(width, cond, *a, *b)
    }
    fn load_imm(&mut self, value: Imm64<FuncId>) -> Result<u64, Fault> {
        match value {
            Imm64::Value(v) => Ok(v),
            // The same number for the same object.
            other => {
                let mut h = DefaultHasher::new();
                other.hash(&mut h);
                Ok(mix(h.finish()) & 0x7fff_ffff_fff8)
            }
        }
    }
    fn load(&mut self, address: &u64, size: Size) -> Result<u64, Fault> {
        Ok(self.read(*address, size.bytes()))
    }
    fn store(&mut self, address: &u64, size: Size, value: &u64) -> Result<(), Fault> {
        self.stored |= self.read(*address, size.bytes()) != semantics::concrete_extend(*value, size.bits(), false);
        self.write(*address, size.bytes(), *value);
        Ok(())
    }
    fn atomic(&mut self, _: AtomicOp, _: &u64, _: Size, _: &u64, _: Option<&u64>) -> Result<u64, Fault> {
        Err(Fault)
    }
    fn load_acquire(&mut self, _: &u64, _: Size) -> Result<u64, Fault> {
        Err(Fault)
    }
    fn store_release(&mut self, _: &u64, _: Size, _: &u64) -> Result<(), Fault> {
        Err(Fault)
    }
    fn legacy_load(&mut self, _: &u64, _: Size) -> Result<Option<u64>, Fault> {
        Err(Fault)
    }
    fn cast_address_space(&mut self, _: &u64, _: u16, _: u16) -> Result<u64, Fault> {
        Err(Fault)
    }
}
