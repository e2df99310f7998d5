//! `kara rules`: the rewrite rules: which there are, what they say, and the proof that they hold.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::interrupt;
use crate::output;
use crate::terminal;
use karakoram_optimize::rules::prove::{self, Verdict};
use karakoram_optimize::rules::{Rule, RuleSet, parse};
use serde_json::{Value, json};

mod learn;

const AFTER_HELP: &str = "\
Examples:
  kara rules list                      all rules, with what they say in a line
  kara rules show shifts/add-up        one rule, or all of a family: `shifts`
  kara rules prove                     prove all rules in general
  kara rules prove mine.rule           prove the rules of a file
  kara rules learn objects/ --out new.rule   rules from what a search finds, to be reviewed

A rule that is applied is judged again at that place, so a wrong rule wastes time and does no harm;
`kara opt --skip-rule NAME` leaves one out, or a family.

Exit status: 0 done, or all proven; 1 some rule is not proven; 2 wrong request or file.";

const SCHEMA: &str = "kara/rules/1";

/// Options of `kara rules`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Print the name and meaning of every rule
    List,
    /// Print rules as they are written
    Show {
        /// A rule, or a family
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Prove rules for all registers, constants and widths
    Prove {
        /// Files with rules; without one, those that come with kara
        #[arg(value_name = "FILE")]
        files: Vec<String>,
    },
    /// Search the objects of a folder for what no rule knows, and print rules that would know it
    Learn {
        /// Folder with objects, looked through to the bottom
        #[arg(value_name = "CORPUS")]
        corpus: String,
        /// Where the rules go
        #[arg(long, value_name = "FILE", default_value = "-")]
        out: String,
        /// Look at no more objects than that
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
}

impl Options {
    /// Does it.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        match &self.action {
            Action::List => {
                list(common);
                Ok(Answer::Yes)
            }
            Action::Show { name } => show(common, name),
            Action::Prove { files } => prove_all(common, files),
            Action::Learn { corpus, out, limit } => learn::run(common, corpus, out, *limit),
        }
    }
}

fn to_json(rule: &Rule) -> Value {
    json!({
        "name": rule.name,
        "meaning": rule.remarks.join(" "),
        "variants": rule.variants.len(),
        "text": rule.text,
    })
}

fn list(common: &Common) {
    let rules = &RuleSet::shipped().rules;
    if common.json {
        let all: Vec<Value> = rules.iter().map(to_json).collect();
        output::print_json(&json!({ "schema": SCHEMA, "ok": true, "exit_code": 0, "rules": all }));
        return;
    }
    let width = rules.iter().map(|r| r.name.len()).max().unwrap_or(0);
    let lines = rules.iter().map(|r| format!("{:<width$}  {}\n", r.name, r.remarks.join(" ")));
    output::print_text(&lines.collect::<String>());
}

fn show(common: &Common, name: &str) -> Result<Answer, Failure> {
    let is_wanted = |r: &&Rule| r.name == name || r.name.split('/').next() == Some(name);
    let found: Vec<&Rule> = RuleSet::shipped().rules.iter().filter(is_wanted).collect();
    if found.is_empty() {
        return Err(Failure::usage(format!("there is no rule and no family `{name}`"))
            .help("`kara rules list` prints the names of all rules"));
    }
    if common.json {
        let all: Vec<Value> = found.into_iter().map(to_json).collect();
        output::print_json(&json!({ "schema": SCHEMA, "ok": true, "exit_code": 0, "rules": all }));
        return Ok(Answer::Yes);
    }
    let texts: Vec<String> = found.into_iter().map(text).collect();
    output::print_text(&texts.join("\n"));
    Ok(Answer::Yes)
}

/// A rule as a file has it.
fn text(rule: &Rule) -> String {
    let remarks: String = rule.remarks.iter().map(|r| format!("; {r}\n")).collect();
    format!("{remarks}{}\n", rule.text)
}

fn prove_all(common: &Common, files: &[String]) -> Result<Answer, Failure> {
    interrupt::ends_at_once();
    let read: Vec<Rule>;
    let rules = match files {
        [] => &RuleSet::shipped().rules,
        files => {
            read = files.iter().map(|f| read_rules(f)).collect::<Result<Vec<_>, _>>()?.concat();
            &read
        }
    };
    let mut results = Vec::new();
    let mut failed = 0;
    for rule in rules {
        let verdict = prove::rule(rule);
        failed += !matches!(verdict, Verdict::Holds { .. }) as usize;
        match common.json {
            true => results.push(verdict_json(rule, &verdict)),
            false => output::print_text(&verdict_text(rule, &verdict)),
        }
    }
    if common.json {
        let (ok, exit_code) = (failed == 0, (failed > 0) as u8);
        output::print_json(
            &json!({ "schema": SCHEMA, "ok": ok, "exit_code": exit_code, "failed": failed, "rules": results }),
        );
    } else if !common.quiet {
        eprintln!("{} rules, {} proven", rules.len(), rules.len() - failed);
    }
    Ok(if failed == 0 { Answer::Yes } else { Answer::No })
}

fn read_rules(path: &str) -> Result<Vec<Rule>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, "read", &e))?;
    parse::rules(&text).map_err(|e| Failure::input(e.to_string()).of_file(path))
}

fn verdict_text(rule: &Rule, verdict: &Verdict) -> String {
    let style = terminal::stdout_style();
    let of = |variant: &str| if variant.is_empty() { String::new() } else { format!(" with {variant}") };
    let line = match verdict {
        Verdict::Holds { statements } => format!("{} ({statements} statements)", style.green("proven")),
        Verdict::Refuted { variant, counterexample } => {
            format!("{}{}: {counterexample}", style.red("refuted"), of(variant))
        }
        Verdict::Unknown { variant, why } => format!("{}{}: {why}", style.red("unknown"), of(variant)),
    };
    format!("{}: {line}\n", rule.name)
}

fn verdict_json(rule: &Rule, verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Holds { statements } => {
            json!({ "name": rule.name, "verdict": "proven", "statements": statements })
        }
        Verdict::Refuted { variant, counterexample } => {
            json!({ "name": rule.name, "verdict": "refuted", "variant": variant, "counterexample": counterexample })
        }
        Verdict::Unknown { variant, why } => {
            json!({ "name": rule.name, "verdict": "unknown", "variant": variant, "why": why })
        }
    }
}
