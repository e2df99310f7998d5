//! `kara ext`: packet programs in safe Rust, from a new crate to a running program.

mod build;
mod check;
mod load;
mod loaded;
mod logs;
mod new;
mod running;
mod status;
mod unload;

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use clap::Subcommand;
use karakoram_installer::InstallError;

const AFTER_HELP: &str = "\
Examples:
  kara ext new counter && cd counter       a crate with one program and one test
  cargo test                               on this machine, like any crate
  kara ext build -o counter.o              for the kernel
  kara ext check counter.o                 would the kernel take it?
  kara ext load counter.o --interface eth0 --background
  kara ext status                          counters, panics
  kara ext logs counter                    panics with file and line
  kara ext unload counter
  kara ext build -o counter.ko --backend module --kernel 6.12     native code, for a kernel of Debian's

Exit status: 0 done, 1 a program was refused, 2 wrong request or source, 3 not possible on this machine.";

/// Options of `kara ext`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP, after_help = AFTER_HELP)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Make a new extension: a crate with one program and one test
    New(new::Options),
    /// Compile an extension to an object that the kernel takes, or to a module
    Build(build::Options),
    /// Ask the kernel whether it takes the programs of an object
    Check(check::Options),
    /// Attach programs to an interface, a control group, or wherever they belong, until Ctrl-C or in the background
    Load(load::Options),
    /// Detach what was loaded in the background
    Unload(unload::Options),
    /// Show what is loaded in the background, with its counters
    Status(status::Options),
    /// Show the panics of what is loaded in the background
    Logs(logs::Options),
}

impl Options {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        match &self.command {
            Command::New(options) => options.run(common),
            Command::Build(options) => options.run(common),
            Command::Check(options) => options.run(common),
            Command::Load(options) => options.run(common),
            Command::Unload(options) => options.run(common),
            Command::Status(options) => options.run(common),
            Command::Logs(options) => options.run(common),
        }
    }
}

/// What the installer says, as this program says it.
fn failure(error: InstallError) -> Failure {
    match error {
        InstallError::Machine(what, help) => Failure::machine(what).help(help),
        InstallError::Source(what) => Failure::input(format!("the extension does not compile\n{what}")),
        InstallError::Refused(refusal) => Failure::input(refusal.to_string()).help(refusal.help),
        other => Failure::input(other.to_string()),
    }
}
