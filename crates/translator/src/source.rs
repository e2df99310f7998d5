//! Files and lines of places in the code, from the module's debug information.

use crate::manifest::Site;
use crate::module::Module;
use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

/// How far on a line is looked for.
const MOST_BYTES_ON: u32 = 64;

/// Says of each site in which file and line it is, as far as that is known.
pub(crate) fn locate(module: &Module, sites: &mut [Site]) {
    let section = |id: SectionId| -> Result<_, gimli::Error> {
        Ok(EndianSlice::new(module.debug.get(id.name()).copied().unwrap_or(&[]), LittleEndian))
    };
    let Ok(dwarf) = Dwarf::load(section) else { return };
    let Ok(context) = Context::from_dwarf(dwarf) else { return };
    for site in sites {
        // What the compiler made up has no line; what comes next has.
        let offsets = site.code_offset..site.code_offset + MOST_BYTES_ON;
        site.source = offsets.into_iter().find_map(|at| own_line(&context, at as u64));
    }
}

/// The place in the innermost function that is not the standard library's.
fn own_line<R: gimli::Reader>(context: &Context<R>, at: u64) -> Option<(String, u32)> {
    let mut frames = context.find_frames(at).skip_all_loads().ok()?;
    let mut found = None;
    while let Ok(Some(frame)) = frames.next() {
        let Some(location) = frame.location else { continue };
        let (Some(file), Some(line @ 1..)) = (location.file, location.line) else { continue };
        found = found.or(Some((file.to_string(), line)));
        if !file.starts_with("/rustc/") {
            return Some((file.to_string(), line));
        }
    }
    found
}
