//! Internet checksums (kernel `include/net/checksum.h`, `net/core/filter.c`).

use super::Family;
use crate::interpreter::errno::*;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;

pub(super) const FAMILY: Family = &[
    (10, "l3_csum_replace", replace_network),
    (11, "l4_csum_replace", replace_transport),
    (28, "csum_diff", difference),
    (40, "csum_update", update),
    (135, "csum_level", level),
];

/// Low bits of the flags: size of the field that changed, 0 when a difference is given.
const SIZE: u64 = 0xf;
const PSEUDO_HEADER: u64 = 0x10;
const MARK_MANGLED: u64 = 0x20;
const MARK_ENFORCE: u64 = 0x40;

fn add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u32
}

fn sub(a: u32, b: u32) -> u32 {
    add(a, !b)
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Sum of 32-bit words with end-around carry.
fn partial(bytes: &[u8], seed: u32) -> u32 {
    let words = bytes.chunks(4).map(|c| {
        let mut word = [0; 4];
        word[..c.len()].copy_from_slice(c);
        u32::from_le_bytes(word)
    });
    words.fold(seed, add)
}

/// The checksum after a field changed; with `from` absent `to` is a difference.
fn replaced(sum: u16, from: Option<u32>, to: u32) -> u16 {
    let base = !(sum as u32);
    fold(add(from.map_or(base, |from| sub(base, from)), to))
}

/// `csum_replace2`, which adds in 16 bits.
fn replaced_16(sum: u16, from: u16, to: u16) -> u16 {
    let add = |a: u16, b: u16| {
        let (sum, carry) = a.overflowing_add(b);
        sum + carry as u16
    };
    !add(add(!sum, !from), to)
}

/// The checksum field at an offset of the packet.
fn field<'m>(m: &'m mut Machine<'_>, offset: u64) -> Option<&'m mut [u8]> {
    let offset = usize::try_from(offset as u32).ok().filter(|o| *o <= 0xffff && o % 2 == 0)?;
    m.memory.packet.bytes_mut().get_mut(offset..offset + 2)
}

fn replace_network(m: &mut Machine, [_, offset, from, to, flags]: [u64; 5]) -> Result<u64, Trap> {
    if flags & !SIZE != 0 {
        return Ok(negative(EINVAL));
    }
    let Some(field) = field(m, offset) else { return Ok(negative(EFAULT)) };
    let sum = u16::from_le_bytes([field[0], field[1]]);
    let new = match flags & SIZE {
        0 if from == 0 => replaced(sum, None, to as u32),
        2 => replaced_16(sum, from as u16, to as u16),
        4 => replaced(sum, Some(from as u32), to as u32),
        _ => return Ok(negative(EINVAL)),
    };
    field.copy_from_slice(&new.to_le_bytes());
    Ok(0)
}

fn replace_transport(m: &mut Machine, [_, offset, from, to, flags]: [u64; 5]) -> Result<u64, Trap> {
    if flags & !(SIZE | PSEUDO_HEADER | MARK_MANGLED | MARK_ENFORCE) != 0 {
        return Ok(negative(EINVAL));
    }
    let Some(field) = field(m, offset) else { return Ok(negative(EFAULT)) };
    let sum = u16::from_le_bytes([field[0], field[1]]);
    let zero_means_none = flags & MARK_MANGLED != 0;
    if zero_means_none && flags & MARK_ENFORCE == 0 && sum == 0 {
        return Ok(0);
    }
    let new = match flags & SIZE {
        0 if from == 0 => replaced(sum, None, to as u32),
        2 => replaced(sum, Some(from as u16 as u32), to as u16 as u32),
        4 => replaced(sum, Some(from as u32), to as u32),
        _ => return Ok(negative(EINVAL)),
    };
    let new = if zero_means_none && new == 0 { 0xffff } else { new };
    field.copy_from_slice(&new.to_le_bytes());
    Ok(0)
}

fn difference(m: &mut Machine, [from, from_len, to, to_len, seed]: [u64; 5]) -> Result<u64, Trap> {
    let (from_len, to_len, seed) = (from_len as u32 as usize, to_len as u32 as usize, seed as u32);
    let from = m.memory.read(from, from_len)?;
    let to = m.memory.read(to, to_len)?;
    if from_len % 4 != 0 || to_len % 4 != 0 {
        return Ok(negative(EINVAL));
    }
    let sum = match (from_len, to_len) {
        (0, _) => partial(to, seed),
        (_, 0) => !partial(from, !seed),
        (_, _) => sub(partial(to, seed), partial(from, 0)),
    };
    // Since Linux 6.13 the result is folded to 16 bits on every architecture.
    Ok((sum.wrapping_add(sum.rotate_left(16)) >> 16) as u64)
}

/// The checksum of packets that the hardware summed; this model has none of those.
fn update(_: &mut Machine, _: [u64; 5]) -> Result<u64, Trap> {
    Ok(negative(ENOTSUPP))
}

fn level(m: &mut Machine, [_, level, ..]: [u64; 5]) -> Result<u64, Trap> {
    match level {
        // Ask: the packet carries no checksum that the hardware verified.
        0 => Ok(negative(EACCES)),
        1..=3 => {
            let level = m.argument(level);
            m.record(vec![level])?;
            Ok(0)
        }
        _ => Ok(negative(EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checksum that is changed piecewise is the checksum of the changed bytes.
    #[test]
    fn replacing_a_field_gives_the_sum_of_the_new_bytes() {
        let old = *b"\x45\x00\x00\x54\x12\x34\x40\x00\x40\x01\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02";
        let mut new = old;
        new[12..16].copy_from_slice(&[192, 168, 7, 9]);
        let word = |b: &[u8]| u32::from_le_bytes([b[12], b[13], b[14], b[15]]);
        let (before, after) = (fold(partial(&old, 0)), fold(partial(&new, 0)));
        assert_eq!(replaced(before, Some(word(&old)), word(&new)), after);
        assert_eq!(replaced(before, None, sub(word(&new), word(&old))), after);
        assert_eq!(replaced_16(replaced_16(before, 10, 192 | 168 << 8), 256, 7 | 9 << 8), after);
    }
}
