//! The glue: what every module is made of besides the extension's own code.

use karakoram_installer::InstallError;
use std::path::Path;

/// What stands for the extension's name in the sources.
const NAME: &str = "EXTENSION";

const FILES: &[(&str, &str)] = &[
    ("Kbuild", include_str!("glue/Kbuild")),
    ("entry.S", include_str!("glue/entry.S")),
    ("module.c", include_str!("glue/module.c")),
    ("packet.c", include_str!("glue/packet.c")),
    ("report.c", include_str!("glue/report.c")),
    ("run.c", include_str!("glue/run.c")),
    ("run.h", include_str!("glue/run.h")),
    ("watchdog.c", include_str!("glue/watchdog.c")),
];

/// Writes the sources for an extension of that name into a folder.
pub fn write(folder: &Path, name: &str) -> Result<(), InstallError> {
    for (file, text) in FILES {
        put(&folder.join(file), text.replace(NAME, name).as_bytes())?;
    }
    Ok(())
}

/// Writes a file.
pub fn put(path: &Path, content: &[u8]) -> Result<(), InstallError> {
    std::fs::write(path, content).map_err(|e| InstallError::file("write", path, &e))
}
