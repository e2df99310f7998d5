//! Files and lines of places in the code, from the module's debug information.

use crate::error::TranslateError;
use crate::manifest::{Fault, Site};
use crate::module::Module;
use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

/// How far on a line is looked for.
const MOST_BYTES_ON: u32 = 64;

/// Says of each site in which file and line it is, as far as that is known.
pub(crate) fn locate(module: &Module, sites: &mut [Site]) {
    let Some(places) = Places::new(|name| module.debug.get(name).copied()) else { return };
    for site in sites {
        // What the compiler made up has no line; what comes next has.
        let offsets = site.code_offset..site.code_offset + MOST_BYTES_ON;
        let place = |is_wanted: fn(&str) -> bool| {
            offsets.clone().find_map(|at| place_in(&places.context, at as u64, is_wanted))
        };
        site.source = place(is_users).or_else(|| place(|_| true));
    }
}

/// Why a function cannot be translated: what it uses, in which function, in which file and line.
pub(crate) fn unsupported_at(module: &Module, number: u32, offset: u32, what: &str) -> TranslateError {
    let mut site = [Site { what: Fault::Abort, function: String::new(), code_offset: offset, source: None }];
    locate(module, &mut site);
    let place = site[0].source.take().map_or(String::new(), |(file, line)| format!("{file}:{line}: "));
    let name = module.function(number).map_or("", |f| f.name.as_str());
    // Programs are exported with more than their names.
    let name = name.strip_prefix("kara:").and_then(|rest| rest.split(':').nth(2)).unwrap_or(name);
    let mut text = format!("{place}{what} in `{name}`");
    if what.starts_with("floating point") {
        text += ": BPF has none. Count in whole numbers, for fractions in parts of a power of two (`value << 16`)";
    }
    TranslateError::Unsupported(text)
}

/// What the debug information of linked code says.
pub struct Places<'a> {
    context: Context<EndianSlice<'a, LittleEndian>>,
}

impl<'a> Places<'a> {
    /// Reads sections by name, such as `.debug_line`; None when they make no sense.
    pub fn new(section: impl Fn(&str) -> Option<&'a [u8]>) -> Option<Places<'a>> {
        let load = |id: SectionId| -> Result<_, gimli::Error> {
            Ok(EndianSlice::new(section(id.name()).unwrap_or(&[]), LittleEndian))
        };
        Context::from_dwarf(Dwarf::load(load).ok()?).ok().map(|context| Places { context })
    }

    /// Addresses from which on something else is said, with the file and the line that the user wrote, or
    /// that of a library when there is none.
    pub fn lines(&self, code: std::ops::Range<u64>) -> Vec<(u64, String, u32)> {
        let Ok(ranges) = self.context.find_location_range(code.start, code.end) else { return Vec::new() };
        let place = |at: u64| place_in(&self.context, at, is_users).or_else(|| place_in(&self.context, at, |_| true));
        let mut lines: Vec<(u64, String, u32)> =
            ranges.filter_map(|(at, ..)| place(at).map(|(file, line)| (at, file, line))).collect();
        lines.sort();
        lines.dedup_by(|later, earlier| (&later.1, later.2) == (&earlier.1, earlier.2));
        lines
    }
}

/// Whether a file is neither the standard library's nor the extension crate's, which is named by its place in a
/// workspace or by package and version.
fn is_users(file: &str) -> bool {
    let is_extension_crate = file.contains("/extension/src/") || file.contains("karakoram-extension-");
    !file.starts_with("/rustc/") && !is_extension_crate
}

/// The place in the innermost function whose file is wanted.
fn place_in<R: gimli::Reader>(
    context: &Context<R>,
    at: u64,
    is_wanted: impl Fn(&str) -> bool,
) -> Option<(String, u32)> {
    let mut frames = context.find_frames(at).skip_all_loads().ok()?;
    while let Ok(Some(frame)) = frames.next() {
        if let Some(location) = frame.location
            && let (Some(file), Some(line @ 1..)) = (location.file, location.line)
            && is_wanted(file)
        {
            return Some((file.to_string(), line));
        }
    }
    None
}
