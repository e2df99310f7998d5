//! Formatted text.

use super::{Family, probe};
use crate::interpreter::address;
use crate::interpreter::errno::*;
use crate::interpreter::event::Argument;
use crate::interpreter::fault::Trap;
use crate::interpreter::machine::Machine;

pub(super) const FAMILY: Family = &[
    (6, "trace_printk", trace),
    (126, "seq_printf", sequence),
    (127, "seq_write", sequence_bytes),
    (165, "snprintf", print),
    (177, "trace_vprintk", trace_many),
];

/// Longest text that is written (the kernel's buffers are smaller).
const MAX_TEXT: usize = 4096;

/// Fills in a format; an error number for what the kernel's `bpf_bprintf_prepare` refuses.
fn format(m: &Machine, format: &[u8], arguments: &[u64]) -> Result<Vec<u8>, i64> {
    let mut out = Vec::new();
    let mut arguments = arguments.iter();
    let mut rest = format.iter().copied().take_while(|b| *b != 0).peekable();
    while let Some(byte) = rest.next() {
        if out.len() > MAX_TEXT {
            return Err(E2BIG);
        }
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = rest.next_if(|b| b"0 +-#".contains(b)) {
            spec.zeros |= flag == b'0';
            spec.left |= flag == b'-';
            spec.alternate |= flag == b'#';
        }
        while let Some(digit) = rest.next_if(u8::is_ascii_digit) {
            spec.width = (spec.width * 10 + (digit - b'0') as usize).min(MAX_TEXT);
        }
        while rest.next_if_eq(&b'l').is_some() {
            spec.long = true;
        }
        let conversion = rest.next().ok_or(EINVAL)?;
        if conversion == b'%' {
            out.push(b'%');
            continue;
        }
        let argument = *arguments.next().ok_or(EINVAL)?;
        if conversion == b'p' {
            let suffix: Vec<u8> = std::iter::from_fn(|| rest.next_if(u8::is_ascii_alphanumeric)).collect();
            out.extend(pointer(m, &suffix, argument)?);
        } else {
            out.extend(spec.apply(m, conversion, argument)?);
        }
    }
    Ok(out)
}

#[derive(Default)]
struct Spec {
    zeros: bool,
    left: bool,
    alternate: bool,
    long: bool,
    width: usize,
}

impl Spec {
    fn apply(&self, m: &Machine, conversion: u8, argument: u64) -> Result<Vec<u8>, i64> {
        let narrow = if self.long { argument } else { argument as u32 as u64 };
        let text = match conversion {
            b'd' | b'i' if self.long => (argument as i64).to_string(),
            b'd' | b'i' => (argument as i32).to_string(),
            b'u' => narrow.to_string(),
            b'x' if self.alternate => format!("{narrow:#x}"),
            b'x' => format!("{narrow:x}"),
            b'X' if self.alternate => format!("0X{narrow:X}"),
            b'X' => format!("{narrow:X}"),
            b'c' => return Ok(self.pad(vec![argument as u8])),
            b's' => {
                let mut text = probe::text(m, argument, MAX_TEXT).ok_or(EFAULT)?;
                text.pop();
                return Ok(self.pad(text));
            }
            _ => return Err(EINVAL),
        };
        Ok(self.pad(text.into_bytes()))
    }

    fn pad(&self, mut text: Vec<u8>) -> Vec<u8> {
        let missing = self.width.saturating_sub(text.len());
        if self.left {
            text.resize(text.len() + missing, b' ');
        } else {
            let signed = self.zeros && text.first() == Some(&b'-');
            let fill = if self.zeros { b'0' } else { b' ' };
            text.splice(signed as usize..signed as usize, std::iter::repeat_n(fill, missing));
        }
        text
    }
}

