//! Concrete states to try candidates on: numbers that the facts allow at a window's entry, the few
//! bytes of memory that the window touches, and what the original makes of them.

use super::machine::{Concrete, Fault, Led, Memory, Registers, step};
use super::random::{Random, mix};
use super::window::{Exit, Window};
use karakoram_bpf::hook::{ContextField, Hook};
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Program;
use karakoram_proof::facts::{Fact, Facts, Kind, Location, Root, State};
use karakoram_proof::range::Range;
use karakoram_proof::region::Region;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of memory that a window may touch.
pub const BYTES: usize = 64;

/// Everything a candidate changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Snapshot {
    /// Registers.
    pub registers: Registers,
    /// Memory, as the case's [`Layout`] places it.
    pub bytes: [u8; BYTES],
    /// Bytes that are defined, one bit each.
    pub known: u64,
}

/// Pointers that do not come from memory.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    hook: Option<Hook>,
    context: u64,
    start: u64,
    end: u64,
    meta: u64,
}

impl Fields {
    /// The packet pointer that a load of a context field yields.
    #[inline]
    pub fn pointer(&self, address: u64, size: Size) -> Option<u64> {
        let offset = address.wrapping_sub(self.context);
        if offset >= CONTEXT_BYTES {
            return None;
        }
        Some(match self.hook?.context_field(offset as i64, size.bytes())? {
            ContextField::PacketStart => self.start,
            ContextField::PacketEnd => self.end,
            ContextField::MetaStart => self.meta,
        })
    }

    /// What a two-slot constant is.
    pub fn loaded(&self, value: Imm64<FuncId>) -> u64 {
        match value {
            Imm64::Value(v) => v,
            Imm64::Map(m) => address_of(1, m),
            Imm64::MapValue(m, off) => address_of(2, m).wrapping_add(off as u64),
            Imm64::Btf { id, .. } => KERNEL + (mix(id as u64 ^ 3 << 32) & 0xfff_fff8),
            Imm64::Function(f) => KERNEL + (mix(f.0 as u64 ^ 4 << 32) & 0xfff_fff8),
            Imm64::Extern(e) => KERNEL + (mix(e as u64 ^ 5 << 32) & 0xfff_fff8),
        }
    }
}

const KERNEL: u64 = 0xffff_8880_0000_0000;
const CONTEXT_BYTES: u64 = 4096;

fn address_of(what: u64, map: MapRef) -> u64 {
    let number = match map {
        MapRef::Index(i) => i as u32 as u64,
        MapRef::Fd(fd) => fd as u32 as u64 | 1 << 40,
    };
    KERNEL + (mix(number | what << 48) & 0xff_ffff_fff8)
}

/// Where the bytes of a snapshot lie.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    pieces: Vec<Piece>,
    /// Bytes that the original stores to, or that belong to the frame.
    writable: u64,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    address: u64,
    length: u64,
    at: usize,
}

impl Layout {
    #[inline]
    fn find(&self, address: u64, bytes: u32) -> Result<usize, Fault> {
        for p in &self.pieces {
            let offset = address.wrapping_sub(p.address);
            if offset < p.length && offset + bytes as u64 <= p.length {
                return Ok(p.at + offset as usize);
            }
        }
        Err(Fault)
    }
}

struct Placed<'a> {
    layout: &'a Layout,
    bytes: &'a mut [u8; BYTES],
    known: &'a mut u64,
}

#[inline]
fn bits(at: usize, bytes: u32) -> u64 {
    ((1u64 << bytes) - 1) << at
}

