//! Tables as data.

use super::number::plain;
use serde::{Deserialize, Serialize};

/// A table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Its name: of its CSV file.
    pub name: String,
    /// What it shows; may be empty.
    pub caption: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Its title.
    pub name: String,
    /// Unit of its numbers; may be empty.
    pub unit: String,
    /// What its cells are.
    pub form: Form,
}

/// What the cells of a column are; numbers with so many decimals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Words.
    Text,
    /// Numbers.
    Number(usize),
    /// Numbers with intervals.
    Estimate(usize),
}

/// A cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number.
    Number(f64),
    /// Words.
    Text(String),
    /// A number with its interval.
    Estimate {
        /// The number.
        value: f64,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Nothing.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_string())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        Cell::Number(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Empty, Into::into)
    }
}

impl Column {
    /// Words.
    pub fn text(name: impl Into<String>) -> Column {
        Column { name: name.into(), unit: String::new(), form: Form::Text }
    }

    /// Numbers.
    pub fn number(name: impl Into<String>, unit: impl Into<String>, decimals: usize) -> Column {
        Column { name: name.into(), unit: unit.into(), form: Form::Number(decimals) }
    }

    /// Numbers with intervals.
    pub fn estimate(name: impl Into<String>, unit: impl Into<String>, decimals: usize) -> Column {
        Column { name: name.into(), unit: unit.into(), form: Form::Estimate(decimals) }
    }

    /// `name (unit)`.
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.name.clone() } else { format!("{} ({})", self.name, self.unit) }
    }

    /// A cell of it as people read it.
    pub fn show(&self, cell: &Cell) -> String {
        let decimals = match self.form {
            Form::Text => 3,
            Form::Number(decimals) | Form::Estimate(decimals) => decimals,
        };
        match cell {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => plain(*value, decimals),
            Cell::Estimate { value, low, high } => {
                format!("{} [{}, {}]", plain(*value, decimals), plain(*low, decimals), plain(*high, decimals))
            }
            Cell::Empty => String::new(),
        }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(name: impl Into<String>, columns: Vec<Column>) -> Table {
        Table { name: name.into(), caption: String::new(), columns, rows: Vec::new() }
    }

    /// The same with a sentence about it.
    pub fn caption(mut self, text: impl Into<String>) -> Table {
        self.caption = text.into();
        self
    }

    /// The same with a row more.
    pub fn row(mut self, cells: Vec<Cell>) -> Table {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column of {}", self.name);
        self.rows.push(cells);
        self
    }

    /// As CSV: numbers unrounded, an interval in two more columns.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = self.columns.iter().flat_map(|column| {
            let ends = [format!("{} low", column.name), format!("{} high", column.name)];
            let ends = if matches!(column.form, Form::Estimate(_)) { ends.to_vec() } else { Vec::new() };
            std::iter::once(column.title()).chain(ends)
        });
        let write = |writer: &mut csv::Writer<Vec<u8>>, record: Vec<String>| {
            writer.write_record(record).expect("memory takes any record of one length");
        };
        write(&mut writer, header.collect());
        for row in &self.rows {
            write(&mut writer, row.iter().zip(&self.columns).flat_map(|(cell, c)| fields(cell, c.form)).collect());
        }
        String::from_utf8(writer.into_inner().expect("memory is flushed")).expect("only text was written")
    }
}

fn fields(cell: &Cell, form: Form) -> Vec<String> {
    let mut fields = match cell {
        Cell::Text(text) => vec![text.clone()],
        Cell::Number(value) => vec![value.to_string()],
        Cell::Estimate { value, low, high } => [value, low, high].map(f64::to_string).to_vec(),
        Cell::Empty => vec![String::new()],
    };
    let count = if matches!(form, Form::Estimate(_)) { 3 } else { 1 };
    fields.resize(count, String::new());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_columns_of_a_csv() {
        let table = Table::new("t", vec![Column::text("a,b"), Column::estimate("time", "ns", 1)])
            .row(vec!["x".into(), Cell::Estimate { value: 1.25, low: 1.0, high: 2.0 }])
            .row(vec![Cell::Empty, 3.0.into()]);
        assert_eq!(table.csv(), "\"a,b\",time (ns),time low,time high\nx,1.25,1,2\n,3,,\n");
        assert_eq!(table.columns[1].show(&table.rows[0][1]), "1.2 [1.0, 2.0]");
    }

    #[test]
    fn cells_survive_json() {
        let cells = [Cell::from("x"), Cell::from(1.5), Cell::Empty, Cell::Estimate { value: 1.0, low: 0.5, high: 2.0 }];
        let text = serde_json::to_string(&cells).unwrap();
        assert_eq!(text, r#"["x",1.5,null,{"value":1.0,"low":0.5,"high":2.0}]"#);
        assert_eq!(serde_json::from_str::<Vec<Cell>>(&text).unwrap(), cells);
    }
}
