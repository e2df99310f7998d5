//! Random instructions and programs, the same ones every time.
#![allow(dead_code)]

use karakoram_bpf::encode::{self, Slot};
use karakoram_bpf::hook::{Hook, ProgramType};
use karakoram_bpf::insn::*;
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_bpf::program::{Entry, Function, Patch, Program};

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// 0 to `n` - 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// An instruction made of random fields, with a preference for values that mean something.
    pub fn insn(&mut self) -> RawInsn {
        loop {
            let imms = [0, 0, 1, 2, 4, 16, 32, 64, -1, 0x40, 0x41, 0xe1, 0xf1, 0x100, 0x110, i32::MIN, i32::MAX];
            let offs = [0, 0, 0, 1, 8, 16, 32, -1, i16::MIN, i16::MAX];
            let any_imm = self.next() as i32;
            let any_off = self.next() as i16;
            let slot = Slot {
                code: self.next() as u8,
                dst: self.below(12) as u8,
                src: self.below(12) as u8 * self.below(2) as u8,
                off: if self.below(4) == 0 { any_off } else { self.pick(&offs) },
                imm: if self.below(3) == 0 { any_imm } else { self.pick(&imms) },
            };
            let second = Slot { imm: self.pick(&imms), ..Slot::default() };
            // Kinds that random fields seldom hit get a chance of their own.
            let slot = match self.below(12) {
                0 => Slot { code: 0x18, off: 0, src: self.below(7) as u8, ..slot },
                1 => Slot { code: 0x85, off: 0, dst: 0, src: self.below(3) as u8, ..slot },
                2 => Slot { code: 0xe5, src: 0, dst: 0, imm: 0, ..slot },
                3 => Slot { code: 0xbf, imm: 0x10002, off: 1, ..slot },
                4 => Slot { code: self.pick(&[0xdb, 0xc3]), ..slot },
                5 => Slot { code: self.pick(&[0x95, 0x8d, 0x05, 0x06]), src: 0, ..slot },
                _ => slot,
            };
            if let Ok(insn) = encode::decode(&[slot, second], 0) {
                return insn;
            }
            if self.below(40) == 0 {
                let number = self.below(9) as u32;
                return match self.below(2) {
                    0 => Insn::Call(Callee::Extern(number)),
                    _ => Insn::LoadImm { dst: Reg::R1, value: Imm64::Extern(number) },
                };
            }
        }
    }

    /// A valid program of several functions and maps, with odd names.
    pub fn program(&mut self) -> Program {
        let names =
            ["main", "bpf_map_lookup_elem", "a b", ".text", "é", "say \"x\"", "pc", "func", "twice", "twice", "L1"];
        let count = 1 + self.below(4);
        let maps = (0..self.below(4)).map(|_| self.map(2)).collect::<Vec<_>>();
        let functions = (0..count)
            .map(|n| {
                let name = if self.below(2) == 0 { format!("f{n}") } else { self.pick(&names).to_string() };
                let entry = match self.below(5) {
                    0 => Entry::Hook(Hook::Kernel(ProgramType(self.below(40) as u32))),
                    1 => Entry::Hook(Hook::Constant),
                    2 => Entry::Hook(Hook::Buffer(self.below(300) as u32)),
                    n => Entry::Subprogram { global: n == 3 },
                };
                let section = self.pick(&["", "xdp", "odd \\ section"]);
                let code = self.code(count, maps.len());
                let mut function = Function::from_raw(&name, section, entry, &code, 0).expect("targets are inside");
                let marked = self.below(function.nodes.len());
                function.nodes[marked].patch = (self.below(3) == 0).then(|| Patch(self.below(5) as u32));
                function
            })
            .collect();
        Program { functions, maps, ..Program::default() }
    }

    fn code(&mut self, functions: usize, maps: usize) -> Vec<Insn<i32, FuncId>> {
        let mut raw: Vec<RawInsn> = (0..1 + self.below(20)).map(|_| self.insn()).collect();
        raw.push(Insn::Exit);
        let mut starts = Vec::new();
        let mut at = 0;
        for insn in &raw {
            starts.push(at);
            at += insn.slots() as i32;
        }
        raw.iter()
            .enumerate()
            .map(|(i, insn)| {
                let to = starts[self.below(starts.len())] - starts[i] - insn.slots() as i32;
                let mut insn = insn.map(|_| to, |_| FuncId(self.below(functions) as u32));
                if let Insn::LoadImm {
                    value: Imm64::Map(MapRef::Index(m)) | Imm64::MapValue(MapRef::Index(m), _), ..
                } = &mut insn
                    && maps > 0
                {
                    *m = self.below(maps) as i32;
                }
                insn
            })
            .collect()
    }

    fn map(&mut self, depth: usize) -> MapDef {
        MapDef {
            name: self.pick(&["a", "b", "c", ".rodata.str1.1", "with space", "q\"\n", ""]).to_string(),
            kind: MapType(self.below(40) as u32),
            key_size: self.below(17) as u32,
            value_size: self.next() as u32,
            max_entries: self.next() as u32,
            flags: self.pick(&[0, 0, 1, 0x80]),
            fd: if self.below(2) == 0 { Some(self.below(9) as i32 - 1) } else { None },
            initial: match self.below(4) {
                0 => Some(vec![0; self.below(5)]),
                1 => Some((0..self.below(9)).map(|_| self.next() as u8).collect()),
                _ => None,
            },
            frozen: self.below(3) == 0,
            inner: if depth > 0 && self.below(4) == 0 { Some(Box::new(self.map(depth - 1))) } else { None },
        }
    }
}
