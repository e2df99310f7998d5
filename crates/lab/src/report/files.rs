//! Reports as files.

use super::{Block, Report, html, markdown, svg};
use crate::error::LabError;
use crate::files::replace;
use std::path::Path;

/// Writes `report.html`, `report.json`, `README.md`, a CSV file for each table and an SVG file for
/// each figure. Each file is complete or absent.
pub fn write(report: &Report, folder: &Path) -> Result<(), LabError> {
    std::fs::create_dir_all(folder).map_err(|e| LabError::file("make the folder", folder, &e))?;
    let json = serde_json::to_string_pretty(report).map_err(|e| LabError::Request(format!("the report: {e}")))?;
    replace(&folder.join("report.json"), json.as_bytes())?;
    replace(&folder.join("report.html"), html(report)?.as_bytes())?;
    replace(&folder.join("README.md"), markdown(report).as_bytes())?;
    for block in report.sections.iter().flat_map(|s| &s.blocks) {
        match block {
            Block::Text(_) => {}
            Block::Table(table) => replace(&folder.join(format!("{}.csv", table.name)), table.csv().as_bytes())?,
            Block::Figure(figure) => {
                replace(&folder.join(format!("{}.svg", figure.name)), svg(figure, true).as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Reads `report.json`.
pub fn read(path: &Path) -> Result<Report, LabError> {
    let text = std::fs::read(path).map_err(|e| LabError::file("read", path, &e))?;
    serde_json::from_slice(&text)
        .map_err(|e| LabError::Request(format!("{} is no report of this version: {e}", path.display())))
}
