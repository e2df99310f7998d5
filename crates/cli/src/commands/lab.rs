//! `kara lab`: measurements, and other kernels.

mod accept;
mod calibrate;
pub mod count;
mod count_bmc;
pub mod experiments;
mod guest;
mod list;
pub mod machine;
mod predict;
mod report;
mod run;

pub use machine::failure;

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
    /// Count the instructions that runs execute, the same in every run
    Count(count::Options),
    /// Count what the cache in front of memcached executes, in the guest of an experiment
    #[command(hide = true)]
    CountBmc(count_bmc::Options),
    /// Run a command in a virtual machine with another kernel
    Guest(guest::Options),
    /// Say which experiments there are
    List(list::Options),
    /// Say what the model of --goal latency expects a run to take
    Predict(predict::Options),
    /// Make tables, figures and verdicts of what runs left
    Report(report::Options),
    /// Run experiments: published tables and figures, again, on this machine
    Run(run::Options),
}

impl Options {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        match &self.command {
            Command::Accept(options) => options.run(common),
            Command::Calibrate(options) => options.run(common),
            Command::Count(options) => options.run(common),
            Command::CountBmc(options) => options.run(),
            Command::Predict(options) => options.run(common),
            Command::Guest(options) => options.run(common),
            Command::List(options) => options.run(common),
            Command::Report(options) => options.run(common),
            Command::Run(options) => options.run(common),
        }
    }
}
