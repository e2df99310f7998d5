//! Helpers that decide where control goes, and locks.

use super::Family;
use crate::insn::FuncId;
use crate::interpreter::errno::*;
use crate::interpreter::event::Argument;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;
use crate::interpreter::run::MAX_TAIL_CALLS;

pub(super) const FAMILY: Family =
    &[(12, "tail_call", tail_call), (93, "spin_lock", lock), (94, "spin_unlock", lock), (181, "loop", repeat)];

/// Most rounds of `bpf_loop` (kernel `BPF_MAX_LOOPS`).
const MAX_ROUNDS: u64 = 8 << 20;

/// The function a callback argument names.
pub(super) fn callback(m: &Machine, address: u64) -> Result<FuncId, Trap> {
    m.memory.function_at(address).ok_or_else(|| m.bad_argument(format!("{address:#x} is no function")))
}

fn tail_call(m: &mut Machine, [_, map, index, ..]: [u64; 5]) -> Result<u64, Trap> {
    let map = m.map_argument(map)?;
    let target = m.memory.maps[map].program(index as u32).filter(|_| m.tail_calls < MAX_TAIL_CALLS);
    m.record(vec![Argument::Number(map as u64), Argument::Number(index as u32 as u64)])?;
    match target {
        Some(function) => {
            m.continue_in(function);
            Ok(0)
        }
        None => Ok(negative(ENOENT)),
    }
}

/// Locking is seen by others: its place among other effects counts.
fn lock(m: &mut Machine, [lock, ..]: [u64; 5]) -> Result<u64, Trap> {
    m.memory.write(lock, 4)?;
    let lock = m.argument(lock);
    m.record(vec![lock])?;
    Ok(0)
}

fn repeat(m: &mut Machine, [rounds, function, context, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    let function = callback(m, function)?;
    let rounds = rounds as u32 as u64;
    if flags != 0 {
        return Ok(negative(EINVAL));
    }
    if rounds > MAX_ROUNDS {
        return Ok(negative(E2BIG));
    }
    for round in 0..rounds {
        if m.call_back(function, &[round, context])? != 0 {
            return Ok(round + 1);
        }
    }
    Ok(rounds)
}
