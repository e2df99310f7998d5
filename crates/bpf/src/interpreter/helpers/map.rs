//! Maps: look up, change, walk.

use super::Family;
use crate::interpreter::errno::*;
use crate::interpreter::fault::{Limit, Reason, Trap, unsupported};
use crate::interpreter::machine::Machine;

pub(super) const FAMILY: Family = &[
    (1, "map_lookup_elem", lookup),
    (2, "map_update_elem", update),
    (3, "map_delete_elem", delete),
    (87, "map_push_elem", push),
    (88, "map_pop_elem", pop),
    (89, "map_peek_elem", peek),
    (164, "for_each_map_elem", for_each),
    (195, "map_lookup_percpu_elem", lookup_on_cpu),
];

/// The map of a handle, when its contents are modelled.
fn modelled(m: &Machine, handle: u64) -> Result<usize, Trap> {
    let map = m.map_argument(handle)?;
    let def = m.memory.maps[map].def();
    if m.memory.maps[map].is_modelled() {
        Ok(map)
    } else {
        Err(unsupported(format!("map {} of type {}", def.name, def.kind.name())))
    }
}

fn limit(limit: Limit) -> Trap {
    Box::new(Reason::Limit(limit))
}

fn key(m: &Machine, map: usize, address: u64) -> Result<Vec<u8>, Trap> {
    Ok(m.memory.read(address, m.memory.maps[map].def().key_size as usize)?.to_vec())
}

fn value(m: &Machine, map: usize, address: u64) -> Result<Vec<u8>, Trap> {
    Ok(m.memory.read(address, m.memory.maps[map].def().value_size as usize)?.to_vec())
}

fn lookup(m: &mut Machine, [map, key_at, ..]: [u64; 5]) -> Result<u64, Trap> {
    let map = modelled(m, map)?;
    let key = key(m, map, key_at)?;
    let found = m.memory.maps[map].lookup(&key, m.world.cpu).map_err(limit)?;
    Ok(found.unwrap_or(0))
}

fn lookup_on_cpu(m: &mut Machine, [map, key_at, cpu, ..]: [u64; 5]) -> Result<u64, Trap> {
    let map = modelled(m, map)?;
    let key = key(m, map, key_at)?;
    match u32::try_from(cpu) {
        Ok(cpu) if cpu < m.world.cpus => Ok(m.memory.maps[map].lookup(&key, cpu).map_err(limit)?.unwrap_or(0)),
        _ => Ok(0),
    }
}

fn update(m: &mut Machine, [map, key_at, value_at, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    let map = modelled(m, map)?;
    let (key, value) = (key(m, map, key_at)?, value(m, map, value_at)?);
    let result = m.memory.maps[map].update(&key, &value, flags, m.world.cpu).map_err(limit)?;
    Ok(result as u64)
}

fn delete(m: &mut Machine, [map, key_at, ..]: [u64; 5]) -> Result<u64, Trap> {
    let map = modelled(m, map)?;
    let key = key(m, map, key_at)?;
    Ok(m.memory.maps[map].delete(&key) as u64)
}

fn push(m: &mut Machine, [map, value_at, flags, ..]: [u64; 5]) -> Result<u64, Trap> {
    let map = modelled(m, map)?;
    let value = value(m, map, value_at)?;
    Ok(m.memory.maps[map].push(&value, flags).unwrap_or(-EOPNOTSUPP) as u64)
}

fn pop(m: &mut Machine, [map, value_at, ..]: [u64; 5]) -> Result<u64, Trap> {
    next(m, map, value_at, true)
}

fn peek(m: &mut Machine, [map, value_at, ..]: [u64; 5]) -> Result<u64, Trap> {
    next(m, map, value_at, false)
}

fn next(m: &mut Machine, map: u64, value_at: u64, take: bool) -> Result<u64, Trap> {
    let map = modelled(m, map)?;
    let size = m.memory.maps[map].def().value_size as usize;
    m.memory.write(value_at, size)?;
    let Some(next) = m.memory.maps[map].next(take) else { return Ok(negative(EOPNOTSUPP)) };
    let target = m.memory.write(value_at, size)?;
    match next {
        Some(value) => {
            target.copy_from_slice(&value);
            Ok(0)
        }
        // As the kernel does, so that the caller's memory is initialised in any case.
        None => {
            target.fill(0);
            Ok(negative(ENOENT))
        }
    }
}

fn for_each(m: &mut Machine, [handle, callback, context, flags, _]: [u64; 5]) -> Result<u64, Trap> {
    let map = modelled(m, handle)?;
    let function = super::control::callback(m, callback)?;
    if flags != 0 {
        return Ok(negative(EINVAL));
    }
    let Some(keys) = m.memory.maps[map].keys() else { return Ok(negative(EOPNOTSUPP)) };
    let key_at = m.memory.make_record(map as u32, m.memory.maps[map].def().key_size as usize)?;
    let mut visited = 0;
    for key in keys {
        // The callback may have removed it.
        let Some(value) = m.memory.maps[map].lookup(&key, m.world.cpu).map_err(limit)? else { continue };
        m.memory.write(key_at, key.len())?.copy_from_slice(&key);
        visited += 1;
        if m.call_back(function, &[handle, key_at, value, context])? != 0 {
            break;
        }
    }
    m.memory.take_record(key_at);
    Ok(visited)
}
