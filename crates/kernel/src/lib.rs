//! The only system calls of the project: loading programs, reading the verifier's verdict, running
//! programs on inputs, maps, attaching, and finding out what this machine permits. What is attached
//! hangs on a descriptor or a socket, so that nothing outlives the process.
//!
//! Programs and maps come in as plain data ([`load::LoadRequest`], [`karakoram_bpf::map::MapDef`]);
//! descriptors are owned and closed when dropped. Without privilege every call gives
//! [`error::KernelError::NotPermitted`] and nothing else happens.

pub mod attach;
pub mod btf;
pub mod charge;
pub mod differential;
pub mod effects;
pub mod errno;
pub mod error;
pub mod jit;
pub mod live;
pub mod load;
pub mod log;
pub mod map;
pub mod module;
pub mod probe;
pub mod run;
pub mod running;
pub mod sys;
