//! BPF ELF objects to programs and back.
//!
//! [`Object::parse`] reads what clang, gcc and aya's linker produce, [`Object::program`] is the one
//! [`karakoram_bpf::program::Program`] with all its functions, and [`Object::write`] writes the
//! object with other code: everything that pointed at code follows, everything else keeps its bytes.

pub mod btf;
mod bytes;
mod code;
pub mod container;
mod error;
mod lift;
pub mod link;
pub mod maps;
mod object;
mod patches;
mod prototype;
pub mod relocation;
mod rewrite;
pub mod symbol;

pub use error::ElfError;
pub use lift::Opaque;
pub use object::Object;