impl Memory for Placed<'_> {
    #[inline]
    fn load(&mut self, address: u64, bytes: u32) -> Result<u64, Fault> {
        let at = self.layout.find(address, bytes)?;
        let wanted = bits(at, bytes);
        if *self.known & wanted != wanted {
            return Err(Fault);
        }
        let mut value = [0; 8];
        value[..bytes as usize].copy_from_slice(&self.bytes[at..at + bytes as usize]);
        Ok(u64::from_le_bytes(value))
    }
    #[inline]
    fn store(&mut self, address: u64, bytes: u32, value: u64) -> Result<(), Fault> {
        let at = self.layout.find(address, bytes)?;
        let written = bits(at, bytes);
        if self.layout.writable & written != written {
            return Err(Fault);
        }
        self.bytes[at..at + bytes as usize].copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        *self.known |= written;
        Ok(())
    }
}

/// One state at the entry, and what the original makes of it.
#[derive(Clone, Debug)]
pub struct Case {
    layout: Layout,
    fields: Fields,
    /// The state at the entry.
    pub start: Snapshot,
    /// The state at the exit.
    pub expected: Snapshot,
    /// Whether the branch at the end is taken.
    pub taken: bool,
    /// What matters at that exit.
    pub exit: Exit,
    /// 0xff for bytes that matter at that exit.
    pub matters: [u8; BYTES],
}

impl Case {
    /// Executes one instruction; for a branch, whether it is taken.
    #[inline]
    pub fn step(&self, at: &mut Snapshot, insn: &Insn) -> Result<bool, Fault> {
        let memory = Placed { layout: &self.layout, bytes: &mut at.bytes, known: &mut at.known };
        let mut machine = Concrete { registers: &mut at.registers, memory, fields: &self.fields };
        Ok(step(&mut machine, insn)? != Led::Next)
    }

    /// Executes a sequence of which only the last instruction may be a branch.
    pub fn run(&self, at: &mut Snapshot, insns: &[Insn]) -> Result<bool, Fault> {
        let mut taken = false;
        for insn in insns {
            taken = self.step(at, insn)?;
        }
        Ok(taken)
    }

    /// Whether that register holds what it should at the exit, or does not matter.
    #[inline]
    pub fn agrees_on(&self, at: &Snapshot, reg: Reg) -> bool {
        !self.exit.live.contains(reg)
            || at.registers.values[reg.index()] == self.expected.registers.values[reg.index()]
                && at.registers.defined.contains(reg)
    }

    /// Whether memory is what it should be at the exit, where it matters.
    #[inline]
    pub fn agrees_on_memory(&self, at: &Snapshot) -> bool {
        let mut different = 0;
        for i in 0..BYTES {
            different |= (at.bytes[i] ^ self.expected.bytes[i]) & self.matters[i];
        }
        different == 0
    }

    /// Where the byte at an address is kept.
    pub fn place(&self, address: u64, bytes: u32) -> Option<usize> {
        self.layout.find(address, bytes).ok()
    }
}

/// Memory without bounds, for the first run of the original: every byte has some value, and what is
/// touched is noted.
struct Recorder<'a> {
    initial: &'a dyn Fn(u64) -> u8,
    /// Numbers that loads from outside the frame find, one after another.
    hints: std::vec::IntoIter<u64>,
    in_frame: &'a dyn Fn(u64) -> bool,
    /// Where hints were put.
    hinted: BTreeMap<u64, u8>,
    written: BTreeMap<u64, u8>,
    touched: BTreeSet<u64>,
}

impl Recorder<'_> {
    fn initial(&self, address: u64) -> u8 {
        self.hinted.get(&address).copied().unwrap_or_else(|| (self.initial)(address))
    }
}

impl Memory for &mut Recorder<'_> {
    fn load(&mut self, address: u64, bytes: u32) -> Result<u64, Fault> {
        let places = (0..bytes as u64).map(|i| address.wrapping_add(i));
        if places.clone().all(|a| !self.touched.contains(&a) && !(self.in_frame)(a))
            && let Some(hint) = self.hints.next()
        {
            self.hinted.extend(places.clone().zip(hint.to_le_bytes()));
        }
        self.touched.extend(places.clone());
        Ok(places
            .rev()
            .fold(0, |value, a| value << 8 | self.written.get(&a).copied().unwrap_or_else(|| self.initial(a)) as u64))
    }
    fn store(&mut self, address: u64, bytes: u32, value: u64) -> Result<(), Fault> {
        for i in 0..bytes as u64 {
            let a = address.wrapping_add(i);
            self.touched.insert(a);
            self.written.insert(a, (value >> (8 * i)) as u8);
        }
        Ok(())
    }
}

