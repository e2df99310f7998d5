//! Why a program cannot be made loadable.

use crate::btf::BtfError;
use std::fmt;

/// Why there is no load image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkError {
    /// The object has no program of that name.
    NoProgram(String),
    /// The kernel lacks something that the program cannot do without.
    Missing(String),
    /// The object asks for something that makes no sense, or that is not handled.
    Invalid(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            LinkError::NoProgram(name) => write!(f, "the object has no program {name}"),
            LinkError::Missing(what) => write!(f, "the kernel has no {what}"),
            LinkError::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for LinkError {}

impl From<BtfError> for LinkError {
    fn from(error: BtfError) -> LinkError {
        LinkError::Invalid(error.to_string())
    }
}

pub(crate) fn invalid<T>(what: impl Into<String>) -> Result<T, LinkError> {
    Err(LinkError::Invalid(what.into()))
}

pub(crate) fn missing<T>(what: impl Into<String>) -> Result<T, LinkError> {
    Err(LinkError::Missing(what.into()))
}
