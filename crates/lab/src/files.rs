//! Files that are complete or absent.

use crate::error::LabError;
use std::io::Write;
use std::path::Path;

/// Writes aside, then gives the file its name.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let failed = |e: &std::io::Error| LabError::file("write", path, e);
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut aside = tempfile::Builder::new()
        .prefix(".kara-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .map_err(|e| failed(&e))?;
    aside.write_all(bytes).map_err(|e| failed(&e))?;
    aside.persist(path).map_err(|e| failed(&e.error))?;
    Ok(())
}
