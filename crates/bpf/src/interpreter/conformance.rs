//! The plugin side of the public `bpf_conformance` runner, which asks an implementation to run bytes
//! on a piece of memory and to say what `r0` is.
//!
//! The protocol: the program as hexadecimal bytes on standard input, or after `--program`; the memory
//! as hexadecimal bytes in an argument; the answer in hexadecimal on standard output. `r1` is the
//! address of the memory and `r2` its length; legacy packet loads read the memory as well.
//!
//! The runner tests the instruction set, not the verifier: divisions by the constant zero and shifts
//! by constants out of range have a meaning there and are run, though the kernel refuses to load them
//! and the rest of the project to decode them.

mod lenient;

use super::{CONTEXT_ADDRESS, Fault, Input, Interpreter, Options};
use crate::encode;
use crate::hook::Hook;
use crate::insn::FuncId;
use crate::program::{Program, ProgramError};
use std::fmt;

/// What the runner asks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The program: slots, or a whole object file when `elf`.
    pub program: Vec<u8>,
    /// The memory.
    pub memory: Vec<u8>,
    /// Whether the program is an object file.
    pub elf: bool,
    /// Whether the runner wants to hear more.
    pub debug: bool,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConformanceError {
    /// Something is not hexadecimal.
    Hex {
        /// The program or the memory.
        what: &'static str,
        /// The word that is not.
        word: String,
    },
    /// The bytes are no program.
    Program(ProgramError),
    /// It could not be run to its end.
    Fault(Fault),
    /// Object files have to be read by the caller.
    Elf,
}

impl fmt::Display for ConformanceError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ConformanceError::Hex { what, word } => write!(f, "the {what} is not hexadecimal bytes: {word:?}"),
            ConformanceError::Program(e) => write!(f, "the bytes are no program: {e}"),
            ConformanceError::Fault(e) => e.fmt(f),
            ConformanceError::Elf => f.write_str("the program is an object file, expected its instructions"),
        }
    }
}

impl std::error::Error for ConformanceError {}

impl Request {
    /// Reads the arguments (without the program's name); `input` is asked for the program when they
    /// do not have it. Options that are not known are ignored.
    pub fn parse(arguments: &[String], input: impl FnOnce() -> String) -> Result<Request, ConformanceError> {
        let mut request = Request::default();
        let (mut program, mut memory) = (None, None);
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--program" => program = arguments.next().cloned(),
                "--elf" => request.elf = true,
                "--debug" => request.debug = true,
                option if option.starts_with("--") => {}
                bytes => memory = memory.or(Some(bytes)),
            }
        }
        request.program = hex("program", &program.unwrap_or_else(input))?;
        request.memory = hex("memory", memory.unwrap_or(""))?;
        Ok(request)
    }

    /// Runs the request; the answer is `r0`.
    pub fn run(&self) -> Result<u64, ConformanceError> {
        if self.elf {
            return Err(ConformanceError::Elf);
        }
        let slots =
            encode::slots_from_bytes(&self.program).map_err(|e| ConformanceError::Program(ProgramError::Decode(e)))?;
        let hook = Hook::Buffer(self.memory.len() as u32);
        let program = lenient::program(slots, hook).map_err(ConformanceError::Program)?;
        run(&program, FuncId(0), &self.memory)
    }
}

/// Runs a function on a piece of memory, as the runner wants it; returns `r0`.
pub fn run(program: &Program, function: FuncId, memory: &[u8]) -> Result<u64, ConformanceError> {
    let input = Input {
        context: memory.to_vec(),
        arguments: Some([CONTEXT_ADDRESS, memory.len() as u64, 0, 0, 0]),
        ..Input::default()
    };
    let outcome = Interpreter::new(program, Options::default()).run(function, input);
    outcome.map(|o| o.value).map_err(ConformanceError::Fault)
}

/// The line that answers a request.
pub fn answer(arguments: &[String], input: impl FnOnce() -> String) -> Result<String, ConformanceError> {
    Request::parse(arguments, input)?.run().map(|r0| format!("{r0:x}"))
}

