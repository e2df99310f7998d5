//! WebAssembly, as rustc makes it of safe Rust, to BPF objects that the verifier accepts by construction.
//!
//! Linear memory is an arena: any 32-bit number is an address that the verifier allows, so no access
//! needs a bounds proof. Every loop carries `may_goto`. Every comparison is of numbers that the
//! verifier knows nothing about ([`launder`]), so that it looks at every piece of code once or twice,
//! however the program computes. Faults end in `bpf_throw`.
//!
//! [`module`] reads, [`graph`] decides which functions are inlined, called, or run as states of a
//! machine with its own stack, [`function`] writes LLVM's text form, [`runtime`] what surrounds it,
//! [`toolchain`] runs rustup's `opt` and `llc`.

mod debug;
pub mod error;
mod function;
mod graph;
pub mod hook;
mod host;
pub mod launder;
pub mod layout;
pub mod manifest;
pub mod maps;
pub mod module;
mod needs;
mod numeric;
pub mod runtime;
pub mod source;
mod text;
pub mod toolchain;

pub use error::TranslateError;
pub use manifest::Manifest;

use module::Module;
use std::collections::BTreeMap;

/// How to translate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Functions called from one place are put there when they have at most that many operators.
    pub inline_single: usize,
    /// Functions called from several places likewise.
    pub inline_small: usize,
    /// Machines whose members have at most that many operators together are one BPF function: a call costs less, and
    /// the verifier looks at all of them in one go.
    pub most_fused: usize,
    /// Machines, by the wasm number of their first member, that are not.
    pub unfused: Vec<u32>,
    /// Functions, by wasm number, whose locals live in the arena instead of registers and the frame.
    pub in_arena: Vec<u32>,
    /// Whether runs end when the stack is full. Without that an overflow writes to pages that are not there, which
    /// changes nothing, and reads zeros: nothing is wrong but the result. For measuring what the checks take.
    pub stack_checks: bool,
    /// Functions, by wasm number, into which only the smallest functions are put.
    pub alone: Vec<u32>,
    /// Bytes of a frame from which on the locals of a function with loops live in the arena: as long as the
    /// verifier has not finished with a loop it compares every byte of the frame, whether anybody will read it or
    /// not. Whoever makes the object sees to it.
    pub most_frame_in_loops: u32,
    /// Functions, by wasm number, whose part of the stack is in the arena though all that is done with it is known.
    pub stack_in_arena: Vec<u32>,
    /// Whether functions may keep their parts of the stack in registers at all.
    pub has_own_stacks: bool,
    /// Functions that programs run, by wasm number, which these call instead of being them.
    pub called: Vec<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            inline_single: 600,
            inline_small: 40,
            most_fused: 600,
            unfused: Vec::new(),
            in_arena: Vec::new(),
            alone: Vec::new(),
            stack_in_arena: Vec::new(),
            has_own_stacks: true,
            called: Vec::new(),
            stack_checks: true,
            most_frame_in_loops: 256,
        }
    }
}

/// LLVM's text form of a module, and what its loader must know.
#[derive(Clone, Debug)]
pub struct Translation {
    /// For `opt` and `llc`.
    pub ir: String,
    /// Also inside the object.
    pub manifest: Manifest,
    /// The functions that programs run, by the programs' names.
    pub entries: BTreeMap<String, u32>,
}

/// Translates a WebAssembly module.
pub fn translate(wasm: &[u8], options: &Options) -> Result<Translation, TranslateError> {
    let module = Module::parse(wasm)?;
    let plan = graph::plan(&module, options)?;
    runtime::assemble(&module, &plan, options)
}
