//! Which line each piece of the code comes from, so that the module itself can say where it failed.

use karakoram_installer::InstallError;
use karakoram_translator::source::Places;
use object::{Object, ObjectSection};

/// From this offset in the code on it is this line, up to the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Bytes from the begin of the code.
    pub offset: u64,
    /// File.
    pub file: String,
    /// Line in it.
    pub line: u32,
}

/// Reads the debug information of a linked image, whose code is in the section of that name.
pub fn read(image: &[u8], code: &str) -> Result<Vec<Line>, InstallError> {
    let broken = |what: String| InstallError::Object(format!("the linked code is not understood: {what}"));
    let file = object::File::parse(image).map_err(|e| broken(e.to_string()))?;
    let section = file.section_by_name(code).ok_or_else(|| broken(format!("it has no section {code}")))?;
    let (start, end) = (section.address(), section.address() + section.size());
    let bytes = |name: &str| file.section_by_name(name)?.data().ok();
    let Some(places) = Places::new(bytes) else { return Ok(Vec::new()) };
    let lines = places.lines(start..end).into_iter();
    Ok(lines.map(|(at, file, line)| Line { offset: at.saturating_sub(start), file, line }).collect())
}
