//! The initial file system of a guest, in the kernel's format (`newc`, kernel
//! `Documentation/driver-api/early-userspace/buffer-format.rst`).

use crate::error::LabError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: u32 = 0o040755;
const FILE: u32 = 0o100000;
const DEVICE: u32 = 0o020600;

/// A file system under construction.
#[derive(Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    entries: u32,
    /// Paths that are there already.
    paths: BTreeSet<String>,
}

impl Initramfs {
    /// One with nothing but a console.
    pub fn new() -> Initramfs {
        let mut files = Initramfs::default();
        files.folders_above("dev/console");
        files.entry("dev/console", DEVICE, &[], (5, 1));
        files
    }

    /// Adds a file, unless there is one of that path. The path has no slash in front.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        if self.paths.insert(path.to_string()) {
            self.folders_above(path);
            self.entry(path, FILE | mode, content, (0, 0));
        }
    }

    /// Adds a file or a folder with all that is in it; links are followed.
    pub fn tree(&mut self, path: &str, from: &Path) -> Result<(), LabError> {
        if !from.is_dir() {
            let content = std::fs::read(from).map_err(|e| LabError::file("read", from, &e))?;
            self.file(path, 0o644, &content);
            return Ok(());
        }
        let mut inside: Vec<PathBuf> = std::fs::read_dir(from)
            .map_err(|e| LabError::file("read", from, &e))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        inside.sort();
        for entry in inside {
            let name = entry.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            self.tree(&format!("{path}/{name}"), &entry)?;
        }
        Ok(())
    }

    /// Adds a program as `/bin/NAME`, and the shared libraries that it needs.
    pub fn program(&mut self, name: &str, from: &Path) -> Result<(), LabError> {
        let content = std::fs::read(from).map_err(|e| LabError::file("read", from, &e))?;
        self.file(&format!("bin/{name}"), 0o755, &content);
        for library in libraries(from)? {
            let content = std::fs::read(&library).map_err(|e| LabError::file("read", &library, &e))?;
            self.file(library.to_string_lossy().trim_start_matches('/'), 0o755, &content);
        }
        Ok(())
    }

    /// The finished file system.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }

    fn folders_above(&mut self, path: &str) {
        let ends: Vec<usize> = path.match_indices('/').map(|(i, _)| i).collect();
        for folder in ends.into_iter().map(|end| &path[..end]) {
            if self.paths.insert(folder.to_string()) {
                self.entry(folder, FOLDER, &[], (0, 0));
            }
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8], device: (u32, u32)) {
        self.entries += 1;
        let length = content.len() as u32;
        let name_length = path.len() as u32 + 1;
        let fields = [self.entries, mode, 0, 0, 1, 0, length, 0, 0, device.0, device.1, name_length, 0]
            .map(|n| format!("{n:08x}"));
        self.bytes.extend(b"070701");
        fields.iter().for_each(|f| self.bytes.extend(f.as_bytes()));
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Shared libraries of a program, the loader among them; none when it is static.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, LabError> {
    let output = Command::new("ldd").arg(program).output().map_err(|e| LabError::tool("ldd", &e))?;
    Ok(paths_of_ldd(&String::from_utf8_lossy(&output.stdout)))
}

fn paths_of_ldd(text: &str) -> Vec<PathBuf> {
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut files = Initramfs::new();
        files.file("a/b/c", 0o644, b"content");
        let bytes = files.finish();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what}"));
        assert!(at("a\0") < at("a/b\0") && at("a/b\0") < at("a/b/c\0"));
        assert_eq!(bytes.len() % 4, 0);
        assert!(at("content") < at("TRAILER!!!"));
    }

    #[test]
    fn libraries_of_a_program() {
        let text = "\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\t/lib64/ld-linux.so.2 (0x7f)\n";
        assert_eq!(paths_of_ldd(text), [PathBuf::from("/lib/libc.so.6"), PathBuf::from("/lib64/ld-linux.so.2")]);
        assert!(paths_of_ldd("\tnot a dynamic executable\n").is_empty());
    }
}
