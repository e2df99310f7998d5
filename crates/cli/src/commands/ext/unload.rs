//! `kara ext unload`: takes a program away.

use super::running;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use serde_json::json;
use std::time::{Duration, Instant};

/// How long the process may take to end.
const END: Duration = Duration::from_secs(10);

/// Options of `kara ext unload`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Its name, as `kara ext status` shows it
    #[arg(value_name = "NAME")]
    name: String,
}

impl Options {
    /// Takes it away, and waits until it is.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let snapshot = running::named(&self.name)?;
        let path = running::stop_file(&self.name);
        std::fs::write(&path, "").map_err(|e| Failure::file(&path.display().to_string(), "write", &e))?;
        let started = Instant::now();
        while running::read(&self.name).is_some() {
            if started.elapsed() > END {
                return Err(Failure::machine(format!("process {} does not end", snapshot.pid)));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if !common.json && !common.quiet {
            eprintln!("{} is detached from {}", self.name, snapshot.interface);
        }
        if common.json {
            output::print_json(
                &json!({ "schema": "kara/ext-unload/1", "ok": true, "exit_code": 0, "name": self.name }),
            );
        }
        Ok(Answer::Yes)
    }
}
