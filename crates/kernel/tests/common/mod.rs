//! Shared by the tests: a little assembler over slots, and skipping aloud without privilege.
#![allow(dead_code)]

pub mod differential;

use karakoram_bpf::encode::Slot;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::map::{MapDef, MapType};
use karakoram_kernel::load::{LoadError, LoadRequest, LoadedProgram, load};
use karakoram_kernel::map::MapSet;

pub const R0: u8 = 0;
pub const R1: u8 = 1;
pub const R2: u8 = 2;
pub const R3: u8 = 3;
pub const R4: u8 = 4;
pub const R5: u8 = 5;
pub const R6: u8 = 6;
pub const R10: u8 = 10;

fn slot(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Slot {
    Slot { code, dst, src, off, imm }
}
pub fn mov(dst: u8, imm: i32) -> Slot {
    slot(0xb7, dst, 0, 0, imm)
}
pub fn mov_reg(dst: u8, src: u8) -> Slot {
    slot(0xbf, dst, src, 0, 0)
}
pub fn add(dst: u8, imm: i32) -> Slot {
    slot(0x07, dst, 0, 0, imm)
}
pub fn add_reg(dst: u8, src: u8) -> Slot {
    slot(0x0f, dst, src, 0, 0)
}
pub fn ldxb(dst: u8, src: u8, off: i16) -> Slot {
    slot(0x71, dst, src, off, 0)
}
pub fn ldxw(dst: u8, src: u8, off: i16) -> Slot {
    slot(0x61, dst, src, off, 0)
}
pub fn ldxd(dst: u8, src: u8, off: i16) -> Slot {
    slot(0x79, dst, src, off, 0)
}
pub fn stxw(dst: u8, off: i16, src: u8) -> Slot {
    slot(0x63, dst, src, off, 0)
}
pub fn stxb(dst: u8, off: i16, src: u8) -> Slot {
    slot(0x73, dst, src, off, 0)
}
pub fn stxd(dst: u8, off: i16, src: u8) -> Slot {
    slot(0x7b, dst, src, off, 0)
}
pub fn stw(dst: u8, off: i16, imm: i32) -> Slot {
    slot(0x62, dst, 0, off, imm)
}
pub fn stb(dst: u8, off: i16, imm: i32) -> Slot {
    slot(0x72, dst, 0, off, imm)
}
pub fn std(dst: u8, off: i16, imm: i32) -> Slot {
    slot(0x7a, dst, 0, off, imm)
}
pub fn jeq(dst: u8, imm: i32, off: i16) -> Slot {
    slot(0x15, dst, 0, off, imm)
}
pub fn jgt_reg(dst: u8, src: u8, off: i16) -> Slot {
    slot(0x2d, dst, src, off, 0)
}
pub fn goto(off: i16) -> Slot {
    slot(0x05, 0, 0, off, 0)
}
pub fn call(helper: i32) -> Slot {
    slot(0x85, 0, 0, 0, helper)
}
pub fn exit() -> Slot {
    slot(0x95, 0, 0, 0, 0)
}
/// `dst = map[index] ll`.
pub fn map(dst: u8, index: i32) -> [Slot; 2] {
    [slot(0x18, dst, 5, 0, index), Slot::default()]
}
/// `dst = map[index] value + offset ll`.
pub fn map_value(dst: u8, index: i32, offset: i32) -> [Slot; 2] {
    [slot(0x18, dst, 6, 0, index), slot(0, 0, 0, 0, offset)]
}

pub fn map_def(name: &str, kind: MapType, key_size: u32, value_size: u32, max_entries: u32) -> MapDef {
    MapDef {
        name: name.into(),
        kind,
        key_size,
        value_size,
        max_entries,
        flags: 0,
        fd: None,
        initial: None,
        frozen: false,
        inner: None,
    }
}

/// None, after saying so, when this process may not use BPF.
pub fn permitted(test: &str) -> Option<()> {
    let slots = [mov(R0, 0), exit()];
    match load(&LoadRequest::new("permitted", ProgramType::XDP, &slots)) {
        Err(LoadError::NotPermitted(e)) => {
            eprintln!("SKIPPED {test}: {e}");
            None
        }
        other => {
            other.expect("the shortest program loads");
            Some(())
        }
    }
}

pub fn load_with(kind: ProgramType, slots: &[Slot], maps: &MapSet) -> LoadedProgram {
    match load(&LoadRequest::new("test", kind, slots).with_maps(maps)) {
        Ok(program) => program,
        Err(LoadError::Rejected(r)) => panic!("rejected ({}): {}", r.errno, r.log),
        Err(e) => panic!("{e}"),
    }
}
