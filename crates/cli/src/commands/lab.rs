//! `kara lab`: measurements, and other kernels.

mod accept;
mod guest;
mod machine;

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use clap::Subcommand;

/// Options of `kara lab`.
#[derive(clap::Args, Debug)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Load the programs of two versions of objects, on this kernel and in guests with others
    Accept(accept::Options),
    /// Run a command in a virtual machine with another kernel
    Guest(guest::Options),
}

impl Options {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        match &self.command {
            Command::Accept(options) => options.run(common),
            Command::Guest(options) => options.run(common),
        }
    }
}
