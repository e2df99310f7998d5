//! Perf events and stack traces.

use super::Family;
use crate::interpreter::errno::*;
use crate::interpreter::event::Argument;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;
use crate::interpreter::random::{Random, hash};

pub(super) const FAMILY: Family = &[
    (22, "perf_event_read", read),
    (25, "perf_event_output", output),
    (27, "get_stackid", stack_id),
    (55, "perf_event_read_value", read_value),
    (56, "perf_prog_read_value", program_value),
    (67, "get_stack", stack),
    (111, "skb_output", output),
    (121, "xdp_output", output),
];

/// Low half of the flags: which CPU's event.
const INDEX: u64 = 0xffff_ffff;
/// Next 20 bits: how many bytes of the packet go with the data.
const PACKET_BYTES: u64 = 0xfffff << 32;
/// Bytes of `struct bpf_perf_event_value`.
const COUNTER_BYTES: usize = 24;
/// Depth of the stacks of this model.
const STACK_DEPTH: usize = 8;

fn output(m: &mut Machine, [_, map, flags, data, len]: [u64; 5]) -> Result<u64, Trap> {
    let map = m.map_argument(map)?;
    if flags & !(INDEX | PACKET_BYTES) != 0 {
        return Ok(negative(EINVAL));
    }
    let data = m.memory.read(data, len as usize)?.to_vec();
    let packet_bytes = (flags >> 32) as usize;
    let Some(packet) = m.memory.packet.bytes().get(..packet_bytes) else { return Ok(negative(EFAULT)) };
    let packet = packet.to_vec();
    m.record(vec![
        Argument::Number(map as u64),
        Argument::Number(flags & INDEX),
        Argument::Bytes(data),
        Argument::Bytes(packet),
    ])?;
    Ok(0)
}

/// Counters follow the clock, at a rate of their own.
fn counter(m: &Machine, map: usize, index: u64) -> u64 {
    m.world.clock_ns / 1000 * (1 + hash([map as u64, index & INDEX]) % 8)
}

fn read(m: &mut Machine, [map, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    let map = m.map_argument(map)?;
    Ok(if flags & !INDEX != 0 { negative(EINVAL) } else { counter(m, map, flags) })
}

fn read_value(m: &mut Machine, [map, flags, target, len, _]: [u64; 5]) -> Result<u64, Trap> {
    let map = m.map_argument(map)?;
    let values = [counter(m, map, flags), m.world.clock_ns, m.world.clock_ns];
    give_counter(m, target, len, (flags & !INDEX == 0).then_some(values))
}

fn program_value(m: &mut Machine, [_, target, len, ..]: [u64; 5]) -> Result<u64, Trap> {
    let values = [counter(m, 0, 0), m.world.clock_ns, m.world.clock_ns];
    give_counter(m, target, len, Some(values))
}

fn give_counter(m: &mut Machine, target: u64, len: u64, values: Option<[u64; 3]>) -> Result<u64, Trap> {
    let target = m.memory.write(target, len as u32 as usize)?;
    match values {
        Some(values) if target.len() == COUNTER_BYTES => {
            for (field, value) in target.chunks_exact_mut(8).zip(values) {
                field.copy_from_slice(&value.to_le_bytes());
            }
            Ok(0)
        }
        _ => {
            target.fill(0);
            Ok(negative(EINVAL))
        }
    }
}

fn stack_id(m: &mut Machine, [_, map, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    let map = m.map_argument(map)?;
    let buckets = m.memory.maps[map].def().max_entries.max(1) as u64;
    Ok(hash([m.memory.kernel.seed, flags, m.world.task.pid as u64]) % buckets)
}

fn stack(m: &mut Machine, [_, target, len, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    let seed = hash([m.memory.kernel.seed, flags]);
    let target = m.memory.write(target, len as u32 as usize)?;
    target.fill(0);
    let depth = (target.len() / 8).min(STACK_DEPTH);
    let mut random = Random::new(seed);
    for frame in target.chunks_exact_mut(8).take(depth) {
        frame.copy_from_slice(&(0xffff_ffff_8000_0000 | random.next() & 0xff_ffff).to_le_bytes());
    }
    Ok(depth as u64 * 8)
}
