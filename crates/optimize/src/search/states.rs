//! Concrete states at a window's entry, of the kind that the facts allow, and what the original makes
//! of each.

use super::case::{Case, Fields, KERNEL};
use super::entry::{Entry, Recorder};
use super::machine::{Concrete, Fault, Led, Registers, step};
use super::pointers;
use super::random::{Random, mix};
use super::window::Window;
use karakoram_bpf::effects::RegSet;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Program;
use karakoram_proof::counterexample::Counterexample;
use karakoram_proof::facts::{Fact, Facts, Kind, Location, Root, State};
use karakoram_proof::range::Range;
use karakoram_proof::region::Region;
use std::collections::HashMap;

/// Cases for a window, as far as possible as many for each way through it; `None` when it touches too
/// much memory, cannot be run, or always goes one way, so that any other would do.
pub fn cases(program: &Program, facts: &Facts, window: &Window, count: usize, seed: u64) -> Option<Vec<Case>> {
    const TRIES: usize = 8;
    let hints = hints(window);
    let branches = window.branches();
    let enough = if branches == 0 { count } else { count / (branches + 1) };
    let (mut chosen, mut spare) = (Vec::with_capacity(count), Vec::new());
    for number in 0..count * TRIES {
        let mut random = Random::new(mix(seed ^ number as u64));
        let case = Maker { program, facts, window, state: &window.state, number, hints: &hints }.make(&mut random)?;
        let alike = chosen.iter().filter(|c: &&Case| c.path == case.path).count();
        if alike >= enough {
            spare.push(case)
        } else {
            chosen.push(case)
        }
        if chosen.len() == count {
            break;
        }
    }
    spare.truncate(count - chosen.len());
    chosen.extend(spare);
    let is_decided = branches > 0 && chosen.iter().all(|c| c.path == chosen[0].path);
    (!is_decided).then_some(chosen)
}

/// The case that a counterexample stands for: numbers, and what loads find, as it says, and pointers as
/// in any other case.
pub fn refuting(program: &Program, facts: &Facts, window: &Window, example: &Counterexample) -> Option<Case> {
    let (registers, found) = looked_at(program, facts, window, example)?;
    let mut random = Random::new(0);
    let maker = Maker { program, facts, window, state: &window.state, number: 0, hints: &[] };
    let (fields, frame) = maker.fields(&mut random);
    let mut values = maker.values(&mut random, &fields, frame);
    for r in window.live_in.iter().filter(|r| pointers::is_number(&window.state.regs[r.index()])) {
        values.insert(Location::Reg(r), registers.values[r.index()]);
    }
    maker.case(&values, (fields, frame), found, &mut random)
}

/// What a window finds in registers in a counterexample, and what its loads find one after another.
fn looked_at(
    program: &Program,
    facts: &Facts,
    window: &Window,
    example: &Counterexample,
) -> Option<(Registers, Vec<u64>)> {
    let mut registers = Registers { values: [0; Reg::COUNT], defined: RegSet::EMPTY };
    for (r, v) in Reg::all().zip(example.registers).filter_map(|(r, v)| Some((r, v?))) {
        registers.values[r.index()] = v;
        registers.defined = registers.defined.with(r);
    }
    let state = facts.before[window.range.start].as_ref()?;
    let root = |root: Root| {
        let known = state.regs.iter().zip(example.registers).find(|(f, v)| f.root == Some(root) && v.is_some());
        known.and_then(|(f, v)| Some(v?.wrapping_sub(f.delta))).unwrap_or(0)
    };
    let (start, end) = (example.packet.0.unwrap_or(0), example.packet.1.unwrap_or(0));
    let fields = Fields { hook: facts.hook, context: root(Root::Context), start, end, meta: 0 };
    let frame = example.registers[Reg::FP.index()].unwrap_or(0);
    let in_frame = |a: u64| (-512..0).contains(&(a.wrapping_sub(frame) as i64));
    let initial = |a: u64| example.bytes.get(&a).copied().unwrap_or(0);
    let mut recorder = Recorder::new(&initial, &in_frame, Vec::new());
    let mut run = |registers: &mut Registers, insn: &Insn| {
        let led = step(&mut Concrete { registers, memory: &mut recorder, fields: &fields }, insn)?;
        Ok::<bool, Fault>(led != Led::Next)
    };
    for p in &window.ahead {
        run(&mut registers, &program.function(window.function).nodes[*p].insn).ok()?;
    }
    let mut copy = registers;
    window.run(|insn| run(&mut copy, insn)).ok()?;
    Some((registers, recorder.found))
}

struct Maker<'a> {
    program: &'a Program,
    facts: &'a Facts,
    window: &'a Window,
    state: &'a State,
    number: usize,
    /// Constants of the window and their neighbours: numbers at which something may change.
    hints: &'a [u64],
}

