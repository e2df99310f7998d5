//! A report as one page that needs nothing else.

use super::table::{Cell, Column, Form};
use super::{Block, Report, Section, svg};
use crate::error::LabError;
use minijinja::value::Value;
use minijinja::{Environment, context};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// The page.
pub fn html(report: &Report) -> Result<String, LabError> {
    let mut environment = Environment::new();
    environment.add_template("page.html", PAGE).map_err(|e| wrong(&e))?;
    let sections: Vec<Value> = report.sections.iter().enumerate().map(|(n, s)| section(n, s)).collect();
    let page = environment.get_template("page.html").map_err(|e| wrong(&e))?;
    let style = Value::from_safe_string(format!("{STYLE}{}", svg::STYLE));
    page.render(context! {
        title => report.title,
        summary => report.summary,
        warnings => report.warnings,
        sections => sections,
        environment => report.environment,
        style => style,
        version => env!("CARGO_PKG_VERSION"),
    })
    .map_err(|e| wrong(&e))
}

fn wrong(error: &minijinja::Error) -> LabError {
    LabError::Request(format!("the page cannot be made: {error:#}"))
}

fn section(number: usize, section: &Section) -> Value {
    let claims: Vec<Value> = section.claims.iter().map(|c| {
        context! {
            text => c.text, source => c.source, published => c.published, measured => c.measured,
            reason => c.reason, words => c.verdict.words(), sign => c.verdict.sign(), verdict => Value::from_serialize(c.verdict),
        }
    }).collect();
    context! {
        id => format!("part-{}", number + 1),
        title => section.title,
        claims => claims,
        blocks => section.blocks.iter().map(block).collect::<Vec<_>>(),
    }
}

fn block(block: &Block) -> Value {
    match block {
        Block::Text(text) => context! { kind => "text", text => text },
        Block::Figure(figure) => context! {
            kind => "figure", title => figure.title, caption => figure.caption,
            drawing => Value::from_safe_string(svg::svg(figure, false)),
        },
        Block::Table(table) => {
            let columns: Vec<Value> = table.columns.iter().map(column).collect();
            let rows: Vec<Vec<Value>> = table.rows.iter().map(|r| row(&table.columns, r)).collect();
            context! { kind => "table", caption => table.caption, columns => columns, rows => rows }
        }
    }
}

fn column(column: &Column) -> Value {
    context! { name => column.name, unit => column.unit, is_number => column.form != Form::Text }
}

/// Cells; the ends of an interval stand apart, so that a style can make them quiet.
fn row(columns: &[Column], cells: &[Cell]) -> Vec<Value> {
    let one = |(column, cell): (&Column, &Cell)| {
        let shown = column.show(cell);
        let (value, interval) = match cell {
            Cell::Estimate { .. } => shown.split_once(' ').map_or((shown.as_str(), ""), |(v, i)| (v, i)),
            _ => (shown.as_str(), ""),
        };
        context! { value => value, interval => interval, is_number => column.form != Form::Text }
    };
    columns.iter().zip(cells).map(one).collect()
}
