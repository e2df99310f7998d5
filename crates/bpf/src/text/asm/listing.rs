//! What disassemblers print around instructions: numbers, bytes, headers, and the kernel's remarks.

use super::{directive, lex};

/// A line of a listing, taken apart.
#[derive(Debug, Default)]
pub(super) struct Row<'a> {
    /// Slot number before the instruction.
    pub number: Option<u64>,
    /// The instruction's bytes, when they are printed.
    pub bytes: Vec<u8>,
    /// The opcode in parentheses, as the kernel prints it.
    pub opcode: Option<u8>,
    /// The instruction itself.
    pub text: &'a str,
}

/// What a line of a listing is.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// Nothing to us: blank, a comment, a file header, register states.
    Remark,
    /// `Disassembly of section xdp:`
    Section(&'a str),
    /// `0000000000000000 <prog>:`, or `int prog(struct xdp_md * ctx):`
    Symbol(&'a str),
    /// A relocation, as `llvm-objdump -r` shows it.
    Relocation,
    /// Anything else.
    Row(Row<'a>),
}

/// Takes a line apart. `log` says that the text is a log of the kernel's verifier.
pub(super) fn read(line: &str, log: bool) -> Line<'_> {
    let line = line.trim();
    if line.is_empty() || lex::is_comment(line, true) || line.contains("file format elf64-bpf") {
        return Line::Remark;
    }
    if let Some(section) = line.strip_prefix("Disassembly of section ").and_then(|r| r.strip_suffix(':')) {
        return Line::Section(section);
    }
    if let Some(symbol) = symbol_header(line).or_else(|| prototype(line)) {
        return Line::Symbol(symbol);
    }
    let mut row = Row { text: line, ..Row::default() };
    if let Some((digits, rest)) = line.split_once(':') {
        let rest = rest.trim_start();
        if rest.starts_with("R_BPF_") || rest.starts_with("CO-RE ") {
            return Line::Relocation;
        }
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            row.number = digits.parse().ok();
            row.text = rest;
        }
    }
    if row.number.is_some() {
        (row.bytes, row.text) = leading_bytes(row.text);
    }
    if row.number.is_none() && matches!(leading_bytes(line), (bytes, "") if !bytes.is_empty()) {
        // bpftool prints the bytes of an instruction on the next line.
        return Line::Remark;
    }
    if log {
        row.text = after_live_registers(row.text);
    }
    if let Some(rest) = row.text.strip_prefix('(')
        && let Some((opcode, rest)) = rest.split_once(')')
        && let Some(opcode) = byte(opcode)
    {
        row.opcode = Some(opcode);
        row.text = rest.trim_start();
    }
    // Instructions in a log have number and opcode; all else there is states and statistics.
    let log_remark = log && (row.number.is_none() || row.opcode.is_none()) && !directive::is_directive(row.text);
    if row.text.is_empty() || log_remark { Line::Remark } else { Line::Row(row) }
}

/// `0000000000000000 <prog>:`
fn symbol_header(line: &str) -> Option<&str> {
    let (address, rest) = line.split_once(' ')?;
    let hex = address.len() >= 8 && address.bytes().all(|b| b.is_ascii_hexdigit());
    rest.strip_prefix('<')?.strip_suffix(">:").filter(|_| hex)
}

/// What bpftool prints before a function: `int prog(struct xdp_md * ctx):`
fn prototype(line: &str) -> Option<&str> {
    let (before, _) = line.strip_suffix("):")?.split_once('(')?;
    let (_, name) = before.rsplit_once([' ', '*'])?;
    lex::is_plain_name(name).then_some(name)
}

/// Two hexadecimal digits.
fn byte(word: &str) -> Option<u8> {
    let digits = word.len() == 2 && word.bytes().all(|b| b.is_ascii_hexdigit());
    u8::from_str_radix(word, 16).ok().filter(|_| digits)
}

/// The eight or sixteen bytes of an instruction at the start of `text`, and what follows them.
fn leading_bytes(text: &str) -> (Vec<u8>, &str) {
    let mut bytes = Vec::new();
    let mut rest = text;
    while bytes.len() < 16 {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let Some(byte) = byte(word) else { break };
        bytes.push(byte);
        rest = after.trim_start();
    }
    if bytes.len().is_multiple_of(8) { (bytes, rest) } else { (Vec::new(), text) }
}

/// Passes the column of live registers, `.1........`, that newer kernels print in a table of their own.
fn after_live_registers(text: &str) -> &str {
    match text.split_once(' ') {
        Some((column, rest)) if column.len() == 10 && column.bytes().all(|b| b == b'.' || b.is_ascii_digit()) => {
            rest.trim_start()
        }
        _ => text,
    }
}

/// Whether a text is a log of the kernel's verifier, in which each instruction may appear several
/// times and in the order of exploration.
pub(super) fn is_verifier_log(source: &str) -> bool {
    source.lines().any(|line| {
        let line = line.trim_start();
        let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let state = after_number.len() < line.len() && after_number.strip_prefix(": ").is_some_and(is_state);
        state || line.starts_with("func#0 @") || (line.starts_with("processed ") && line.contains(" insns "))
    })
}

/// `R1=ctx() R10=fp0`, `frame1: R1=...`
fn is_state(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("frame")
        || text.strip_prefix('R').is_some_and(|r| {
            r.starts_with(|c: char| c.is_ascii_digit()) && r.split(' ').next().is_some_and(|w| w.contains('='))
        })
}
