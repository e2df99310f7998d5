//! Packets at the XDP hook.

use super::Family;
use crate::interpreter::errno::*;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;
use crate::interpreter::packet::NoRoom;

pub(super) const FAMILY: Family = &[
    (44, "xdp_adjust_head", adjust_head),
    (54, "xdp_adjust_meta", adjust_meta),
    (65, "xdp_adjust_tail", adjust_tail),
    (188, "xdp_get_buff_len", length),
    (189, "xdp_load_bytes", load),
    (190, "xdp_store_bytes", store),
];

fn done(result: Result<(), NoRoom>) -> Result<u64, Trap> {
    Ok(result.map_or(negative(EINVAL), |()| 0))
}

fn adjust_head(m: &mut Machine, [_, delta, ..]: [u64; 5]) -> Result<u64, Trap> {
    done(m.memory.packet.adjust_head(delta as i32 as i64))
}

fn adjust_meta(m: &mut Machine, [_, delta, ..]: [u64; 5]) -> Result<u64, Trap> {
    done(m.memory.packet.adjust_meta(delta as i32 as i64))
}

fn adjust_tail(m: &mut Machine, [_, delta, ..]: [u64; 5]) -> Result<u64, Trap> {
    done(m.memory.packet.adjust_tail(delta as i32 as i64))
}

fn length(m: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(m.memory.packet.len() as u64)
}

fn load(m: &mut Machine, [_, offset, target, len, _]: [u64; 5]) -> Result<u64, Trap> {
    let (offset, len) = (offset as u32 as usize, len as u32 as usize);
    m.memory.write(target, len)?;
    let Some(bytes) = m.memory.packet.bytes().get(offset..offset + len) else { return Ok(negative(EINVAL)) };
    let bytes = bytes.to_vec();
    m.memory.write(target, len)?.copy_from_slice(&bytes);
    Ok(0)
}

fn store(m: &mut Machine, [_, offset, source, len, _]: [u64; 5]) -> Result<u64, Trap> {
    let (offset, len) = (offset as u32 as usize, len as u32 as usize);
    let bytes = m.memory.read(source, len)?.to_vec();
    let Some(target) = m.memory.packet.bytes_mut().get_mut(offset..offset + len) else {
        return Ok(negative(EINVAL));
    };
    target.copy_from_slice(&bytes);
    Ok(0)
}
