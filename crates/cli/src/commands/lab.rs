//! `kara lab`: measurements, and other kernels.

mod accept;
mod calibrate;
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
    /// Measure what instructions and helpers take, for --goal latency
    Calibrate(calibrate::Options),
    /// Run a command in a virtual machine with another kernel
    Guest(guest::Options),
}

impl Options {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        match &self.command {
            Command::Accept(options) => options.run(common),
            Command::Calibrate(options) => options.run(common),
            Command::Guest(options) => options.run(common),
        }
    }
}
