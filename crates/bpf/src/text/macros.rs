//! The `.bpf` format: a list of the C macros of Linux `samples/bpf/bpf_insn.h` and `include/linux/filter.h`,
//! read without a C compiler.
//!
//! ```text
//! BPF_LD_MAP_FD(BPF_REG_1, 4),
//! BPF_RAW_INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
//! {0x95, 0, 0, 0, 0},
//! ```
//!
//! Arguments are constant expressions: decimal, hexadecimal and octal numbers, the kernel's `BPF_*`,
//! `XDP_*` and `TC_ACT_*` constants, `BPF_FUNC_*` of every helper, `| ^ & << >> + - * / % ~` and
//! parentheses. Comments are C's. The wrapping `struct bpf_insn prog[] = { .. };` may be there, and so
//! may `#include` lines, which are not followed. A map's descriptor must be a number.

mod constants;
mod expression;
mod print;
mod rows;
mod tokens;

use super::flat;
use super::{MAX_SOURCE, TextError};
use crate::hook::Hook;
use crate::map::MapDef;
use crate::program::Program;

/// Reads a program.
pub fn parse(source: &str, hook: Hook, maps: Vec<MapDef>) -> Result<Program, TextError> {
    if source.len() > MAX_SOURCE {
        return Err(TextError::whole(format!("the text is longer than {MAX_SOURCE} bytes")));
    }
    flat::program(&rows::parse(source)?, hook, maps)
}

/// Writes a program, one macro a line.
pub fn print(program: &Program) -> Result<String, TextError> {
    Ok(flat::instructions(program)?.iter().map(print::rows).collect())
}

/// Writes a program as raw rows, `{code, dst, src, off, imm},`.
pub fn print_rows(program: &Program) -> Result<String, TextError> {
    flat::instructions(program)?;
    let slots = program.to_slots().map_err(|e| TextError::whole(e.to_string()))?;
    Ok(slots.iter().map(|s| format!("{{{}, {}, {}, {}, {}}},\n", s.code, s.dst, s.src, s.off, s.imm)).collect())
}
