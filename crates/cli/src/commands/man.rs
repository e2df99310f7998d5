//! `kara man`: the manual, made of the same definitions as the help.

use crate::arguments;
use crate::failure::{Answer, Failure};
use crate::output;
use clap_mangen::Man;

/// Options of `kara man`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Page of one subcommand
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Options {
    /// Prints a page in roff.
    pub fn run(&self) -> Result<Answer, Failure> {
        let mut all = arguments::parser();
        all.build();
        let page = match &self.command {
            None => all,
            Some(name) => match all.find_subcommand(name) {
                Some(found) => found.clone().display_name(format!("kara-{name}")),
                None => return Err(Failure::usage(format!("there is no subcommand {name}")).help("see kara --help")),
            },
        };
        let mut text = Vec::new();
        Man::new(page).render(&mut text).map_err(|e| Failure::file("stdout", "write", &e))?;
        output::print_text(&String::from_utf8_lossy(&text));
        Ok(Answer::Yes)
    }
}
