//! An input on which two programs really differ: suspected by the prover or met by chance, and
//! confirmed by running both.

use karakoram_bpf::hook::Hook;
use karakoram_bpf::insn::{Callee, FuncId, Insn, Reg};
use karakoram_bpf::interpreter::{Input, Interpreter, Limits, Options, Step};
use karakoram_bpf::program::{Entry, Program};
use karakoram_proof::check::Witness;

/// Number of the helper `map_lookup_elem`.
const MAP_LOOKUP: i32 = 1;

/// Inputs tried at random after those that the prover suspects.
const RANDOM_INPUTS: u64 = 4_000;

/// An input, and what the two did on it.
pub struct Counterexample {
    /// Function it is fed to.
    pub function: FuncId,
    /// Packet, or buffer.
    pub packet: Vec<u8>,
    /// Map elements before the run: map, key, value.
    pub maps: Vec<(usize, Vec<u8>, Vec<u8>)>,
    /// The first difference, in words.
    pub difference: String,
}

impl Counterexample {
    /// What to give `kara run` to see it.
    pub fn options(&self, program: &Program) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let mut out = format!("--input hex:{}", hex(&self.packet));
        for (map, key, value) in &self.maps {
            out += &format!(" --map {}={}:{}", program.maps[*map].name, hex(key), hex(value));
        }
        if program.functions.iter().filter(|f| matches!(f.entry, Entry::Hook(_))).count() > 1 {
            out += &format!(" --prog {}", program.function(self.function).name);
        }
        out
    }
}

/// Looks for an input on which `a` and `b` differ.
pub fn find(a: &Program, b: &Program, suspects: &[(FuncId, Witness)]) -> Option<Counterexample> {
    let suspected = suspects.iter().map(|(f, w)| (*f, w.packet.clone(), w.maps.clone()));
    let entries: Vec<FuncId> = (0..a.functions.len() as u32)
        .map(FuncId)
        .filter(|f| matches!(a.function(*f).entry, Entry::Hook(_)) && a.function(*f) != b.function(*f))
        .collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let by_chance = (0..RANDOM_INPUTS).flat_map(|_| entries.clone()).map(|f| {
        let length = match a.function(f).entry {
            Entry::Hook(Hook::Buffer(n)) => (n as usize).min(4096),
            _ => 64,
        };
        (f, random.packet(length), Vec::new())
    });
    suspected.chain(by_chance).find_map(|(function, packet, mut maps)| {
        let mut found = difference(a, b, function, &packet, &maps);
        if found.is_none() {
            // What one of them looks up should be there to be found.
            maps.extend(looked_up(a, function, &packet));
            found = difference(a, b, function, &packet, &maps);
        }
        Some(Counterexample { function, packet, maps, difference: found? })
    })
}

/// The map elements that a run looks up, with telling values.
fn looked_up(program: &Program, function: FuncId, packet: &[u8]) -> Vec<(usize, Vec<u8>, Vec<u8>)> {
    let mut keys: Vec<(usize, Vec<u8>, Vec<u8>)> = Vec::new();
    let mut watch = |step: &Step| {
        let insn = program.function(step.function).nodes[step.position].insn;
        if insn == Insn::Call(Callee::Helper(MAP_LOOKUP)) {
            for (i, map) in program.maps.iter().enumerate() {
                if let Some(key) = step.memory.peek(step.register(Reg::R2), map.key_size as usize) {
                    keys.push((i, key.to_vec(), vec![1; map.value_size as usize]));
                }
            }
        }
        true
    };
    let mut interpreter = Interpreter::new(program, options());
    // A fault ends the run; what was looked up until then still counts.
    let _ = interpreter.run_observed(function, input(program, function, packet), &mut watch);
    keys
}

fn options() -> Options {
    let limits = Limits { instructions: 1_000_000, ..Limits::default() };
    Options { limits, model_unknown_calls: true, ..Options::default() }
}

fn input(program: &Program, function: FuncId, packet: &[u8]) -> Input {
    match program.function(function).entry {
        Entry::Hook(Hook::Buffer(_)) => Input { context: packet.to_vec(), ..Input::default() },
        _ => Input { packet: packet.to_vec(), ..Input::default() },
    }
}

fn difference(
    a: &Program,
    b: &Program,
    function: FuncId,
    packet: &[u8],
    maps: &[(usize, Vec<u8>, Vec<u8>)],
) -> Option<String> {
    let run = |program: &Program| {
        let mut interpreter = Interpreter::new(program, options());
        for (map, key, value) in maps {
            // An element that the interpreter cannot hold only makes the input another one.
            let _ = interpreter.state.maps.get_mut(*map).map(|m| m.set(key, value));
        }
        let outcome = interpreter.run(function, input(program, function, packet));
        (outcome, interpreter.state)
    };
    let ((x, maps_x), (y, maps_y)) = (run(a), run(b));
    match (x, y) {
        (Ok(x), Ok(y)) => x.difference(&y).or_else(|| maps_x.difference(&maps_y)),
        (Ok(_), Err(fault)) => Some(format!("the second ends in a fault: {fault}")),
        // A program that faults is none that the kernel would run.
        (Err(_), _) => None,
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Half of them of small and telling bytes, half arbitrary.
    fn packet(&mut self, length: usize) -> Vec<u8> {
        const TELLING: [u8; 8] = [0, 1, 2, 8, 6, 17, 0x45, 0xff];
        let small = self.next() & 1 == 0;
        (0..length).map(|_| (self.next() >> 9) as u8).map(|b| if small { TELLING[b as usize % 8] } else { b }).collect()
    }
}
