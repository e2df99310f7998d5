//! What the loader of an extension must know, as JSON in a section of the object.

use crate::layout::{STACK_LOW, STACK_TOP};
use crate::maps::KernelMap;
use serde::{Deserialize, Serialize};

/// Section of the manifest.
pub const SECTION: &str = ".kara.extension";
/// Section of the memory image: pieces of u32 address, u32 length, bytes.
pub const IMAGE_SECTION: &str = ".kara.memory";

/// What the loader must know.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the layout.
    pub version: u32,
    /// End of static data in the arena.
    pub memory_end: u32,
    /// Programs, in the order of their regions.
    pub programs: Vec<Program>,
    /// Places that can fail without a Rust panic.
    pub sites: Vec<Site>,
    /// Statics that user space reads by name.
    pub exported: Vec<Exported>,
    /// Maps of the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<KernelMap>,
}

/// A program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// Name.
    pub name: String,
    /// Hook ([`crate::hook::Hook::name`]).
    pub hook: String,
    /// Tracepoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What it returns after a panic and when it is nested.
    pub on_panic: i64,
    /// What of its region it can touch.
    #[serde(default)]
    pub needs: Needs,
}

/// What of its region a program can touch besides the control page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Needs {
    /// Bytes of the stack, from its top.
    pub stack_bytes: u32,
    /// Whether it takes memory from the heap.
    pub has_heap: bool,
}

impl Default for Needs {
    /// All there is.
    fn default() -> Needs {
        Needs { stack_bytes: STACK_TOP - STACK_LOW, has_heap: true }
    }
}

/// A place that can fail without a Rust panic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Site {
    /// What happened there.
    pub what: Fault,
    /// Function, demangled as far as its name section says.
    pub function: String,
    /// Offset in the code section of the module, for its debug information.
    pub code_offset: u32,
    /// File and line, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<(String, u32)>,
}

/// What can happen at a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// A loop took too long.
    Timeout,
    /// The stack is full.
    StackOverflow,
    /// Division by zero, or of the smallest number by -1.
    Division,
    /// `unreachable` was reached: an abort.
    Abort,
    /// A call through a pointer that is no function of that type.
    IndirectCall,
}

impl Fault {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Fault::Timeout => "a loop took too long",
            Fault::StackOverflow => "stack overflow",
            Fault::Division => "division by zero or overflow",
            Fault::Abort => "abort",
            Fault::IndirectCall => "call through a bad function pointer",
        }
    }
}

/// A static for user space.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exported {
    /// Name.
    pub name: String,
    /// Kind: `counter`, ...
    pub kind: String,
    /// Address.
    pub address: u32,
}
