//! `kara cache`: what `kara opt --cache` keeps from run to run.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use karakoram_optimize::store::{Sqlite, StoreError};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

const AFTER_HELP: &str = "\
Examples:
  kara opt in.o -o out.o --cache windows.db     searches what was not searched before
  kara cache stats windows.db
  kara cache merge windows.db from-elsewhere.db

A cache saves time and changes no result: what it proposes is proven like anything else. It may be
used by several processes at once.

Exit status: 0 done, 2 wrong request, or a file that is no cache.";

const SCHEMA: &str = "kara/cache/1";

/// Options of `kara cache`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Print what is in it
    Stats {
        /// The cache
        #[arg(value_name = "PATH")]
        path: String,
    },
    /// Forget everything
    Clear {
        /// The cache
        #[arg(value_name = "PATH")]
        path: String,
    },
    /// Take over what another cache has
    Merge {
        /// The cache that grows
        #[arg(value_name = "A")]
        into: String,
        /// The other one
        #[arg(value_name = "B")]
        from: String,
    },
}

impl Options {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        match &self.action {
            Action::Stats { path } => stats(common, path)?,
            Action::Clear { path } => existing(path)?.clear().map_err(|e| failure(path, &e))?,
            Action::Merge { into, from } => {
                existing(from)?;
                let taken = open(into)?.merge(Path::new(from)).map_err(|e| failure(from, &e))?;
                if common.json {
                    output::print_json(&json!({ "schema": SCHEMA, "ok": true, "exit_code": 0, "taken": taken }));
                } else if !common.quiet {
                    eprintln!("{into}: {taken} windows taken over from {from}");
                }
            }
        }
        Ok(Answer::Yes)
    }
}

/// The cache in a file, which is made when it is not there.
pub fn open(path: &str) -> Result<Arc<Sqlite>, Failure> {
    Sqlite::open(Path::new(path)).map(Arc::new).map_err(|e| failure(path, &e))
}

fn existing(path: &str) -> Result<Arc<Sqlite>, Failure> {
    match Path::new(path).is_file() {
        true => open(path),
        false => Err(Failure::usage("there is no such cache").of_file(path).help("`kara opt --cache PATH` makes one")),
    }
}

fn failure(path: &str, error: &StoreError) -> Failure {
    Failure::input(format!("the cache cannot be used: {error}"))
        .of_file(path)
        .help("remove the file, name another one with --cache, or do without: --cache none")
}

fn stats(common: &Common, path: &str) -> Result<(), Failure> {
    let s = existing(path)?.statistics().map_err(|e| failure(path, &e))?;
    if common.json {
        output::print_json(&json!({
            "schema": SCHEMA, "ok": true, "exit_code": 0,
            "found": s.found, "nothing": s.nothing, "candidates": s.candidates, "bytes": s.bytes,
        }));
    } else {
        output::print_text(&format!(
            "{} windows with a replacement\n{} windows without\n{} candidates not to be evaluated again\n{} bytes\n",
            s.found, s.nothing, s.candidates, s.bytes
        ));
    }
    Ok(())
}
