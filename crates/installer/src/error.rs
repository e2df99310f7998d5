//! What goes wrong.

use karakoram_kernel::error::KernelError;
use karakoram_lab::error::LabError;
use karakoram_translator::TranslateError;
use std::fmt;
use std::io;
use std::path::Path;

/// Why an extension was not built or not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InstallError {
    /// The source is wrong: what the compiler said.
    Source(String),
    /// It cannot be translated.
    Translate(TranslateError),
    /// The object is no extension.
    Object(String),
    /// This machine lacks something; the second part says what would help.
    Machine(String, String),
    /// The kernel's verifier refuses a program, in every form that the object has.
    Refused(Refusal),
}

/// A program that the kernel's verifier refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The program.
    pub program: String,
    /// The kernel's reason.
    pub why: String,
    /// What that means for whoever wrote the program, and what to do.
    pub help: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the kernel refuses {}: {}", self.program, self.why)
    }
}

impl InstallError {
    /// A file or folder could not be used.
    pub fn file(doing: &str, path: &Path, error: &io::Error) -> InstallError {
        let what = format!("could not {doing} {}: {error}", path.display());
        InstallError::Machine(what, "is there room, and may this user write there?".into())
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            InstallError::Source(what) | InstallError::Object(what) | InstallError::Machine(what, _) => {
                f.write_str(what)
            }
            InstallError::Translate(e) => e.fmt(f),
            InstallError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for InstallError {}

impl From<TranslateError> for InstallError {
    fn from(e: TranslateError) -> InstallError {
        InstallError::Translate(e)
    }
}

impl From<KernelError> for InstallError {
    fn from(e: KernelError) -> InstallError {
        InstallError::Machine(e.to_string(), "`kara doctor` says what this kernel permits".into())
    }
}

impl From<LabError> for InstallError {
    fn from(e: LabError) -> InstallError {
        match e {
            LabError::Machine(what, help) => InstallError::Machine(what, help),
            other => InstallError::Object(other.to_string()),
        }
    }
}
