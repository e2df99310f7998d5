//! Ring buffers: a record is reserved, filled and handed over; then it is an event.

use super::Family;
use crate::interpreter::errno::*;
use crate::interpreter::event::Argument;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;
use crate::map::MapType;

pub(super) const FAMILY: Family = &[
    (130, "ringbuf_output", output),
    (131, "ringbuf_reserve", reserve),
    (132, "ringbuf_submit", submit),
    (133, "ringbuf_discard", discard),
    (134, "ringbuf_query", query),
];

/// `BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP`
const WAKEUP: u64 = 3;

fn ring(m: &Machine, handle: u64) -> Result<(usize, u64), Trap> {
    let map = m.map_argument(handle)?;
    let def = m.memory.maps[map].def();
    if def.kind != MapType::RINGBUF {
        return Err(m.bad_argument(format!("map {} is no ring buffer", def.name)));
    }
    Ok((map, def.max_entries as u64))
}

/// Bytes of a record with its header of eight.
fn taken(len: u64) -> u64 {
    len.saturating_add(8).checked_next_multiple_of(8).unwrap_or(u64::MAX)
}

fn reserve(m: &mut Machine, [handle, len, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    let (map, size) = ring(m, handle)?;
    if flags != 0 || len >> 30 != 0 || taken(len) > size {
        return Ok(0);
    }
    m.memory.make_record(map as u32, len as usize)
}

fn take(m: &mut Machine, record: u64) -> Result<(u32, Vec<u8>), Trap> {
    let taken = m.memory.take_record(record);
    taken.ok_or_else(|| m.bad_argument(format!("{record:#x} is no reserved record")))
}

fn submit(m: &mut Machine, [record, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    let (map, bytes) = take(m, record)?;
    m.record(vec![Argument::Number(map as u64), Argument::Bytes(bytes), Argument::Number(flags)])?;
    Ok(0)
}

fn discard(m: &mut Machine, [record, ..]: [u64; 5]) -> Result<u64, Trap> {
    take(m, record)?;
    Ok(0)
}

fn output(m: &mut Machine, [handle, data, len, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    let (map, size) = ring(m, handle)?;
    if flags & !WAKEUP != 0 {
        return Ok(negative(EINVAL));
    }
    let bytes = m.memory.read(data, len as usize)?.to_vec();
    if taken(len) > size {
        return Ok(negative(EAGAIN));
    }
    m.record(vec![Argument::Number(map as u64), Argument::Bytes(bytes), Argument::Number(flags)])?;
    Ok(0)
}

/// The reader is always ahead: nothing is waiting to be read.
fn query(m: &mut Machine, [handle, what, ..]: [u64; 5]) -> Result<u64, Trap> {
    let (_, size) = ring(m, handle)?;
    Ok(if what == 1 { size } else { 0 })
}
