//! The glue: what every module is made of besides the extension's own code.

use karakoram_extension::layout;
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

/// What the sources agree on with the extension crate.
const LAYOUT: &str = "layout.h";

/// The header of that name.
fn header() -> String {
    let numbers = [
        ("HEAP_NEXT", layout::HEAP_NEXT),
        ("HELD", layout::HELD),
        ("LOCKS", layout::LOCKS),
        ("MOST_LOCKS", layout::MOST_LOCKS),
        ("PACKET", layout::PACKET),
        ("OWNER_BITS", layout::OWNER_BITS as usize),
        ("PAGE_BITS", layout::PAGE_BITS as usize),
        ("HELD_BIT", layout::HELD_BIT as usize),
    ];
    let lines = numbers.map(|(name, number)| format!("#define KARA_{name} {number:#x}\n"));
    format!("/* SPDX-License-Identifier: Apache-2.0 OR MIT */\n{}", lines.concat())
}

/// Writes the sources for an extension of that name into a folder.
pub fn write(folder: &Path, name: &str) -> Result<(), InstallError> {
    for (file, text) in FILES {
        put(&folder.join(file), text.replace(NAME, name).as_bytes())?;
    }
    put(&folder.join(LAYOUT), header().as_bytes())
}

/// Writes a file.
pub fn put(path: &Path, content: &[u8]) -> Result<(), InstallError> {
    std::fs::write(path, content).map_err(|e| InstallError::file("write", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use karakoram_translator::layout::control;

    #[test]
    fn the_translator_and_the_extension_crate_mean_the_same_places() {
        let extension = [layout::HEAP_NEXT, layout::HELD, layout::LOCKS, layout::MOST_LOCKS, layout::ARGUMENTS];
        let translator = [control::HEAP, control::HELD, control::LOCKS, control::MOST_LOCKS, control::ARGUMENTS];
        assert_eq!(extension, translator.map(|n| n as usize));
    }

    // Places on record fit between the owner and the bit that is always set.
    const _: () = assert!(layout::MOST_LOCKS <= 1 << (layout::HELD_BIT - layout::OWNER_BITS));

    #[test]
    fn the_header_has_the_numbers() {
        assert!(header().contains("#define KARA_OWNER_BITS 0x14\n"));
    }
}
