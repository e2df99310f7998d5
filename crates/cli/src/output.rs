//! Writing results: to a file that is complete or absent, or to stdout.

use crate::failure::Failure;
use crate::interrupt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// What is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Artefact {
    /// Text, which may go to a terminal.
    Text(String),
    /// Bytes, which may not.
    Binary(Vec<u8>),
}

impl Artefact {
    fn bytes(&self) -> &[u8] {
        match self {
            Artefact::Text(text) => text.as_bytes(),
            Artefact::Binary(bytes) => bytes,
        }
    }
}

/// Refuses early what [`write`] would refuse after all the work.
pub fn check(path: &str, is_binary: bool) -> Result<(), Failure> {
    if path == "-" {
        if is_binary && std::io::stdout().is_terminal() {
            return Err(Failure::usage("stdout is a terminal, and the output is not text")
                .help("redirect it, name a file with -o, or ask for assembly with -t"));
        }
        return Ok(());
    }
    let target = Path::new(path);
    if target.is_dir() {
        return Err(Failure::usage("the output is a folder").of_file(path));
    }
    let folder = folder_of(target);
    if !folder.is_dir() {
        let help = format!("make it first: mkdir -p {}", folder.display());
        return Err(Failure::usage("the folder of the output does not exist").of_file(path).help(help));
    }
    Ok(())
}

/// Writes to stdout (`-`), or aside and then under its name.
pub fn write(path: &str, artefact: &Artefact) -> Result<(), Failure> {
    check(path, matches!(artefact, Artefact::Binary(_)))?;
    if path == "-" {
        let mut stdout = std::io::stdout().lock();
        let result = stdout.write_all(artefact.bytes()).and_then(|()| stdout.flush());
        return result.map_err(|e| Failure::file("stdout", "write", &e));
    }
    let target = Path::new(path);
    let result = match std::fs::metadata(target) {
        // Devices and pipes are written to, not replaced.
        Ok(there) if !there.is_file() => std::fs::write(target, artefact.bytes()),
        _ => replace(target, artefact.bytes()),
    };
    result.map_err(|e| Failure::file(path, "write", &e))
}

fn replace(target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let aside = aside_of(target);
    interrupt::guard(&aside);
    let result = std::fs::write(&aside, bytes).and_then(|()| std::fs::rename(&aside, target));
    if result.is_err() {
        let _ = std::fs::remove_file(&aside);
    }
    interrupt::release(&aside);
    result
}

fn folder_of(target: &Path) -> PathBuf {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

fn aside_of(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    folder_of(target).join(format!(".{name}.{}.tmp", std::process::id()))
}

/// One JSON object and a line end to stdout. A reader that has gone is no error of ours.
pub fn print_json(value: &impl serde::Serialize) {
    let text = serde_json::to_string(value).unwrap_or_else(|e| format!("{{\"ok\":false,\"error\":\"{e}\"}}"));
    print_text(&format!("{text}\n"));
}

/// Text to stdout.
pub fn print_text(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
