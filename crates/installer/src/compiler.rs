//! The compiler as cargo is told to run it: what it makes does not depend on where the sources lie.
//!
//! Cargo names crates by where they are (`-C metadata`), names of functions carry that, and the compiler
//! arranges functions by their names. The same program then costs the verifier several times as much in one
//! folder as in another.

use crate::error::InstallError;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Names crates by package, version and features, and says where a source is from its package on. Sources of
/// a workspace are named by their place in it, which cargo does.
const SCRIPT: &str = r#"#!/bin/sh
# Written by kara: runs rustc such that its result does not depend on where sources lie.
rustc=$1
shift
features=
for argument do
    case $argument in
        feature=*) features=$features,${argument#feature=} ;;
    esac
done
for argument do
    shift
    case $argument in
        metadata=*) argument=metadata=$CARGO_PKG_NAME-$CARGO_PKG_VERSION$features ;;
    esac
    set -- "$@" "$argument"
done
if [ -n "$CARGO_MANIFEST_DIR" ]; then
    # Of several that fit, the last one counts.
    set -- "$@" "--remap-path-prefix=$PWD=" "--remap-path-prefix=$CARGO_MANIFEST_DIR=$CARGO_PKG_NAME-$CARGO_PKG_VERSION"
fi
exec "$rustc" "$@"
"#;

/// Writes it into a folder, for cargo's `RUSTC_WRAPPER`. Several builds may do so at the same time.
pub(crate) fn write(folder: &Path) -> Result<PathBuf, InstallError> {
    let path = folder.join("kara-rustc");
    if std::fs::read_to_string(&path).is_ok_and(|there| there == SCRIPT) {
        return Ok(path);
    }
    let failed = |e: std::io::Error| InstallError::file("write", &path, &e);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(SCRIPT.as_bytes()).map_err(failed)?;
    file.as_file().set_permissions(PermissionsExt::from_mode(0o755)).map_err(failed)?;
    file.into_temp_path().persist(&path).map_err(|e| failed(e.error))?;
    Ok(path)
}
