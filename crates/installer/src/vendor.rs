//! The extension crate and its macros, as they were when this was built: what a new extension is
//! compiled with, so that a single binary is enough.

use crate::error::InstallError;
use std::path::{Path, PathBuf};

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../../", $path)))),*] };
}

const FILES: &[(&str, &str)] = files![
    "extension/Cargo.toml",
    "extension/src/lib.rs",
    "extension/src/buffer.rs",
    "extension/src/header.rs",
    "extension/src/heap.rs",
    "extension/src/hook.rs",
    "extension/src/host.rs",
    "extension/src/host/module.rs",
    "extension/src/layout.rs",
    "extension/src/map.rs",
    "extension/src/map/native.rs",
    "extension/src/packet.rs",
    "extension/src/plain.rs",
    "extension/src/running.rs",
    "extension/src/sample.rs",
    "extension/src/shared.rs",
    "extension/src/socket.rs",
    "extension/src/testing.rs",
    "extension/src/tracepoint.rs",
    "extension-macros/Cargo.toml",
    "extension-macros/src/lib.rs",
];

/// Writes them below a folder, unless they are there already; returns the folder of the extension crate.
pub fn write(folder: &Path) -> Result<PathBuf, InstallError> {
    for (name, content) in FILES {
        let path = folder.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|there| there == *content) {
            continue;
        }
        let parent = path.parent().expect("it has a folder");
        std::fs::create_dir_all(parent).map_err(|e| InstallError::file("create", parent, &e))?;
        std::fs::write(&path, content).map_err(|e| InstallError::file("write", &path, &e))?;
    }
    Ok(folder.join("extension"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_source_is_missing() {
        for name in ["extension", "extension-macros"] {
            let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
            all_embedded(&sources, &format!("{name}/src"));
        }
    }

    fn all_embedded(folder: &Path, shown: &str) {
        for entry in std::fs::read_dir(folder).expect("sources").flatten() {
            let path = format!("{shown}/{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => all_embedded(&entry.path(), &path),
                false => assert!(FILES.iter().any(|(n, _)| *n == path), "{path} is not embedded"),
            }
        }
    }
}
