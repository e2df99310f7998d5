//! The assembly syntax, the one that clang, llvm-objdump and the kernel's log print.
//!
//! ```text
//! .map counters type=array key=4 value=8 entries=256      ; more: flags=0x1 fd=4 data=00ff frozen
//! .func count                                             ; optional: without it there is one function, `main`
//! .section xdp                                            ; optional
//! .hook xdp                                               ; or .local, .global, .hook constant, .hook buffer=64
//!     r2 = *(u32 *)(r1 + 4)
//!     w0 = 1
//!     if r2 == 0x0 goto out                               ; or goto +12, goto pc+12
//!     r1 = map[counters] ll
//!     call bpf_map_lookup_elem                            ; or call 1
//! out:
//!     exit
//! ```
//!
//! What other tools write in several ways or not at all is written here like this:
//!
//! | meaning | text |
//! |---|---|
//! | map by name, file descriptor, position | `r1 = map[counters] ll`, `map[fd:4]`, `map[idx:0]` |
//! | address in a map's first value (global data) | `r1 = map[.rodata][0]+16 ll` |
//! | address of a function (callback) | `r2 = func[visit] ll`, `func[idx:2]`, in slots `func[+10]` |
//! | kernel variable by BTF id | `r1 = btf[id:412] ll`, `btf[id:412 fd:3]` |
//! | extern symbol by the object's number for it | `r1 = extern[2] ll`, `call extern[2]` |
//! | call of a function of the program | `call visit`, `call func[idx:2]`, in slots `call pc+10` |
//! | call of a kernel function | `call kfunc[id:1234]`, `call kfunc[id:1234 off:1]` |
//! | instruction that the loader changes (CO-RE) | the instruction, then `@patched N`; with the same `N` they get the same |
//! | maps inside a map of maps | `.inner name type=..`, on the line after `.map` |
//!
//! Names that are not letters, digits, `_`, `.`, `$` stand in double quotes. Comments begin with `;`
//! or `//`, or with `#` after a space. Labels belong to their function. A text that has no `.func` is
//! cut into functions at the targets of its calls. Loads and stores take `wN` for `rN` up to 32 bits,
//! as they mean the same.
//!
//! The output of `llvm-objdump -d` and of the kernel's verifier can be read as they are, with numbers,
//! bytes, headers and register states. Where bytes and text disagree the text is refused.

mod cursor;
mod directive;
mod draft;
mod grammar;
mod layout;
mod lex;
mod listing;
mod parse;
mod print;
mod value;

pub use print::{Line, Targets, condition};

use super::{DEFAULT_HOOK, TextError};
use crate::hook::Hook;
use crate::insn::{FuncId, Insn, RawInsn};
use crate::map::MapDef;
use crate::program::Program;

/// Reads a program.
pub fn parse(source: &str) -> Result<Program, TextError> {
    parse_with(source, Vec::new(), DEFAULT_HOOK)
}

/// Reads a program that may use those maps besides its own, and has that hook where it names none.
pub fn parse_with(source: &str, maps: Vec<MapDef>, hook: Hook) -> Result<Program, TextError> {
    parse::program(source, maps, hook)
}

/// Reads instructions that need not be a program: control may run or jump past the end. Jump targets
/// and functions become distances in slots; labels may stand before any instruction and at the end.
pub fn parse_insns(source: &str) -> Result<Vec<RawInsn>, TextError> {
    parse::fragment(source)
}

/// Reads one instruction as [`print_insn`] writes it.
pub fn parse_insn(text: &str, program: &Program) -> Result<Insn, TextError> {
    parse::identified(text, program)
}

/// Writes a program. [`parse`] reads it back, identities renumbered by position.
pub fn print(program: &Program) -> String {
    print_with(program, Targets::Labels)
}

/// Writes a program with the wanted kind of jump targets.
pub fn print_with(program: &Program, targets: Targets) -> String {
    print::program(program, targets)
}

/// The instructions of one function as text, in order, for listings and diffs.
pub fn lines(program: &Program, function: FuncId, targets: Targets) -> Vec<Line> {
    print::lines(program, function.0 as usize, targets)
}

/// One instruction on its own: its target is an identity, `goto @7`; functions and maps have the
/// names that `program` gives them.
pub fn print_insn(insn: &Insn, program: &Program) -> String {
    print::identified(program, insn)
}

/// One decoded instruction on its own: targets and functions are distances.
pub fn print_raw(insn: &RawInsn) -> String {
    print::raw(insn)
}

/// Whether a line is blank or a comment.
pub(super) fn is_remark(text: &str) -> bool {
    text.is_empty() || lex::is_comment(text, true)
}
