//! The subcommands, each with its options and its `run`.

pub mod asm;
pub mod bench;
pub mod cache;
pub mod check;
pub mod completions;
pub mod conformance_plugin;
pub mod diff;
pub mod doctor;
pub mod ext;
pub mod lab;
pub mod link;
pub mod man;
pub mod opt;
pub mod print;
pub mod rules;
pub mod run;
pub mod stat;