/// `%p` and its extensions for addresses in packets.
fn pointer(m: &Machine, suffix: &[u8], argument: u64) -> Result<Vec<u8>, i64> {
    let octets = |len| {
        let mut bytes = vec![0; len];
        probe::peek(m, argument, &mut bytes).map(|()| bytes).ok_or(EFAULT)
    };
    Ok(match suffix {
        // Which stack bytes a pointer points to is the program's own business.
        b"" | b"K" | b"x" | b"B" | b"s" | b"S" => {
            let stack = address::place(argument).is_some_and(|p| p.kind == address::Kind::Stack);
            format!("{:016x}", if stack { address::base(address::Kind::Stack, 0) } else { argument }).into_bytes()
        }
        b"ks" | b"us" => {
            let mut text = probe::text(m, argument, MAX_TEXT).ok_or(EFAULT)?;
            text.pop();
            text
        }
        b"i4" | b"I4" => {
            let text: Vec<String> = octets(4)?.iter().map(u8::to_string).collect();
            text.join(".").into_bytes()
        }
        b"i6" | b"I6" => {
            let text: Vec<String> = octets(16)?.chunks(2).map(|c| format!("{:02x}{:02x}", c[0], c[1])).collect();
            text.join(":").into_bytes()
        }
        _ => return Err(EINVAL),
    })
}

/// A format that ends with a zero byte.
fn template(m: &Machine, address: u64, len: u64) -> Result<Option<Vec<u8>>, Trap> {
    let bytes = m.memory.read(address, len as u32 as usize)?;
    Ok((bytes.last() == Some(&0)).then(|| bytes.to_vec()))
}

/// An array of 64-bit arguments.
fn numbers(m: &Machine, address: u64, len: u64) -> Result<Vec<u64>, Trap> {
    let bytes = m.memory.read(address, len as u32 as usize)?;
    Ok(bytes.chunks_exact(8).map(|c| c.iter().rev().fold(0, |v, b| v << 8 | *b as u64)).collect())
}

/// Formats and records the text; returns its length or `-errno`.
fn say(m: &mut Machine, template: Option<Vec<u8>>, arguments: &[u64], result: Option<u64>) -> Result<u64, Trap> {
    let text = template.ok_or(EINVAL).and_then(|t| format(m, &t, arguments));
    match text {
        Ok(text) => {
            let len = text.len() as u64;
            m.record(vec![Argument::Bytes(text)])?;
            Ok(result.unwrap_or(len))
        }
        Err(errno) => Ok(negative(errno)),
    }
}

fn trace(m: &mut Machine, [text, len, a, b, c]: [u64; 5]) -> Result<u64, Trap> {
    let template = template(m, text, len)?;
    say(m, template, &[a, b, c], None)
}

fn trace_many(m: &mut Machine, [text, len, data, data_len, _]: [u64; 5]) -> Result<u64, Trap> {
    let (template, arguments) = (template(m, text, len)?, numbers(m, data, data_len)?);
    say(m, template, &arguments, None)
}

fn sequence(m: &mut Machine, [_, text, len, data, data_len]: [u64; 5]) -> Result<u64, Trap> {
    let (template, arguments) = (template(m, text, len)?, numbers(m, data, data_len)?);
    say(m, template, &arguments, Some(0))
}

fn sequence_bytes(m: &mut Machine, [_, data, len, ..]: [u64; 5]) -> Result<u64, Trap> {
    let bytes = m.memory.read(data, len as u32 as usize)?.to_vec();
    m.record(vec![Argument::Bytes(bytes)])?;
    Ok(0)
}

fn print(m: &mut Machine, [target, size, text, data, data_len]: [u64; 5]) -> Result<u64, Trap> {
    let size = size as u32 as usize;
    m.memory.write(target, size)?;
    if data_len % 8 != 0 {
        return Ok(negative(EINVAL));
    }
    let arguments = numbers(m, data, data_len)?;
    let Some(template) = probe::text(m, text, MAX_TEXT) else { return Ok(negative(EFAULT)) };
    match format(m, &template, &arguments) {
        Ok(text) => {
            let target = m.memory.write(target, size)?;
            if let Some(room) = size.checked_sub(1) {
                let copied = text.len().min(room);
                target[..copied].copy_from_slice(&text[..copied]);
                target[copied] = 0;
            }
            Ok(text.len() as u64 + 1)
        }
        Err(errno) => Ok(negative(errno)),
    }
}
