//! `kara lab count-bmc`: what an experiment runs in its guest.

use super::failure;
use crate::failure::{Answer, Failure};
use crate::output;
use serde_json::json;
use std::path::PathBuf;

/// Options of `kara lab count-bmc`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Object or module with the programs
    file: PathBuf,
    /// Object with programs that do nothing
    nothing: PathBuf,
    /// How often each kind of packet comes
    #[arg(long, default_value_t = 20)]
    repeat: u32,
    /// The object is an extension
    #[arg(long)]
    extension: bool,
}

impl Options {
    /// Counts.
    pub fn run(&self) -> Result<Answer, Failure> {
        let counts = karakoram_extension_lab::count(&self.file, self.extension, &self.nothing, self.repeat);
        output::print_json(&json!(counts.map_err(failure)?));
        Ok(Answer::Yes)
    }
}
