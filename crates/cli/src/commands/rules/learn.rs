//! `kara rules learn`: rules from what a search finds in a folder of objects.

use super::SCHEMA;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars};
use crate::interrupt;
use crate::output::{self, Artefact};
use karakoram_optimize::learn::{Effort, Learned, Learner, samples};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Most places that are named for one rule.
const MOST_ORIGINS: usize = 3;

/// Learns from all objects in a folder, or as many as there is time for.
pub fn run(common: &Common, corpus: &str, out: &str, limit: Option<usize>) -> Result<Answer, Failure> {
    output::check(out, false)?;
    let mut objects = Vec::new();
    collect(Path::new(corpus), &mut objects).map_err(|e| Failure::file(corpus, "read", &e))?;
    objects.sort();
    objects.truncate(limit.unwrap_or(usize::MAX));
    if objects.is_empty() {
        return Err(Failure::usage("there is no object (.o) in it").of_file(corpus));
    }
    let mut learner = Learner::default();
    for (i, path) in objects.iter().enumerate() {
        if interrupt::is_asked() {
            break;
        }
        let name = path.strip_prefix(corpus).unwrap_or(path).display().to_string();
        if !common.quiet {
            eprintln!("[{}/{}] {name}", i + 1, objects.len());
        }
        match Input::read(&path.to_string_lossy(), &Sidecars::default()) {
            Ok(input) => {
                let found = samples(input.program().clone(), &name, &Effort::default(), Some(interrupt::flag()));
                found.iter().for_each(|sample| learner.add(sample));
            }
            // A folder may hold other things too.
            Err(failure) if !common.quiet => failure.print("rules", false, 0.0),
            Err(_) => {}
        }
    }
    let rules = learner.rules();
    if common.json {
        output::print_json(&to_json(&rules, learner.unsaid));
        return Ok(Answer::Yes);
    }
    let text: Vec<String> = rules.iter().map(text).collect();
    output::write(out, &Artefact::Text(text.join("\n")))?;
    if !common.quiet {
        let windows: usize = rules.iter().map(|r| r.support).sum();
        eprintln!("{} rules from {windows} windows; {} windows that no rule says", rules.len(), learner.unsaid);
    }
    Ok(Answer::Yes)
}

fn collect(folder: &Path, out: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, out)?;
        } else if path.extension().is_some_and(|e| e == "o") {
            out.push(path);
        }
    }
    Ok(())
}

fn text(learned: &Learned) -> String {
    let some: Vec<&str> = learned.origins.iter().take(MOST_ORIGINS).map(String::as_str).collect();
    let more = if learned.origins.len() > MOST_ORIGINS { ", .." } else { "" };
    format!("; {} times: {}{more}\n{}\n", learned.support, some.join(", "), learned.rule.text)
}

fn to_json(rules: &[Learned], unsaid: usize) -> Value {
    let all: Vec<Value> = rules
        .iter()
        .map(|l| json!({ "name": l.rule.name, "support": l.support, "origins": l.origins, "text": l.rule.text }))
        .collect();
    json!({ "schema": SCHEMA, "ok": true, "exit_code": 0, "unsaid": unsaid, "rules": all })
}
