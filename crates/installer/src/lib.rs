//! Packet extensions from source to a running program: [`build`] runs cargo and the translator,
//! [`installed`] loads the object with its memory and reads the counters and the panic log there.

pub mod build;
mod compiler;
mod contents;
pub mod error;
pub mod forms;
mod frames;
pub mod installed;
mod memory;
mod pages;
pub mod vendor;

pub use build::{BuildOptions, Built, build};
pub use contents::MapContents;
pub use error::{InstallError, Refusal};
pub use installed::{Installed, Panic, State};