/// Cases for a window, as far as possible half of them with its branch taken; `None` when it touches
/// too much memory or cannot be run.
pub fn cases(program: &Program, facts: &Facts, window: &Window, count: usize, seed: u64) -> Option<Vec<Case>> {
    const TRIES: usize = 8;
    let hints = hints(window);
    let (mut chosen, mut spare) = (Vec::with_capacity(count), Vec::new());
    for number in 0..count * TRIES {
        let mut random = Random::new(mix(seed ^ number as u64));
        let case = Maker { program, facts, window, state: &window.state, number, hints: &hints }.make(&mut random)?;
        let alike = chosen.iter().filter(|c: &&Case| c.taken == case.taken).count();
        if window.branch.is_some() && alike >= count / 2 {
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
    Some(chosen)
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
        let mut registers = Registers { values: [0; Reg::COUNT], defined: self.window.live_in };
        for r in self.window.live_in.iter() {
            registers.values[r.index()] = values[&Location::Reg(r)];
        }
        let live_stack = &self.facts.live_stack[self.window.range.start];
        let noise = random.draw();
        let initial = |address: u64| self.initial_byte(address, frame, noise, &values);
        let in_frame = |a: u64| (-512..0).contains(&(a.wrapping_sub(frame) as i64));
        let mut recorder = Recorder {
            initial: &initial,
            hints: self.memory_hints(random).into_iter(),
            in_frame: &in_frame,
            hinted: BTreeMap::new(),
            written: BTreeMap::new(),
            touched: BTreeSet::new(),
        };
        let mut copy = registers;
        for insn in &self.window.insns {
            step(&mut Concrete { registers: &mut copy, memory: &mut recorder, fields: &fields }, insn).ok()?;
        }
        // Whole words of the frame: a wider store may cover bytes that do not matter.
        let mut touched = recorder.touched.clone();
        touched.extend(recorder.touched.iter().filter(|a| in_frame(**a)).flat_map(|a| (*a & !7)..(*a & !7) + 8));
        let mut layout = Layout::default();
        let mut start = Snapshot { registers, bytes: [0; BYTES], known: 0 };
        for (at, address) in touched.iter().enumerate() {
            if at >= BYTES {
                return None;
            }
            match layout.pieces.last_mut() {
                Some(p) if p.address.wrapping_add(p.length) == *address => p.length += 1,
                _ => layout.pieces.push(Piece { address: *address, length: 1, at }),
            }
            let offset = address.wrapping_sub(frame) as i64;
            if in_frame(*address) && !live_stack.contains(offset) {
                // Undefined, so something that no candidate can produce.
                start.bytes[at] = random.draw() as u8;
                layout.writable |= 1 << at;
                continue;
            }
            start.bytes[at] = recorder.initial(*address);
            start.known |= 1 << at;
            if in_frame(*address) || recorder.written.contains_key(address) {
                layout.writable |= 1 << at;
            }
        }
        let mut case =
            Case { layout, fields, start, expected: start, taken: false, exit: self.window.next, matters: [0; BYTES] };
        let mut end = start;
        case.taken = case.run(&mut end, &self.window.insns).ok()?;
        case.expected = end;
        if let (true, Some((_, exit))) = (case.taken, self.window.branch) {
            case.exit = exit;
        }
        for (at, address) in touched.iter().enumerate() {
            let offset = address.wrapping_sub(frame) as i64;
            if !in_frame(*address) || case.exit.live_stack.contains(offset) {
                case.matters[at] = 0xff;
            }
        }
        Some(case)
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
