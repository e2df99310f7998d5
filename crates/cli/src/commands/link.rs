//! `kara link`: masking corruption loss on a link.

mod experiment;
mod protect;
mod simulate;
mod status;
mod trace;

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use clap::Subcommand;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Examples:
  kara link protect --line eth1 --inside tap:kara0 --against 1e-3    on both hosts; then use kara0
  kara link simulate --line 100G --loss 1e-3                         what protection does, without a link
  kara link experiment stress                                        published figures beside ours
  kara link status                                                   what it has counted
  kara link trace --pcap link.pcap                                   what happens on it";

/// Options of `kara link`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Repeat what was published about link protection, in the simulator
    Experiment(experiment::Options),
    /// Simulate a protected link under full load
    Simulate(simulate::Options),
    /// Carry frames over a link to another host, and mask what the link loses
    Protect(protect::Options),
    /// Show what a running link has counted
    Status(status::Options),
    /// Show what happens on a running link, and capture its frames
    Trace(trace::Options),
}

impl Options {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        match &self.command {
            Command::Experiment(options) => options.run(common),
            Command::Simulate(options) => options.run(common),
            Command::Protect(options) => options.run(common),
            Command::Status(options) => options.run(common),
            Command::Trace(options) => options.run(common),
        }
    }
}

/// Where a running link answers.
#[derive(clap::Args, Debug)]
struct SocketOption {
    /// Where the link answers `kara link status` and `kara link trace`
    #[arg(long, value_name = "PATH", default_value = "/run/kara-link.sock")]
    socket: PathBuf,
}
