//! What a window finds at its entry, and the run of the original from there that shows which memory it
//! touches.

use super::case::{BYTES, Case, Fields, Layout, Snapshot};
use super::machine::{Concrete, Fault, Led, Memory, Registers, step};
use super::random::Random;
use super::window::Window;
use karakoram_bpf::insn::Insn;
use karakoram_proof::facts::Facts;
use std::collections::{BTreeMap, BTreeSet};

/// What a window finds at its entry.
pub struct Entry<'a> {
    /// Registers.
    pub registers: Registers,
    /// Pointers that are loaded.
    pub fields: Fields,
    /// The frame pointer.
    pub frame: u64,
    /// Memory.
    pub initial: &'a dyn Fn(u64) -> u8,
    /// Numbers that loads from outside the frame find, one after another.
    pub hints: Vec<u64>,
}

impl Entry<'_> {
    /// The case that starts there; `None` when the window cannot be run on it, or touches too much.
    pub fn case(self, facts: &Facts, window: &Window, random: &mut Random) -> Option<Case> {
        let in_frame = |a: u64| (-512..0).contains(&(a.wrapping_sub(self.frame) as i64));
        let mut recorder = Recorder::new(self.initial, &in_frame, self.hints);
        let mut copy = self.registers;
        let mut machine = |insn: &Insn| {
            let led = step(&mut Concrete { registers: &mut copy, memory: &mut recorder, fields: &self.fields }, insn)?;
            Ok::<bool, Fault>(led != Led::Next)
        };
        window.run(&mut machine).ok()?;
        let Start { layout, start, touched } = recorder.start(facts, window, self.registers, self.frame, random)?;
        let mut case = Case {
            layout,
            fields: self.fields,
            start,
            expected: start,
            taken: false,
            path: 0,
            exit: window.next,
            matters: [0; BYTES],
        };
        let mut end = start;
        (case.path, case.taken) = window.run(|insn| case.step(&mut end, insn)).ok()?;
        case.expected = end;
        if let (true, Some((_, exit))) = (case.taken, window.branch) {
            case.exit = exit;
        }
        for (at, address) in touched.iter().enumerate() {
            let offset = address.wrapping_sub(self.frame) as i64;
            if !in_frame(*address) || case.exit.live_stack.contains(offset) {
                case.matters[at] = 0xff;
            }
        }
        Some(case)
    }
}

/// The bytes that a window touches, and what they hold before.
struct Start {
    layout: Layout,
    start: Snapshot,
    touched: BTreeSet<u64>,
}

impl Recorder<'_> {
    fn start(
        &self,
        facts: &Facts,
        window: &Window,
        registers: Registers,
        frame: u64,
        random: &mut Random,
    ) -> Option<Start> {
        let live_stack = &facts.live_stack[window.range.start];
        // Whole words of the frame: a wider store may cover bytes that do not matter.
        let mut touched = self.touched.clone();
        let words = self.touched.iter().filter(|a| (self.in_frame)(**a)).flat_map(|a| (*a & !7)..(*a & !7) + 8);
        touched.extend(words);
        let mut layout = Layout::default();
        let mut start = Snapshot { registers, bytes: [0; BYTES], known: 0 };
        for (at, address) in touched.iter().enumerate() {
            if at >= BYTES {
                return None;
            }
            let in_frame = (self.in_frame)(*address);
            let offset = address.wrapping_sub(frame) as i64;
            let is_undefined = in_frame && !live_stack.contains(offset);
            layout.add(*address, at, in_frame || self.written.contains_key(address));
            if is_undefined {
                // Something that no candidate can produce.
                start.bytes[at] = random.draw() as u8;
                continue;
            }
            start.bytes[at] = self.initial(*address);
            start.known |= 1 << at;
        }
        Some(Start { layout, start, touched })
    }
}

/// Memory without bounds, for the first run of the original: every byte has some value, and what is
/// touched is noted.
pub(super) struct Recorder<'a> {
    initial: &'a dyn Fn(u64) -> u8,
    /// Numbers that loads from outside the frame find, one after another.
    hints: std::vec::IntoIter<u64>,
    in_frame: &'a dyn Fn(u64) -> bool,
    /// Where hints were put.
    hinted: BTreeMap<u64, u8>,
    written: BTreeMap<u64, u8>,
    touched: BTreeSet<u64>,
    /// What loads from outside the frame found that nothing had touched.
    pub(super) found: Vec<u64>,
}

impl<'a> Recorder<'a> {
    /// Nothing touched yet.
    pub(super) fn new(
        initial: &'a dyn Fn(u64) -> u8,
        in_frame: &'a dyn Fn(u64) -> bool,
        hints: Vec<u64>,
    ) -> Recorder<'a> {
        Recorder {
            initial,
            hints: hints.into_iter(),
            in_frame,
            hinted: BTreeMap::new(),
            written: BTreeMap::new(),
            touched: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    fn initial(&self, address: u64) -> u8 {
        self.hinted.get(&address).copied().unwrap_or_else(|| (self.initial)(address))
    }
}

impl Memory for &mut Recorder<'_> {
    fn load(&mut self, address: u64, bytes: u32) -> Result<u64, Fault> {
        let places = (0..bytes as u64).map(|i| address.wrapping_add(i));
        let is_fresh = places.clone().all(|a| !self.touched.contains(&a) && !(self.in_frame)(a));
        if is_fresh && let Some(hint) = self.hints.next() {
            self.hinted.extend(places.clone().zip(hint.to_le_bytes()));
        }
        self.touched.extend(places.clone());
        let byte = |a: u64| self.written.get(&a).copied().unwrap_or_else(|| self.initial(a));
        let value = places.rev().fold(0, |value, a| value << 8 | byte(a) as u64);
        if is_fresh {
            self.found.push(value);
        }
        Ok(value)
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
