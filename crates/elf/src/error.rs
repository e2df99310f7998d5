//! What can be wrong with an object.

use crate::btf::BtfError;
use std::fmt;

/// Why an object cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ElfError {
    /// A sound file, but of a kind that is not handled here.
    Unsupported(String),
    /// The file contradicts itself or its format.
    Malformed(String),
    /// The edited program has no form in this object.
    Unwritable(String),
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ElfError::Unsupported(what) => write!(f, "unsupported object: {what}"),
            ElfError::Malformed(what) => write!(f, "malformed object: {what}"),
            ElfError::Unwritable(what) => write!(f, "cannot write the program into the object: {what}"),
        }
    }
}

impl std::error::Error for ElfError {}

impl From<BtfError> for ElfError {
    fn from(error: BtfError) -> ElfError {
        ElfError::Malformed(error.to_string())
    }
}

pub(crate) fn malformed<T>(what: impl Into<String>) -> Result<T, ElfError> {
    Err(ElfError::Malformed(what.into()))
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, ElfError> {
    Err(ElfError::Unsupported(what.into()))
}

pub(crate) fn unwritable<T>(what: impl Into<String>) -> Result<T, ElfError> {
    Err(ElfError::Unwritable(what.into()))
}
