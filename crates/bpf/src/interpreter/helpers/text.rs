//! Numbers and comparisons of text.

use super::Family;
use crate::interpreter::errno::*;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;

pub(super) const FAMILY: Family = &[(105, "strtol", signed), (106, "strtoul", unsigned), (182, "strncmp", compare)];

/// A number in text: whether there was a minus sign, its magnitude, and the bytes it took.
/// As the kernel's `__bpf_strtoull`: white space, sign, prefix, digits.
fn parse(text: &[u8], flags: u64) -> Result<(bool, u64, usize), i64> {
    let base = flags & 31;
    if flags & !31 != 0 || !matches!(base, 0 | 8 | 10 | 16) || text.is_empty() {
        return Err(EINVAL);
    }
    let mut at = text.iter().take_while(|b| b.is_ascii_whitespace() || **b == 11).count();
    let minus = text.get(at) == Some(&b'-');
    at += minus as usize;
    let prefixed = text.get(at) == Some(&b'0') && matches!(text.get(at + 1), Some(b'x' | b'X'));
    let base = match base {
        0 if prefixed && text.get(at + 2).is_some_and(u8::is_ascii_hexdigit) => 16,
        0 if text.get(at) == Some(&b'0') => 8,
        0 => 10,
        base => base,
    };
    if base == 16 && prefixed {
        at += 2;
    }
    let (mut value, first) = (0u64, at);
    while let Some(digit) = text.get(at).and_then(|b| (*b as char).to_digit(base as u32)) {
        value = value.checked_mul(base).and_then(|v| v.checked_add(digit as u64)).ok_or(ERANGE)?;
        at += 1;
    }
    if at == first { Err(EINVAL) } else { Ok((minus, value, at)) }
}

fn signed(m: &mut Machine, [text, len, flags, target, _]: [u64; 5]) -> Result<u64, Trap> {
    let number = parse(m.memory.read(text, len as usize)?, flags).and_then(|(minus, value, taken)| {
        let value = if minus { -(value as i128) } else { value as i128 };
        i64::try_from(value).map(|v| (v as u64, taken)).map_err(|_| ERANGE)
    });
    give(m, number, target)
}

fn unsigned(m: &mut Machine, [text, len, flags, target, _]: [u64; 5]) -> Result<u64, Trap> {
    let number = parse(m.memory.read(text, len as usize)?, flags)
        .and_then(|(minus, value, taken)| if minus { Err(EINVAL) } else { Ok((value, taken)) });
    give(m, number, target)
}

fn give(m: &mut Machine, number: Result<(u64, usize), i64>, target: u64) -> Result<u64, Trap> {
    let target = m.memory.write(target, 8)?;
    match number {
        Ok((value, taken)) => {
            target.copy_from_slice(&value.to_le_bytes());
            Ok(taken as u64)
        }
        Err(errno) => Ok(negative(errno)),
    }
}

fn compare(m: &mut Machine, [left, len, right, ..]: [u64; 5]) -> Result<u64, Trap> {
    let left = m.memory.read(left, len as u32 as usize)?;
    for (i, a) in left.iter().enumerate() {
        let b = m.memory.read(right.wrapping_add(i as u64), 1)?[0];
        if *a != b {
            return Ok(if *a < b { -1i64 as u64 } else { 1 });
        }
        if b == 0 {
            break;
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_kernel_reads_them() {
        assert_eq!(parse(b" -12x", 0), Ok((true, 12, 4)));
        assert_eq!(parse(b"0x1F ", 0), Ok((false, 31, 4)));
        assert_eq!(parse(b"0x1F", 16), Ok((false, 31, 4)));
        assert_eq!(parse(b"017", 0), Ok((false, 15, 3)));
        assert_eq!(parse(b"18446744073709551616", 10), Err(ERANGE));
        assert_eq!(parse(b"-", 10), Err(EINVAL));
        assert_eq!(parse(b"7", 7), Err(EINVAL));
        assert_eq!(parse(b"7", 32), Err(EINVAL));
    }
}
