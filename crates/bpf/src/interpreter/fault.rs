//! Why a run ended without a result.

use super::address::Region;
use crate::insn::{Callee, FuncId, InsnId};
use std::fmt;

/// Where and why a run ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The function that was running.
    pub function: FuncId,
    /// Its name.
    pub function_name: String,
    /// The instruction, by identity; `None` when control was at no instruction.
    pub insn: Option<InsnId>,
    /// The instruction, by position in the function.
    pub position: usize,
    /// What went wrong.
    pub reason: Reason,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "function {}, instruction {}", self.function_name, self.position)?;
        if let Some(id) = self.insn
            && id.0 as usize != self.position
        {
            write!(f, " (id {})", id.0)?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for Fault {}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes, or reads and writes.
    Write,
}

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A load, store or helper touched memory that it may not touch.
    Memory {
        /// What it did.
        access: Access,
        /// First byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// What the address belongs to, if anything.
        region: Option<Region>,
        /// Why it may not.
        why: &'static str,
    },
    /// An instruction wrote the frame pointer.
    FramePointer,
    /// Control ran past the last instruction or jumped to no instruction.
    OutsideCode,
    /// The called thing does not exist in this model.
    Unsupported {
        /// What was called, or which map or instruction was met.
        what: String,
    },
    /// A helper was given an argument that the verifier would refuse.
    Argument {
        /// The helper.
        helper: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A limit of [`super::Limits`] was reached.
    Limit(Limit),
    /// The observer asked to stop.
    Stopped,
}

/// A limit on a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Number of instructions.
    Instructions,
    /// Functions that wait for a callee.
    CallDepth,
    /// Bytes of memory.
    Memory,
    /// Recorded events.
    Events,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Reason::Memory { access, address, bytes, region, why } => {
                let verb = if *access == Access::Read { "reads" } else { "writes" };
                let plural = if *bytes == 1 { "" } else { "s" };
                write!(f, "{verb} {bytes} byte{plural} at {address:#x}")?;
                match region {
                    Some(region) => write!(f, " ({region}): {why}"),
                    None => write!(f, ": {why}"),
                }
            }
            Reason::FramePointer => f.write_str("writes the frame pointer r10"),
            Reason::OutsideCode => f.write_str("control leaves the code of the function"),
            Reason::Unsupported { what } => write!(f, "{what} is not supported by the interpreter"),
            Reason::Argument { helper, why } => write!(f, "{helper}: {why}"),
            Reason::Limit(limit) => limit.fmt(f),
            Reason::Stopped => f.write_str("stopped by the observer"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Limit::Instructions => "the limit on executed instructions is reached",
            Limit::CallDepth => "calls are nested deeper than the kernel allows",
            Limit::Memory => "the limit on memory is reached",
            Limit::Events => "the limit on recorded events is reached",
        })
    }
}

/// How errors travel inside the interpreter: small, because every step may return one.
pub(super) type Trap = Box<Reason>;

/// An unsupported call, by name where there is one.
pub(super) fn unsupported_call(callee: Callee<FuncId>) -> Trap {
    let what = match callee {
        Callee::Helper(id) => match crate::helper::name(id) {
            Some(name) => format!("helper bpf_{name} ({id})"),
            None => format!("helper {id}"),
        },
        Callee::Kfunc { id, off } => format!("kernel function with BTF id {id} (BTF object {off})"),
        Callee::Extern(n) => format!("extern kernel function {n}"),
        Callee::Local(f) => format!("function {}", f.0),
        Callee::Register(r) => format!("a call through {r}"),
    };
    Box::new(Reason::Unsupported { what })
}

/// Something else that is not supported.
pub(super) fn unsupported(what: impl Into<String>) -> Trap {
    Box::new(Reason::Unsupported { what: what.into() })
}
