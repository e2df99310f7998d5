//! `kara lab list`: which experiments there are.

use super::experiments::FolderOption;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use crate::table;
use karakoram_lab::experiment::{Experiment, Rounds};
use serde_json::json;

const AFTER_HELP: &str = "\
Examples:
  kara lab list
  kara lab list --json | jq '.experiments[].name'

Exit status: 0 done, 2 wrong request or input.";

/// Options of `kara lab list`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    #[command(flatten)]
    folder: FolderOption,
}

impl Options {
    /// Lists.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let all = self.folder.all()?;
        if common.json {
            output::print_json(&json!({
                "schema": "kara/lab/list/1", "ok": true, "exit_code": 0,
                "experiments": all.iter().map(to_json).collect::<Vec<_>>(),
            }));
            return Ok(Answer::Yes);
        }
        let row = |e: &Experiment| {
            let variants: Vec<&str> = e.variants.iter().map(|v| v.name.as_str()).collect();
            let claims = e.definition.claims.len().to_string();
            vec![e.name.clone(), e.definition.title.clone(), shown(e.definition.rounds), claims, short(&variants)]
        };
        let header = ["experiment", "what", "rounds", "claims", "variants"];
        output::print_text(&table::markdown(&header, &all.iter().map(row).collect::<Vec<_>>()));
        Ok(Answer::Yes)
    }
}

fn to_json(experiment: &Experiment) -> serde_json::Value {
    let definition = &experiment.definition;
    json!({
        "name": experiment.name, "title": definition.title, "kind": definition.kind, "rounds": definition.rounds,
        "variants": experiment.variants.iter().map(|v| &v.name).collect::<Vec<_>>(),
        "metrics": definition.metrics.iter().map(|m| &m.name).collect::<Vec<_>>(),
        "claims": definition.claims.iter().map(|c| &c.text).collect::<Vec<_>>(),
    })
}

fn shown(rounds: Rounds) -> String {
    match rounds.least == rounds.most {
        true => rounds.least.to_string(),
        false => format!("{}..{}", rounds.least, rounds.most),
    }
}

/// The first few names.
fn short(names: &[&str]) -> String {
    const SHOWN: usize = 4;
    let first = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        n if n > SHOWN => format!("{first}, and {} more", n - SHOWN),
        _ => first,
    }
}
