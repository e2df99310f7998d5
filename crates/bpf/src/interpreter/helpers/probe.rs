//! Reading memory that may not be there.

use super::Family;
use crate::interpreter::address;
use crate::interpreter::errno::*;
use crate::interpreter::event::Argument;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;

pub(super) const FAMILY: Family = &[
    (4, "probe_read", read),
    (36, "probe_write_user", write_user),
    (45, "probe_read_str", read_text),
    (112, "probe_read_user", read),
    (113, "probe_read_kernel", read),
    (114, "probe_read_user_str", read_text),
    (115, "probe_read_kernel_str", read_text),
    (148, "copy_from_user", read),
];

/// Addresses below this are not mapped.
const FIRST_PAGE: u64 = 4096;

/// Reads the program's own objects or else the kernel's memory; `None` when nothing is there.
pub(super) fn peek(m: &Machine, address: u64, bytes: &mut [u8]) -> Option<()> {
    match address::place(address) {
        Some(place) if place.kind != address::Kind::Object => {
            bytes.copy_from_slice(m.memory.peek(address, bytes.len())?);
        }
        _ if address < FIRST_PAGE => return None,
        _ => m.memory.kernel.read(address, bytes),
    }
    Some(())
}

/// Bytes up to and including the first zero byte, at most `limit`; the last is then made zero.
pub(super) fn text(m: &Machine, address: u64, limit: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < limit {
        let mut byte = [0];
        peek(m, address.wrapping_add(text.len() as u64), &mut byte)?;
        text.push(byte[0]);
        if byte[0] == 0 {
            return Some(text);
        }
    }
    if let Some(last) = text.last_mut() {
        *last = 0;
    }
    Some(text)
}

fn read(m: &mut Machine, [target, len, source, ..]: [u64; 5]) -> Result<u64, Trap> {
    let len = len as u32 as usize;
    m.memory.write(target, len)?;
    let mut bytes = vec![0; len];
    let result = match peek(m, source, &mut bytes) {
        Some(()) => 0,
        None => {
            bytes.fill(0);
            negative(EFAULT)
        }
    };
    m.memory.write(target, len)?.copy_from_slice(&bytes);
    Ok(result)
}

fn read_text(m: &mut Machine, [target, len, source, ..]: [u64; 5]) -> Result<u64, Trap> {
    let len = len as u32 as usize;
    m.memory.write(target, len)?;
    match text(m, source, len) {
        Some(text) => {
            m.memory.write(target, text.len())?.copy_from_slice(&text);
            Ok(text.len() as u64)
        }
        None => {
            m.memory.write(target, len)?.fill(0);
            Ok(negative(EFAULT))
        }
    }
}

fn write_user(m: &mut Machine, [target, source, len, ..]: [u64; 5]) -> Result<u64, Trap> {
    let bytes = m.memory.read(source, len as u32 as usize)?.to_vec();
    m.record(vec![Argument::Number(target), Argument::Bytes(bytes)])?;
    Ok(0)
}
