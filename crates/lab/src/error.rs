//! What goes wrong in the lab.

use std::fmt;
use std::io;
use std::path::Path;

/// Why a measurement did not take place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LabError {
    /// This machine lacks something; the second part says what would help.
    Machine(String, String),
    /// The request makes no sense.
    Request(String),
    /// Someone asked to stop.
    Interrupted,
}

impl LabError {
    /// A file or folder could not be used.
    pub fn file(doing: &str, path: &Path, error: &io::Error) -> LabError {
        let what = format!("could not {doing} {}: {error}", path.display());
        LabError::Machine(what, "is there room, and may this user write there?".into())
    }

    /// A program that is needed could not be run.
    pub fn tool(name: &str, error: &io::Error) -> LabError {
        LabError::Machine(
            format!("could not run {name}: {error}"),
            format!("install it: apt-get install {}", package(name)),
        )
    }
}

/// The Debian package that a program is in.
fn package(tool: &str) -> &str {
    match tool {
        "qemu-system-x86_64" => "qemu-system-x86",
        "busybox" => "busybox-static",
        "apt-get" | "apt-cache" => "apt",
        "dpkg-deb" => "dpkg",
        "ldd" => "libc-bin",
        other => other,
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LabError::Machine(what, _) | LabError::Request(what) => f.write_str(what),
            LabError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for LabError {}
