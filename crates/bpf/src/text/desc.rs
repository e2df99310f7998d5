//! `.desc`: what a program gets in `r1`.
//!
//! ```text
//! { pgm_input_type = 1, }
//! { max_pkt_sz = 64, }
//! ```
//!
//! Type 0 is a number, 1 a buffer of `max_pkt_sz` bytes, 2 the context of XDP, 3 that of a program on
//! socket buffers (`sched_cls`).

use super::TextError;
use crate::hook::{Hook, ProgramType};

/// A description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Desc {
    /// What `r1` is.
    pub hook: Hook,
    /// Longest packet, in bytes.
    pub max_packet_bytes: u32,
}

/// Longest packet a description may ask for.
const MOST_BYTES: u32 = 1 << 20;

/// Reads a description. Line breaks, braces and commas only separate.
pub fn parse(source: &str) -> Result<Desc, TextError> {
    let (mut kind, mut bytes) = (None, None);
    for (index, text) in source.lines().enumerate() {
        for field in text.split(['{', '}', ',']).map(str::trim).filter(|f| !f.is_empty()) {
            let wrong = |why: &str| TextError::at(index + 1, field, why);
            let (key, value) = field.split_once('=').ok_or_else(|| wrong("expected `key = value`"))?;
            let value: u32 = value.trim().parse().map_err(|_| wrong("not a number"))?;
            let place = match key.trim() {
                "pgm_input_type" => &mut kind,
                "max_pkt_sz" => &mut bytes,
                _ => return Err(wrong("unknown; a description has `pgm_input_type` and `max_pkt_sz`")),
            };
            if place.replace((value, index + 1)).is_some() {
                return Err(wrong("it is there twice"));
            }
        }
    }
    let (kind, kind_line) = kind.ok_or_else(|| TextError::whole("the description has no `pgm_input_type`"))?;
    let max_packet_bytes = match (bytes, kind) {
        (Some((bytes, line)), _) if bytes > MOST_BYTES => {
            return Err(TextError::at(line, &bytes.to_string(), format!("more than {MOST_BYTES} bytes")));
        }
        (Some((bytes, _)), _) => bytes,
        (None, 1) => return Err(TextError::whole("the description has no `max_pkt_sz`")),
        (None, _) => 0,
    };
    let hook = match kind {
        0 => Hook::Constant,
        1 => Hook::Buffer(max_packet_bytes),
        2 => Hook::Kernel(ProgramType::XDP),
        3 => Hook::Kernel(ProgramType::SCHED_CLS),
        _ => {
            let why = "unknown input; 0 constant, 1 packet, 2 XDP, 3 skb";
            return Err(TextError::at(kind_line, &kind.to_string(), why));
        }
    };
    Ok(Desc { hook, max_packet_bytes })
}

/// Writes a description, when the format has a type for the hook.
pub fn print(desc: &Desc) -> Result<String, TextError> {
    let (kind, bytes) = match desc.hook {
        Hook::Constant => (0, desc.max_packet_bytes),
        Hook::Buffer(bytes) => (1, bytes),
        Hook::Kernel(ProgramType::XDP) => (2, desc.max_packet_bytes),
        Hook::Kernel(ProgramType::SCHED_CLS) => (3, desc.max_packet_bytes),
        hook => return Err(TextError::whole(format!("a description has no type for the hook {}", hook.name()))),
    };
    Ok(format!("{{ pgm_input_type = {kind}, }}\n{{ max_pkt_sz = {bytes}, }}\n"))
}
