//! Why a module was not translated.

use std::fmt;

/// Why a module was not translated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TranslateError {
    /// It is not valid WebAssembly.
    Invalid(String),
    /// It uses something that BPF does not have; which, and in which function.
    Unsupported(String),
    /// A tool of LLVM is missing or failed.
    Tool(String),
}

impl fmt::Display for TranslateError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            TranslateError::Invalid(what) => write!(f, "not valid WebAssembly: {what}"),
            TranslateError::Unsupported(what) => write!(f, "not possible in BPF: {what}"),
            TranslateError::Tool(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for TranslateError {}

impl From<wasmparser::BinaryReaderError> for TranslateError {
    fn from(e: wasmparser::BinaryReaderError) -> TranslateError {
        TranslateError::Invalid(e.to_string())
    }
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, TranslateError> {
    Err(TranslateError::Unsupported(what.into()))
}
