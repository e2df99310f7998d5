//! Programs as text, in and out. Every reader takes any input without panicking and says the line,
//! the word and the reason when it refuses.
//!
//! | format | what it is | endings |
//! |---|---|---|
//! | [`Format::Asm`] | the assembly of clang and the kernel, [`asm`] | `.s` `.asm` `.bpfasm` |
//! | [`Format::Macros`] | C macros of the kernel's samples, [`macros`] | `.bpf` `.bpf_c_macros` `.c` `.h` |
//! | [`Format::Rows`] | rows `{code, dst, src, off, imm},`, read by [`macros`] too | `.bpf_insns` |
//! | [`Format::K2`] | the language of the K2 optimizer, [`k2`] | `.k2` |
//!
//! Only assembly says by itself what `r1` is and which maps there are; for the others [`desc`] and
//! [`maps`] are files of their own.

pub mod asm;
pub mod desc;
mod error;
mod flat;
pub mod k2;
pub mod macros;
pub mod maps;

pub use error::TextError;

use crate::hook::Hook;
use crate::program::{Entry, Program};

/// The hook of a program whose text does not say one: a plain buffer of this many bytes.
pub const DEFAULT_HOOK: Hook = Hook::Buffer(2048);

/// Longest text that is read, in bytes.
pub const MAX_SOURCE: usize = 64 << 20;

/// Longest program that is read, in slots: the kernel's own limit.
pub const MAX_SLOTS: usize = 1_000_000;

/// Most maps that are read; the kernel allows a program 64.
pub const MAX_MAPS: usize = 1024;

/// A way to write programs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Assembly.
    Asm,
    /// C macros.
    Macros,
    /// Raw rows of numbers.
    Rows,
    /// The `.k2` language.
    K2,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Asm, Format::Macros, Format::Rows, Format::K2];

    /// The format that a file's ending says.
    pub fn of_path(path: &str) -> Option<Format> {
        let (_, ending) = path.rsplit_once('.')?;
        Format::ALL.into_iter().find(|f| f.endings().contains(&ending))
    }

    /// The format that a text looks like.
    pub fn of_source(source: &str) -> Format {
        let line = source.lines().map(str::trim).find(|l| !asm::is_remark(l) && !l.starts_with("/*")).unwrap_or("");
        if line.starts_with("struct bpf_insn") || line.starts_with("static") || line.starts_with("const") {
            return Format::Macros;
        }
        if line.starts_with('{') {
            return Format::Rows;
        }
        if line.starts_with("BPF_") {
            return Format::Macros;
        }
        if k2::is_instruction(line) { Format::K2 } else { Format::Asm }
    }

    /// Usual endings of files, without the dot.
    pub fn endings(self) -> &'static [&'static str] {
        match self {
            Format::Asm => &["s", "asm", "bpfasm"],
            Format::Macros => &["bpf", "bpf_c_macros", "c", "h"],
            Format::Rows => &["bpf_insns"],
            Format::K2 => &["k2"],
        }
    }
}

/// Reads a program. `desc` and `maps` are the texts of `.desc` and `.maps` files; without `desc` a
/// program that does not say its hook has [`DEFAULT_HOOK`]. Maps that the code names by a descriptor
/// which `maps` does not have stay undefined.
pub fn read(format: Format, source: &str, desc: Option<&str>, maps: Option<&str>) -> Result<Program, TextError> {
    if source.len() > MAX_SOURCE {
        return Err(TextError::whole(format!("the text is longer than {MAX_SOURCE} bytes")));
    }
    let hook = match desc {
        Some(desc) => desc::parse(desc).map_err(|e| e.in_file(".desc"))?.hook,
        None => DEFAULT_HOOK,
    };
    let maps = match maps {
        Some(maps) => maps::parse(maps).map_err(|e| e.in_file(".maps"))?,
        None => Vec::new(),
    };
    match format {
        Format::Asm => asm::parse_with(source, maps, hook),
        Format::Macros | Format::Rows => macros::parse(source, hook, maps),
        Format::K2 => k2::parse(source, hook, maps),
    }
}

/// Writes a program's code; hook and maps are in it only with [`Format::Asm`].
pub fn write(format: Format, program: &Program) -> Result<String, TextError> {
    match format {
        Format::Asm => Ok(asm::print(program)),
        Format::Macros => macros::print(program),
        Format::Rows => macros::print_rows(program),
        Format::K2 => k2::print(program),
    }
}

/// The `.desc` of a program: what the `r1` of its first function is.
pub fn write_desc(program: &Program, max_packet_bytes: u32) -> Result<String, TextError> {
    match program.functions.first().map(|f| &f.entry) {
        Some(Entry::Hook(hook)) => desc::print(&desc::Desc { hook: *hook, max_packet_bytes }),
        _ => Err(TextError::whole("the first function has no hook")),
    }
}
