//! `kara link status`: what a running link has counted.

use super::SocketOption;
use super::protect::{machine, report};
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use karakoram_tunnel::read_status;

const AFTER_HELP: &str = "\
Examples:
  kara link status
  kara link status --json --socket /run/east.sock

sender.* is about what this end sends, receiver.* about what it gets. cpu_ns_per_frame is processor
time of the link's thread for each frame that went through.

Exit status: 0 done, 3 no link answers there.";

/// Options of `kara link status`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    #[command(flatten)]
    socket: SocketOption,
}

impl Options {
    /// Asks.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let status = read_status(&self.socket.socket)
            .map_err(|e| machine(e).help("is `kara link protect` running, with the same --socket?"))?;
        report(&status, common);
        Ok(Answer::Yes)
    }
}