/// Bytes from hexadecimal, with or without white space between them.
fn hex(what: &'static str, text: &str) -> Result<Vec<u8>, ConformanceError> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        let bad = || ConformanceError::Hex { what, word: word.chars().take(20).collect() };
        let digits: Vec<u32> = word.chars().map(|c| c.to_digit(16)).collect::<Option<_>>().ok_or_else(bad)?;
        match digits.as_slice() {
            [one] => bytes.push(*one as u8),
            many if many.len() % 2 == 0 => bytes.extend(many.chunks(2).map(|c| (c[0] << 4 | c[1]) as u8)),
            _ => return Err(bad()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(arguments: &[&str], input: &str) -> Result<String, ConformanceError> {
        let arguments: Vec<String> = arguments.iter().map(|a| a.to_string()).collect();
        answer(&arguments, || input.to_string())
    }

    #[test]
    fn answers_in_hexadecimal() {
        assert_eq!(ask(&[], "b7 00 00 00 ff ff ff ff 95 00 00 00 00 00 00 00").as_deref(), Ok("ffffffffffffffff"));
        assert_eq!(ask(&[""], "b7000000ff000000 9500000000000000\n").as_deref(), Ok("ff"));
    }

    #[test]
    fn reads_its_memory_by_pointer_and_by_packet_load() {
        // r0 = *(u8 *)(r1 + 1)
        let load = "71 10 01 00 00 00 00 00 95 00 00 00 00 00 00 00";
        assert_eq!(ask(&["aa bb", "--debug"], load).as_deref(), Ok("bb"));
        // r0 = *(u16 *)skb[0]
        let packet = "28 00 00 00 00 00 00 00 95 00 00 00 00 00 00 00";
        assert_eq!(ask(&["--program", packet, "aa bb"], "").as_deref(), Ok("aabb"));
    }

    #[test]
    fn runs_constants_that_the_verifier_refuses() {
        // r0 = 7; r0 /= 0
        assert_eq!(
            ask(&[], "b7 00 00 00 07 00 00 00 37 00 00 00 00 00 00 00 95 00 00 00 00 00 00 00").as_deref(),
            Ok("0")
        );
        // r0 = 7; w0 %= 0
        assert_eq!(
            ask(&[], "b7 00 00 00 07 00 00 00 94 00 00 00 00 00 00 00 95 00 00 00 00 00 00 00").as_deref(),
            Ok("7")
        );
        // r0 = 1; r0 <<= -60
        assert_eq!(
            ask(&[], "b7 00 00 00 01 00 00 00 67 00 00 00 c4 ff ff ff 95 00 00 00 00 00 00 00").as_deref(),
            Ok("10")
        );
        // r0 = 8; w0 s>>= 33
        assert_eq!(
            ask(&[], "b7 00 00 00 08 00 00 00 c4 00 00 00 21 00 00 00 95 00 00 00 00 00 00 00").as_deref(),
            Ok("4")
        );
        // The second half of a constant is no instruction.
        assert_eq!(
            ask(&[], "18 00 00 00 37 00 00 00 00 00 00 00 00 00 00 00 95 00 00 00 00 00 00 00").as_deref(),
            Ok("37")
        );
    }

    #[test]
    fn says_why_there_is_no_answer() {
        assert!(matches!(ask(&["zz"], "95 00 00 00 00 00 00 00"), Err(ConformanceError::Hex { .. })));
        assert!(matches!(ask(&[], "ff"), Err(ConformanceError::Program(_))));
        assert!(matches!(ask(&[], ""), Err(ConformanceError::Program(_))));
        assert!(matches!(
            ask(&["aa"], "71 10 01 00 00 00 00 00 95 00 00 00 00 00 00 00"),
            Err(ConformanceError::Fault(_))
        ));
        assert_eq!(ask(&["--elf"], "7f"), Err(ConformanceError::Elf));
    }
}
