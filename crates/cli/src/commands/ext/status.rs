//! `kara ext status`: what is loaded.

use super::running;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use karakoram_installer::MapContents;
use serde_json::json;

/// Options of `kara ext status`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only this one
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// A map with its first entries, keys and values as bytes.
fn of_map(map: &MapContents) -> String {
    let entries = map.entries.iter().map(|(key, value)| format!("\n    {key} = {value}"));
    let entries: String = entries.collect();
    let more = if map.has_more { "\n    ..." } else { "" };
    format!("\n  {} ({} of {}){entries}{more}", map.name, map.kind, map.capacity)
}

/// A number of things.
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

impl Options {
    /// Shows it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let shown = match &self.name {
            Some(name) => vec![running::named(name)?],
            None => running::all(),
        };
        if common.json {
            output::print_json(
                &json!({ "schema": "kara/ext-status/1", "ok": true, "exit_code": 0, "extensions": shown }),
            );
            return Ok(Answer::Yes);
        }
        if shown.is_empty() && !common.quiet {
            eprintln!("nothing is loaded in the background");
        }
        for s in &shown {
            let mut text = format!("{}: {} on {}, {}", s.name, s.program, s.interface, counted(s.panics, "panic"));
            if s.nested > 0 {
                text += &format!(", {} passed because the program was already running there", counted(s.nested, "run"));
            }
            if s.leaked > 0 {
                text += &format!(", {} kept a lock", counted(s.leaked, "run"));
            }
            s.fallback.iter().for_each(|fallback| text += &format!("\n  loaded {fallback}"));
            s.counters.iter().for_each(|(name, value)| text += &format!("\n  {name} {value}"));
            s.maps.iter().for_each(|map| text += &of_map(map));
            output::print_text(&(text + "\n"));
        }
        Ok(Answer::Yes)
    }
}
