//! What a run does to the outside, in order: so that two runs can be compared.

use super::address::{Kind, Region};
use crate::helper;
use crate::insn::{Callee, FuncId};
use std::fmt;

/// An effect that is neither in the packet, the context nor the maps: a message, a redirection, a
/// tail call, a call whose effect is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// What was called.
    pub call: Callee<FuncId>,
    /// With what.
    pub arguments: Vec<Argument>,
    /// What it returned.
    pub result: u64,
}

/// An argument of a call, as far as it matters to the outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Argument {
    /// A number.
    Number(u64),
    /// The bytes that were read.
    Bytes(Vec<u8>),
    /// A pointer that was handed on.
    Pointer(Region),
}

impl Argument {
    /// A pointer. Which stack bytes it points to is the program's own business.
    pub(super) fn pointer(mut region: Region) -> Argument {
        if region.kind == Kind::Stack {
            (region.index, region.offset) = (0, 0);
        }
        Argument::Pointer(region)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.call {
            Callee::Helper(id) => match helper::name(id) {
                Some(name) => f.write_str(name)?,
                None => write!(f, "helper {id}")?,
            },
            Callee::Local(function) => write!(f, "function {}", function.0)?,
            Callee::Kfunc { id, off } => write!(f, "kfunc {id}/{off}")?,
            Callee::Extern(n) => write!(f, "extern {n}")?,
            Callee::Register(r) => write!(f, "through {r}")?,
        }
        f.write_str("(")?;
        for (i, argument) in self.arguments.iter().enumerate() {
            write!(f, "{}{argument}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, ") = {:#x}", self.result)
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Argument::Number(n) => write!(f, "{n:#x}"),
            Argument::Pointer(region) => write!(f, "<{region}>"),
            Argument::Bytes(bytes) => {
                f.write_str("[")?;
                for byte in bytes {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("]")
            }
        }
    }
}
