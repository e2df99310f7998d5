//! `kara lab report`: pages of what runs left.

use super::machine::failure;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use crate::table;
use karakoram_lab::presentation;
use karakoram_lab::report::{self, Report};
use karakoram_lab::results::{FILE, Results};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Examples:
  kara lab report build/lab              report.html of all runs below, and one for each
  kara lab report experiments/echo/results

Everything is made from the results.json files alone: report.html (one page that needs no other file),
report.json, README.md, a CSV file for each table and an SVG file for each figure. Where there is only a
report.json, as other experiments write it, it is shown as it is.

Exit status: 0 done, 2 wrong request or input.";

/// Options of `kara lab report`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Folder with results.json, or with folders that have one, or with report.json
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Options {
    /// Writes the pages.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let runs = read_all(&self.folder)?;
        let report = match runs.is_empty() {
            true => self.show()?,
            false => write_all(&self.folder, &runs)?,
        };
        match common.json {
            true => output::print_json(&to_json("kara/lab/report/1", &self.folder, &runs, &report)),
            false => output::print_text(&to_text(&self.folder, &report)),
        }
        Ok(Answer::Yes)
    }
}

impl Options {
    /// Shows a report that others made.
    fn show(&self) -> Result<Report, Failure> {
        let made = self.folder.join("report.json");
        if !made.is_file() {
            let shown = self.folder.display().to_string();
            return Err(Failure::usage(format!("there is neither {FILE} nor report.json in it")).of_file(&shown));
        }
        let report = report::read(&made).map_err(failure)?;
        report::write(&report, &self.folder).map_err(failure)?;
        Ok(report)
    }
}

/// The results in a folder, or in the folders in it, with their places.
fn read_all(folder: &Path) -> Result<Vec<(PathBuf, Results)>, Failure> {
    let shown = folder.display().to_string();
    let mut places = vec![folder.to_path_buf()];
    let entries = std::fs::read_dir(folder).map_err(|e| Failure::file(&shown, "read", &e))?;
    places.extend(entries.flatten().map(|e| e.path()));
    places.retain(|p| p.join(FILE).is_file());
    places.sort();
    places.into_iter().map(|p| Ok((p.clone(), Results::read(&p).map_err(failure)?))).collect()
}

/// Writes a report for each run where its results are, and one of all.
pub fn write_all(folder: &Path, runs: &[(PathBuf, Results)]) -> Result<Report, Failure> {
    for (place, run) in runs.iter().filter(|(place, _)| place != folder) {
        let title = run.experiment().map_err(failure)?.definition.title;
        let one = presentation::report(&title, std::slice::from_ref(run)).map_err(failure)?;
        report::write(&one, place).map_err(failure)?;
    }
    let all: Vec<Results> = runs.iter().map(|(_, run)| run.clone()).collect();
    let title = match &all[..] {
        [one] => one.experiment().map_err(failure)?.definition.title,
        _ => "Published results, measured again".to_string(),
    };
    let report = presentation::report(&title, &all).map_err(failure)?;
    report::write(&report, folder).map_err(failure)?;
    Ok(report)
}

/// Verdicts, and where the page is.
pub fn to_text(folder: &Path, report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .sections
        .iter()
        .flat_map(|s| s.claims.iter().map(move |c| (s, c)))
        .map(|(s, c)| {
            vec![s.title.clone(), c.text.clone(), c.verdict.words().to_string(), c.measured.clone(), c.reason.clone()]
        })
        .collect();
    let mut out = String::new();
    if !rows.is_empty() {
        out += &table::markdown(&["experiment", "published claim", "verdict", "here", "why"], &rows);
    }
    report.warnings.iter().for_each(|w| out += &format!("warning: {w}\n"));
    let counts: Vec<String> = presentation::tally(report).iter().map(|(words, n)| format!("{n} {words}")).collect();
    if !counts.is_empty() {
        out += &format!("{}\n", counts.join(", "));
    }
    out + &format!("{}\n", folder.join("report.html").display())
}

/// The same for programs.
pub fn to_json(schema: &str, folder: &Path, runs: &[(PathBuf, Results)], report: &Report) -> Value {
    let one = |((place, run), section): (&(PathBuf, Results), &report::Section)| {
        json!({
            "name": run.experiment, "title": section.title, "folder": place, "quick": run.is_quick, "seed": run.seed,
            "seconds": run.seconds, "trials": run.trials.len(), "void": run.trials.iter().filter(|t| t.void.is_some()).count(),
            "contamination": run.contamination, "unavailable": run.unavailable, "claims": section.claims,
        })
    };
    json!({
        "schema": schema, "ok": true, "exit_code": 0, "folder": folder, "page": folder.join("report.html"),
        "warnings": report.warnings, "experiments": runs.iter().zip(&report.sections).map(one).collect::<Vec<_>>(),
    })
}
