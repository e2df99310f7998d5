//! Files and lines of places in the code, from the module's debug information.

use crate::manifest::Site;
use crate::module::Module;
use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

/// Says of each site in which file and line it is, as far as that is known.
pub(crate) fn locate(module: &Module, sites: &mut [Site]) {
    let section = |id: SectionId| -> Result<_, gimli::Error> {
        Ok(EndianSlice::new(module.debug.get(id.name()).copied().unwrap_or(&[]), LittleEndian))
    };
    let Ok(dwarf) = Dwarf::load(section) else { return };
    let Ok(context) = Context::from_dwarf(dwarf) else { return };
    for site in sites {
        if let Ok(Some(location)) = context.find_location(site.code_offset as u64)
            && let Some(file) = location.file
        {
            site.source = Some((file.to_string(), location.line.unwrap_or(0)));
        }
    }
}
