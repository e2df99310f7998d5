//! A report as Markdown, for places that show nothing better.

use super::table::{Form, Table};
use super::{Block, Claim, Report, Section};

/// The whole report; figures are named by the files that [`super::write`] makes.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n", report.title);
    report.warnings.iter().for_each(|w| out += &format!("> **Warning:** {w}\n\n"));
    report.summary.iter().for_each(|s| out += &format!("{s}\n\n"));
    report.sections.iter().for_each(|s| out += &section(s));
    if !report.environment.is_empty() {
        out += "## Environment\n\n| | |\n|---|---|\n";
        report.environment.iter().for_each(|(name, value)| out += &format!("| {} | {} |\n", cell(name), cell(value)));
    }
    out
}

fn section(section: &Section) -> String {
    let mut out = format!("## {}\n\n", section.title);
    if !section.claims.is_empty() {
        out += "| published claim | published (other hardware) | here | verdict |\n|---|---|---|---|\n";
        section.claims.iter().for_each(|c| out += &claim(c));
        out.push('\n');
    }
    for block in &section.blocks {
        out += &match block {
            Block::Text(text) => format!("{text}\n\n"),
            Block::Table(one) => table(one) + "\n",
            Block::Figure(figure) => {
                format!("![{}]({}.svg)\n\n*{}* {}\n\n", figure.title, figure.name, figure.title, figure.caption)
            }
        };
    }
    out
}

fn claim(claim: &Claim) -> String {
    let because = if claim.reason.is_empty() { String::new() } else { format!(": {}", claim.reason) };
    let verdict = format!("**{}**{because}", claim.verdict.words());
    format!(
        "| {} ({}) | {} | {} | {} |\n",
        cell(&claim.text),
        cell(&claim.source),
        cell(&claim.published),
        cell(&claim.measured),
        cell(&verdict)
    )
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = if table.caption.is_empty() { String::new() } else { format!("{}\n\n", table.caption) };
    out += &line(table.columns.iter().map(|c| cell(&c.title())).collect());
    let rule = |form: Form| if form == Form::Text { "---" } else { "---:" };
    out += &line(table.columns.iter().map(|c| rule(c.form).to_string()).collect());
    for row in &table.rows {
        out += &line(row.iter().zip(&table.columns).map(|(value, c)| cell(&c.show(value))).collect());
    }
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
