//! Packet extensions as native code: the same crates that the translator makes BPF of, compiled for
//! x86-64 and put into a kernel module. A BPF program of a few instructions calls the module's function
//! for its hook (a kfunc), which runs the extension on a stack of its own.
//!
//! The verifier sees nothing of such code. What keeps it in bounds is the Rust compiler, a check of the
//! stack at the begin of every function, and a timer: so the compiler is trusted here, and the module is
//! for kernels on which modules may be loaded.
//!
//! [`code`] compiles, [`lines`] says which code comes from which line, [`build`] puts the module together
//! with the glue in `glue/`, [`loaded`] loads it and reads what it says.

pub mod build;
mod code;
mod glue;
mod lines;
pub mod loaded;
mod tables;

pub use build::{ModuleOptions, NativeModule, build};
pub use loaded::LoadedModule;
