//! An object and a kernel to something that can be loaded. Makes no system calls: the kernel's types,
//! configuration and symbols are arguments, the result is plain data.

mod attach;
mod blob;
mod core;
mod error;
mod externs;
mod flatten;
mod image;
mod maps;
mod records;
mod struct_ops;

pub use attach::{Attach, SLEEPABLE, XDP_HAS_FRAGS};
pub use error::LinkError;
pub use image::{LoadImage, LoadMap, SlotOrigin, SourceLine};

use crate::btf::Btf;
use crate::object::Object;
use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::insn::FuncId;

/// Value of a configuration option (`y`, `m`, `"text"`, `0x10`) by name.
pub type Configuration<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Address of a kernel symbol by name.
pub type KernelSymbols<'a> = dyn Fn(&str) -> Option<u64> + 'a;

/// What is known about the kernel that the program shall run on.
#[derive(Clone, Copy, Default)]
pub struct Target<'a> {
    /// Its types (`/sys/kernel/btf/vmlinux`).
    pub btf: Option<&'a Btf>,
    /// `LINUX_VERSION_CODE`.
    pub kernel_version: u32,
    /// Its configuration.
    pub config: Option<&'a Configuration<'a>>,
    /// Its symbols (`/proc/kallsyms`).
    pub kernel_symbols: Option<&'a KernelSymbols<'a>>,
    /// Program type, for sections whose name says nothing.
    pub program_type: Option<ProgramType>,
}

/// The functions that are programs of their own, by number and name.
pub fn programs(object: &Object) -> impl Iterator<Item = (FuncId, &str)> {
    use karakoram_bpf::program::Entry;
    let functions = object.program().functions.iter().enumerate();
    functions.filter(|(_, f)| matches!(f.entry, Entry::Hook(_))).map(|(i, f)| (FuncId(i as u32), f.name.as_str()))
}

/// Makes the program of that name loadable.
pub fn link(object: &Object, program: &str, target: &Target) -> Result<LoadImage, LinkError> {
    if let Some((id, _)) = programs(object).find(|(_, name)| *name == program) {
        return link_function(object, id, target);
    }
    match object.opaque().iter().find(|o| o.name == program) {
        Some(opaque) => error::invalid(format!("program {program} is not understood: {}", opaque.reason)),
        None => Err(LinkError::NoProgram(program.to_string())),
    }
}

/// Makes a function loadable as a program.
pub fn link_function(object: &Object, program: FuncId, target: &Target) -> Result<LoadImage, LinkError> {
    match object.program().functions.get(program.0 as usize) {
        Some(_) => image::build(object, program, target),
        None => Err(LinkError::NoProgram(format!("number {}", program.0))),
    }
}
