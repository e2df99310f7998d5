//! Extensions in the background: each has a process that holds its attachment, and a folder in which
//! that process says how things are and looks whether it shall end.

use crate::failure::Failure;
use karakoram_installer::MapContents;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What the process says of its extension, every second.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// Name.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// Program.
    pub program: String,
    /// Where it is attached: interface, control group, tracepoint.
    pub interface: String,
    /// Panics so far.
    pub panics: u64,
    /// Runs that were let pass because the program was already running on that CPU.
    pub nested: u64,
    /// Runs that did not give back all locks.
    pub leaked: u64,
    /// Milliseconds that loading took.
    #[serde(default)]
    pub load_ms: u64,
    /// The form that was loaded and why, when it was not the first one.
    #[serde(default)]
    pub fallback: Option<String>,
    /// Counters by name.
    pub counters: Vec<(String, u64)>,
    /// Maps of the kernel.
    #[serde(default)]
    pub maps: Vec<MapContents>,
}

/// Where the folders are.
fn root() -> PathBuf {
    PathBuf::from(std::env::var_os("KARA_RUN").unwrap_or("/run/kara/ext".into()))
}

/// The folder of an extension.
pub fn folder(name: &str) -> PathBuf {
    root().join(name)
}

/// The file that asks the process to end.
pub fn stop_file(name: &str) -> PathBuf {
    folder(name).join("stop")
}

/// Where the process writes its panics.
pub fn log_file(name: &str) -> PathBuf {
    folder(name).join("log")
}

/// Says how things are; complete or not at all.
pub fn publish(snapshot: &Snapshot) -> std::io::Result<()> {
    let folder = folder(&snapshot.name);
    std::fs::create_dir_all(&folder)?;
    let aside = folder.join("status.new");
    std::fs::write(&aside, serde_json::to_string(snapshot).expect("plain data"))?;
    std::fs::rename(aside, folder.join("status"))
}

/// What is running. Leftovers of processes that are gone are removed.
pub fn all() -> Vec<Snapshot> {
    let Ok(entries) = std::fs::read_dir(root()) else { return Vec::new() };
    let mut found: Vec<Snapshot> = entries.flatten().filter_map(|e| read(&e.file_name().to_string_lossy())).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// One that is running.
pub fn read(name: &str) -> Option<Snapshot> {
    let text = std::fs::read_to_string(folder(name).join("status")).ok()?;
    let snapshot: Snapshot = serde_json::from_str(&text).ok()?;
    if std::fs::exists(format!("/proc/{}/exe", snapshot.pid)).unwrap_or(false) {
        return Some(snapshot);
    }
    let _ = std::fs::remove_dir_all(folder(name));
    None
}

/// The one of that name, which must be running.
pub fn named(name: &str) -> Result<Snapshot, Failure> {
    read(name).ok_or_else(|| {
        let there: Vec<String> = all().into_iter().map(|s| s.name).collect();
        let failure = Failure::usage(format!("no extension {name} is loaded in the background"));
        match there.is_empty() {
            true => failure.help("kara ext load OBJECT --interface NAME --background loads one"),
            false => failure.help(format!("loaded are: {}", there.join(", "))),
        }
    })
}
