//! Trial runs on a few numbers that the facts allow, to see which instructions certainly change
//! something, without asking the prover.

use crate::context::Context;
use crate::search::case::Fields;
use crate::search::machine::{Concrete, Fault, Led, Memory, Registers, step};
use crate::search::random::{Random, mix};
use karakoram_bpf::effects::{self, RegSet};
use karakoram_bpf::insn::*;
use karakoram_proof::facts::{Fact, Kind, Root, State};
use karakoram_proof::range::Range;
use std::collections::HashMap;

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
                let before = t.registers;
                t.memory.is_changed = false;
                let goes_on = !context.is_patched(p) && t.step(context.insn(p));
                if !goes_on {
                    trial = None;
                    continue;
                }
                let after = &t.registers;
                let is_new =
                    |r: Reg| before.values[r.index()] != after.values[r.index()] || !before.defined.contains(r);
                let written = effects::of(context.insn(p)).writes;
                let live = context.live_after(p);
                changes[p] |= t.memory.is_changed || written.iter().any(|r| live.contains(r) && is_new(r));
            }
        }
    }
    changes
}

struct Trial {
    registers: Registers,
    memory: Bytes,
}

/// Memory that holds something everywhere.
struct Bytes {
    seed: u64,
    written: HashMap<u64, u8>,
    is_changed: bool,
}

const FRAME: u64 = 0xffff_c900_0000_8000;

/// Nothing is known of the context.
const FIELDS: Fields = Fields { hook: None, context: 0, start: 0, end: 0, meta: 0 };

impl Trial {
    /// Numbers for all locations; `None` when they do not fit together.
    fn start(state: &State, run: u64, place: u64) -> Option<Trial> {
        let mut random = Random::new(run << 32 ^ place);
        let mut registers = Registers { values: [0; Reg::COUNT], defined: RegSet::EMPTY };
        let mut memory = Bytes { seed: random.draw(), written: HashMap::new(), is_changed: false };
        let mut roots: HashMap<Root, u64> = HashMap::from([(Root::Frame, FRAME)]);
        let mut number = |fact: &Fact| {
            let draw = random.draw();
            let is_number = matches!(fact.kind, Kind::Scalar | Kind::Unknown);
            let fits = |v: u64| !is_number || fact.range.contains(v);
            if let Some(v) = fact.value() {
                return Some(v);
            }
            let fresh = if is_number { within(&fact.range, run, draw) } else { draw & 0x7fff_ffff_fff8 };
            let Some(root) = fact.root else { return Some(fresh) };
            let value = roots.entry(root).or_insert(fresh.wrapping_sub(fact.delta)).wrapping_add(fact.delta);
            fits(value).then_some(value)
        };
        for r in Reg::all() {
            let fact = &state.regs[r.index()];
            if fact.kind != Kind::Uninit {
                registers.values[r.index()] = number(fact)?;
                registers.defined = registers.defined.with(r);
            }
        }
        for ((offset, size), fact) in state.stack.iter() {
            if fact.kind != Kind::Uninit {
                let value = number(fact)?;
                memory.write(FRAME.wrapping_add(*offset as i64 as u64), *size as u32, value);
            }
        }
        Some(Trial { registers, memory })
    }

    /// Executes an instruction; whether the next one follows.
    fn step(&mut self, insn: &Insn) -> bool {
        let Trial { registers, memory } = self;
        insn.target().is_none() && step(&mut Concrete { registers, memory, fields: &FIELDS }, insn) == Ok(Led::Next)
    }
}

impl Bytes {
    fn read(&self, address: u64, bytes: u32) -> u64 {
        let byte = |a: u64| self.written.get(&a).copied().unwrap_or_else(|| mix(a ^ self.seed) as u8);
        (0..bytes as u64).fold(0, |all, i| all | (byte(address.wrapping_add(i)) as u64) << (8 * i))
    }

    fn write(&mut self, address: u64, bytes: u32, value: u64) {
        for i in 0..bytes as u64 {
            self.written.insert(address.wrapping_add(i), (value >> (8 * i)) as u8);
        }
    }
}

impl Memory for &mut Bytes {
    fn load(&mut self, address: u64, bytes: u32) -> Result<u64, Fault> {
        Ok(self.read(address, bytes))
    }
    fn store(&mut self, address: u64, bytes: u32, value: u64) -> Result<(), Fault> {
        let before = self.read(address, bytes);
        self.write(address, bytes, value);
        self.is_changed |= self.read(address, bytes) != before;
        Ok(())
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
