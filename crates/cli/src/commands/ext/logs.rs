//! `kara ext logs`: the panics of what is loaded.

use super::running;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::{interrupt, output};
use serde_json::json;
use std::time::Duration;

/// Options of `kara ext logs`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Its name, as `kara ext status` shows it
    #[arg(value_name = "NAME")]
    name: String,
    /// Go on showing new ones, until Ctrl-C or until it is unloaded
    #[arg(short, long)]
    follow: bool,
}

impl Options {
    /// Shows them.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        running::named(&self.name)?;
        let path = running::log_file(&self.name);
        let mut shown = 0;
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let new = text.get(shown..).unwrap_or("");
            shown = text.len();
            if new.is_empty() && !self.follow && !common.json && !common.quiet {
                eprintln!("{} has not panicked so far", self.name);
            }
            match common.json {
                true if !self.follow => {
                    let lines: Vec<&str> = new.lines().collect();
                    output::print_json(
                        &json!({ "schema": "kara/ext-logs/1", "ok": true, "exit_code": 0, "lines": lines }),
                    );
                }
                _ => output::print_text(new),
            }
            if !self.follow || interrupt::is_asked() || running::read(&self.name).is_none() {
                return Ok(Answer::Yes);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
