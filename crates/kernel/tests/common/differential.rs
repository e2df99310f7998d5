//! Programs to run side by side, and running them.

use super::*;
use karakoram_kernel::differential::{Differential, Divergence, Side};
use karakoram_kernel::map::MapSetOptions;
use karakoram_kernel::run::RunInput;

/// Adds `step` to the eight bytes at the key in packet byte 0 of map 0, when it is there; returns
/// `verdict`, and writes packet byte 0 plus one to byte 1.
pub fn counter(step: i32, verdict: i32) -> Vec<Slot> {
    let [low, high] = map(R1, 0);
    vec![
        ldxw(R2, R1, 0),
        ldxw(R3, R1, 4),
        mov_reg(R4, R2),
        add(R4, 14),
        mov(R0, 1),
        jgt_reg(R4, R3, 14),
        ldxb(R5, R2, 0),
        stxw(R10, -4, R5),
        add(R5, 1),
        stxb(R2, 1, R5),
        mov_reg(R2, R10),
        add(R2, -4),
        low,
        high,
        call(1),
        jeq(R0, 0, 3),
        ldxd(R1, R0, 0),
        add(R1, step),
        stxd(R0, 0, R1),
        mov(R0, verdict),
        exit(),
    ]
}

/// Counts in a hash table: `map[packet byte 0] = step`, inserted when missing.
pub fn inserter(step: i32) -> Vec<Slot> {
    let [low, high] = map(R1, 0);
    vec![
        ldxw(R2, R1, 0),
        ldxw(R3, R1, 4),
        mov_reg(R4, R2),
        add(R4, 14),
        mov(R0, 1),
        jgt_reg(R4, R3, 12),
        ldxb(R5, R2, 0),
        stxw(R10, -4, R5),
        std(R10, -16, step),
        mov_reg(R2, R10),
        add(R2, -4),
        mov_reg(R3, R10),
        add(R3, -16),
        mov(R4, 0),
        low,
        high,
        call(2),
        mov(R0, 2),
        exit(),
    ]
}

/// Puts `value` into ring buffer 0.
pub fn reporter(value: i32) -> Vec<Slot> {
    let [low, high] = map(R1, 0);
    vec![
        std(R10, -8, value),
        low,
        high,
        mov_reg(R2, R10),
        add(R2, -8),
        mov(R3, 8),
        mov(R4, 0),
        call(130),
        mov(R0, 2),
        exit(),
    ]
}

/// Loads both and runs them on `packets` packets whose first byte counts up.
pub fn compare(defs: &[MapDef], a: &[Slot], b: &[Slot], packets: u32) -> (Option<Divergence>, usize) {
    let options = MapSetOptions { mapped: true, most_entries: Some(64), ..Default::default() };
    let (maps_a, maps_b) = (MapSet::create(defs, &options).unwrap(), MapSet::create(defs, &options).unwrap());
    let (program_a, program_b) = (load_with(ProgramType::XDP, a, &maps_a), load_with(ProgramType::XDP, b, &maps_b));
    let sides = (Side { program: &program_a, maps: &maps_a }, Side { program: &program_b, maps: &maps_b });
    let mut differential = Differential::new(sides.0, sides.1).unwrap();
    let inputs = packets_for(&program_a, packets);
    (differential.run_all(&inputs).unwrap(), differential.interval())
}

pub fn packets_for(program: &LoadedProgram, packets: u32) -> Vec<RunInput> {
    (0..packets).map(|n| RunInput::packet(program, vec![n as u8; 64])).collect()
}
