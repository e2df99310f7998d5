//! What modules for a guest's kernel are built with, out of Debian's packages. They are unpacked in the
//! cache and not installed.

use super::kernels::{Apt, Kernels};
use crate::error::LabError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the name of the release is said to be in a boot image (kernel `Documentation/arch/x86/boot.rst`,
/// `kernel_version`), counted from [`AFTER_BOOT_SECTOR`].
const RELEASE_AT: usize = 0x20e;
const AFTER_BOOT_SECTOR: usize = 0x200;

/// What modules for one build of a kernel are built with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Folder for `make -C`.
    pub folder: PathBuf,
}

impl Headers {
    /// Those of the running kernel, where its distribution installs them.
    pub fn of_running() -> Result<Headers, LabError> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let folder = PathBuf::from(format!("/lib/modules/{}/build", release.trim()));
        match folder.join("Module.symvers").is_file() {
            true => Ok(Headers { folder }),
            false => Err(LabError::Machine(
                format!("there is nothing to build modules for the running kernel with: no {}", folder.display()),
                "install linux-headers of this kernel, or name one of Debian's with --kernel".into(),
            )),
        }
    }
}

impl Kernels {
    /// What modules for the kernel of a version are built with, fetched when it is not here yet.
    pub fn headers(&self, version: &str) -> Result<Headers, LabError> {
        let kernel = self.get(version, &[])?;
        let folder = self.folder.join(format!("linux-{version}"));
        let place = folder.join("headers");
        if place.is_dir() {
            return found(&place, &release(&kernel.image)?);
        }
        let work = tempfile::Builder::new()
            .prefix(".fetch-")
            .tempdir_in(&self.folder)
            .map_err(|e| LabError::file("make a folder in", &self.folder, &e))?;
        let apt = Apt::new(work.path())?;
        let mut name = release(&kernel.image)?;
        if apt.dependencies(&package(&name)).is_none() {
            // Debian has a newer one by now, and no longer what this one's modules are built with.
            self.fetch(version, &[], &folder)?;
            name = release(&kernel.image)?;
        }
        let fresh = work.path().join("headers");
        unpack(&apt, &name, &fresh)?;
        point_to_common(&found(&fresh, &name)?, &place)?;
        // Another process may have been faster.
        match std::fs::rename(&fresh, &place) {
            Err(e) if !place.is_dir() => Err(LabError::file("write", &place, &e)),
            _ => found(&place, &name),
        }
    }
}

fn package(release: &str) -> String {
    format!("linux-headers-{release}")
}

/// The name of a boot image's release, such as `6.12.95+deb12-amd64`.
fn release(image: &Path) -> Result<String, LabError> {
    let bytes = std::fs::read(image).map_err(|e| LabError::file("read", image, &e))?;
    release_in(&bytes).ok_or_else(|| {
        LabError::Machine(format!("{} does not say which kernel it is", image.display()), "remove it".into())
    })
}

fn release_in(bytes: &[u8]) -> Option<String> {
    let at = bytes.get(RELEASE_AT..RELEASE_AT + 2)?;
    let text = bytes.get(AFTER_BOOT_SECTOR + u16::from_le_bytes([at[0], at[1]]) as usize..)?;
    let end = text.iter().position(|b| *b == b' ')?;
    String::from_utf8(text[..end].to_vec()).ok().filter(|name| !name.is_empty())
}

/// Unpacks the headers of a release and what they need of their own.
fn unpack(apt: &Apt, release: &str, to: &Path) -> Result<(), LabError> {
    let headers = package(release);
    let needed = apt.dependencies(&headers).unwrap_or_default();
    let is_ours = |name: &String| name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-");
    for name in needed.into_iter().filter(is_ours).chain([headers]) {
        let file = apt.download_package(&name)?;
        let done = Command::new("dpkg-deb").arg("-x").arg(&file).arg(to).output();
        let done = done.map_err(|e| LabError::tool("dpkg-deb", &e))?;
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr).trim().to_string();
            return Err(LabError::Machine(format!("{name} could not be unpacked: {why}"), "is there room?".into()));
        }
    }
    Ok(())
}

fn found(place: &Path, release: &str) -> Result<Headers, LabError> {
    let folder = place.join("usr/src").join(package(release));
    match folder.join("Module.symvers").is_file() {
        true => Ok(Headers { folder }),
        false => Err(LabError::Machine(
            format!("{} is not complete", place.display()),
            "remove it; it is then fetched again".into(),
        )),
    }
}

/// The packages expect to be installed: the Makefile names the other one by its whole path, which is
/// then below `place`.
fn point_to_common(headers: &Headers, place: &Path) -> Result<(), LabError> {
    let path = headers.folder.join("Makefile");
    let text = std::fs::read_to_string(&path).map_err(|e| LabError::file("read", &path, &e))?;
    let place = std::path::absolute(place).map_err(|e| LabError::file("find", place, &e))?;
    let text = text.replace("/usr/src/", &format!("{}/usr/src/", place.display()));
    std::fs::write(&path, text).map_err(|e| LabError::file("write", &path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_an_image() {
        let mut image = vec![0; 0x400];
        image[RELEASE_AT..RELEASE_AT + 2].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x300..0x314].copy_from_slice(b"6.12.95+deb12-amd64 ");
        assert_eq!(release_in(&image).as_deref(), Some("6.12.95+deb12-amd64"));
        assert_eq!(release_in(&[0; 0x210]), None);
    }
}