impl Maker<'_> {
    fn make(&self, random: &mut Random) -> Option<Case> {
        let (fields, frame) = self.fields(random);
        let values = self.values(random, &fields, frame);
        let hints = self.memory_hints(random);
        self.case(&values, (fields, frame), hints, random)
    }

    fn case(
        &self,
        values: &HashMap<Location, u64>,
        (fields, frame): (Fields, u64),
        hints: Vec<u64>,
        random: &mut Random,
    ) -> Option<Case> {
        let mut registers = Registers { values: [0; Reg::COUNT], defined: self.window.live_in };
        for r in self.window.live_in.iter() {
            registers.values[r.index()] = values[&Location::Reg(r)];
        }
        let noise = random.draw();
        let initial = |address: u64| self.initial_byte(address, frame, noise, values);
        Entry { registers, fields, frame, initial: &initial, hints }.case(self.facts, self.window, random)
    }

    fn fields(&self, random: &mut Random) -> (Fields, u64) {
        let somewhere = |random: &mut Random, bits: u32| KERNEL + ((random.draw() % (1 << bits)) & !7);
        let frame = 0xffff_c900_0000_0000 + ((random.draw() % (1 << 30)) & !15);
        let start = somewhere(random, 36) + random.draw() % 4;
        let end = start + self.packet_length(random);
        let meta = start - 4 * (random.draw() % 8);
        (Fields { hook: self.facts.hook, context: somewhere(random, 35), start, end, meta }, frame)
    }

    /// Lengths, half of them about where the window may compare pointers.
    fn packet_length(&self, random: &mut Random) -> u64 {
        if random.below(2) == 0 {
            return random.draw() % [64, 256, 1515][random.below(3)];
        }
        let into = self.state.regs.iter().filter(|f| f.root == Some(Root::PacketStart)).map(|f| f.delta);
        let deltas: Vec<u64> = into.chain([0]).collect();
        let delta = random.pick(&deltas).copied().unwrap_or(0);
        let step = if random.below(3) == 0 { 0 } else { random.pick(self.hints).copied().unwrap_or(0) };
        delta.wrapping_add(step).wrapping_add(random.draw() % 3).saturating_sub(1) & 0xffff
    }

    /// Values of all locations that are known at the entry, such that the facts hold, if that can be
    /// had by trying.
    fn values(&self, random: &mut Random, fields: &Fields, frame: u64) -> HashMap<Location, u64> {
        const TRIES: usize = 24;
        let mut best: Option<(usize, HashMap<Location, u64>)> = None;
        for attempt in 0..TRIES {
            let values = self.guess(random, fields, frame, attempt);
            let wrong = self.state.locations().filter(|(l, f)| !holds(f, values[l])).count();
            if best.as_ref().is_none_or(|(least, _)| wrong < *least) {
                best = Some((wrong, values));
            }
            if wrong == 0 {
                break;
            }
        }
        best.expect("tried").1
    }

    fn guess(&self, random: &mut Random, fields: &Fields, frame: u64, attempt: usize) -> HashMap<Location, u64> {
        let mut roots: HashMap<Root, u64> = HashMap::new();
        let mut values = HashMap::new();
        let mut earlier: Vec<u64> = Vec::new();
        for (location, fact) in self.state.locations() {
            let value = match (fact.value(), fact.root) {
                (Some(v), _) => v,
                (None, Some(root)) => {
                    let base = *roots
                        .entry(root)
                        .or_insert_with(|| self.root(root, fact, random, (fields, frame), &earlier, attempt));
                    base.wrapping_add(fact.delta)
                }
                (None, None) => self.sample(fact, random, &earlier, attempt),
            };
            if matches!(location, Location::Reg(r) if r != Reg::FP && self.window.live_in.contains(r)) {
                earlier.push(value);
            }
            values.insert(location, value);
        }
        values
    }

    fn root(
        &self,
        root: Root,
        first: &Fact,
        random: &mut Random,
        (fields, frame): (&Fields, u64),
        earlier: &[u64],
        attempt: usize,
    ) -> u64 {
        match root {
            Root::Frame => frame,
            Root::Context => fields.context,
            Root::PacketStart => fields.start,
            Root::PacketEnd => fields.end,
            Root::MetaStart => fields.meta,
            // An object may name a map by position, other programs by file descriptor.
            Root::Map(m) => fields.loaded(Imm64::Map(self.map_ref(m))),
            Root::MapData(m) => fields.loaded(Imm64::MapValue(self.map_ref(m), 0)),
            Root::Argument(_) | Root::Computed(_) | Root::Joined(..) => {
                // The location with the tightest range decides, the others follow.
                let tightest = self
                    .state
                    .locations()
                    .map(|(_, f)| f)
                    .filter(|f| f.root == Some(root))
                    .min_by_key(|f| f.range.max.wrapping_sub(f.range.min))
                    .unwrap_or(first);
                self.sample(tightest, random, earlier, attempt).wrapping_sub(tightest.delta)
            }
        }
    }

    fn map_ref(&self, map: usize) -> MapRef {
        match self.program.maps.get(map).and_then(|m| m.fd) {
            Some(fd) => MapRef::Fd(fd),
            None => MapRef::Index(map as i32),
        }
    }

    fn sample(&self, fact: &Fact, random: &mut Random, earlier: &[u64], attempt: usize) -> u64 {
        match fact.kind {
            Kind::Pointer { nullable: true, .. } if random.below(4) == 0 => 0,
            Kind::Pointer { region, .. } => {
                let base = match region {
                    Region::Stack => 0xffff_c900_4000_0000,
                    Region::Context => 0xffff_8890_0000_0000,
                    Region::Packet => 0xffff_88a0_0000_0000,
                    Region::MapValue(m) => 0xffff_88b0_0000_0000 + ((m as u64) << 32),
                    Region::SomeMapValue | Region::Foreign | Region::Any => 0xffff_88d0_0000_0000,
                    Region::CallerFrame => 0xffff_c900_4800_0000,
                };
                // Now and then so near that two pointers into the same memory meet.
                let spread = if self.number % 8 == 7 { 16 } else { 1 << 28 };
                base + ((random.draw() % spread) & !3)
            }
            _ => self.number_in(&fact.range, random, earlier, attempt),
        }
    }

    /// What loads find in some of the cases: constants of the window, also with their bytes reversed.
    fn memory_hints(&self, random: &mut Random) -> Vec<u64> {
        if self.number % 4 != 2 {
            return Vec::new();
        }
        let hint = |random: &mut Random| {
            let hint = random.pick(self.hints).copied().unwrap_or(0);
            match random.below(3) {
                0 => (hint as u16).swap_bytes() as u64,
                1 => (hint as u32).swap_bytes() as u64,
                _ => hint,
            }
        };
        (0..8).map(|_| hint(random)).collect()
    }

    /// A member of a range, most likely; now and then near one that was chosen before.
    fn number_in(&self, range: &Range, random: &mut Random, earlier: &[u64], attempt: usize) -> u64 {
        for _ in 0..8 {
            let width = range.max.wrapping_sub(range.min).wrapping_add(1);
            let inside = |random: &mut Random| match width {
                0 => random.draw(),
                width => range.min + random.draw() % width,
            };
            // Some cases are all about the window's own constants.
            let kind = if self.number % 4 == 1 && random.below(2) == 0 { 4 } else { random.below(9) };
            let wild = match kind {
                0 => range.min,
                1 => range.max,
                2 => range.smin as u64,
                3 => inside(random),
                4 => random.pick(self.hints).copied().unwrap_or(0),
                5..=6 if !earlier.is_empty() => {
                    let other = random.pick(earlier).copied().unwrap_or(0);
                    let step = random.pick(self.hints).copied().unwrap_or(0);
                    let step = [step, 0, random.draw() % (step | 1)][random.below(3)];
                    other.wrapping_add(step).wrapping_add(random.draw() % 3).wrapping_sub(1)
                }
                _ => random.interesting(),
            };
            for value in [wild, inside(random)] {
                let value = value & !range.zeros | range.ones;
                if range.contains(value) || attempt > 16 {
                    return value;
                }
            }
        }
        range.min
    }

    fn initial_byte(&self, address: u64, frame: u64, noise: u64, values: &HashMap<Location, u64>) -> u8 {
        let offset = address.wrapping_sub(frame) as i64;
        if (-512..0).contains(&offset) {
            for (o, s) in self.state.stack.keys() {
                let within = offset - *o as i64;
                if (0..*s as i64).contains(&within) {
                    return (values[&Location::Stack(*o, *s)] >> (8 * within)) as u8;
                }
            }
        }
        match self.number % 8 {
            1 => 0,
            2 => 0xff,
            3 => mix(address ^ noise) as u8 & 1,
            _ => mix(address ^ noise) as u8,
        }
    }
}

fn holds(fact: &Fact, value: u64) -> bool {
    match fact.kind {
        Kind::Scalar | Kind::Unknown => fact.range.contains(value),
        Kind::Pointer { nullable, .. } => nullable || value != 0,
        Kind::Uninit | Kind::Map(_) => true,
    }
}

/// Constants of a window and their neighbours.
fn hints(window: &Window) -> Vec<u64> {
    let mut hints = Vec::new();
    for insn in &window.insns {
        let constant = match *insn {
            Insn::Alu { src: Operand::Imm(i), .. } | Insn::Mov { src: Operand::Imm(i), .. } => i as i64 as u64,
            Insn::Branch { src: Operand::Imm(i), .. } => i as i64 as u64,
            Insn::LoadImm { value: Imm64::Value(v), .. } => v,
            _ => continue,
        };
        hints.extend([constant, constant.wrapping_add(1), constant.wrapping_sub(1)]);
    }
    hints
}
