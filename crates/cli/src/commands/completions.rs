//! `kara completions`: a script that completes commands and options.

use crate::arguments;
use crate::failure::{Answer, Failure};
use crate::output;
use clap_complete::{Shell, generate};

const AFTER_HELP: &str = "\
Examples:
  kara completions bash >/etc/bash_completion.d/kara
  kara completions zsh >\"${fpath[1]}/_kara\"
  kara completions fish >~/.config/fish/completions/kara.fish";

/// Options of `kara completions`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// The shell
    shell: Shell,
}

impl Options {
    /// Prints the script.
    pub fn run(&self) -> Result<Answer, Failure> {
        let mut script = Vec::new();
        generate(self.shell, &mut arguments::parser(), "kara", &mut script);
        output::print_text(&String::from_utf8_lossy(&script));
        Ok(Answer::Yes)
    }
}
