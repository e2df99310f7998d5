//! Type information in the kernel.

use crate::errno::Errno;
use crate::error::KernelError;
use crate::{log, sys};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most bytes of explanation that are fetched.
const LOG_BYTES: usize = 1 << 20;

/// Type information that the kernel has accepted.
#[derive(Debug)]
pub struct Btf(OwnedFd);

/// Why the kernel did not take type information.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BtfError {
    /// It found it wrong.
    Rejected {
        /// Error number.
        errno: Errno,
        /// The kernel's words; the last lines name the type.
        log: String,
    },
    /// It was not looked at.
    Kernel(KernelError),
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            BtfError::Rejected { errno, log } => {
                let last = log.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no reason given");
                write!(f, "the kernel rejected the type information ({errno}): {last}")
            }
            BtfError::Kernel(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for BtfError {}

impl Btf {
    /// Loads a `.BTF` section as it is in the object, in the byte order of this machine.
    pub fn load(blob: &[u8]) -> Result<Btf, BtfError> {
        let errno = match sys::btf_load(blob, &mut []) {
            Ok(fd) => return Ok(Btf(fd)),
            Err(errno) => errno,
        };
        let mut buffer = vec![0; LOG_BYTES];
        match sys::btf_load(blob, &mut buffer) {
            Ok(fd) => Ok(Btf(fd)),
            Err(_) if buffer[0] != 0 => Err(BtfError::Rejected { errno, log: log::text(&buffer) }),
            Err(_) => Err(BtfError::Kernel(KernelError::new("load type information", errno))),
        }
    }

    /// The least that a map needs whose kind wants types: a four-byte key and `value_size` bytes.
    /// Key type 1, value type 3 (kernel `bpf_local_storage_map_check_btf`).
    pub(crate) fn for_plain_value(value_size: u32) -> Result<Btf, BtfError> {
        Btf::load(&plain_value_blob(value_size))
    }
}

impl AsFd for Btf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `int` (1), `char` (2) and `char[value_size]` (3), by the format in kernel
/// `Documentation/bpf/btf.rst`.
fn plain_value_blob(value_size: u32) -> Vec<u8> {
    const STRINGS: &[u8] = b"\0int\0char\0";
    const INT: u32 = 1 << 24;
    const ARRAY: u32 = 3 << 24;
    let int = [1, INT, 4, 1 << 24 | 32];
    let char = [5, INT, 1, 1 << 24 | 8];
    let array = [0, ARRAY, 0, 2, 1, value_size];
    let types: Vec<u8> = int.into_iter().chain(char).chain(array).flat_map(u32::to_ne_bytes).collect();
    let mut blob = 0xeb9f_u16.to_ne_bytes().to_vec();
    blob.extend([1, 0]);
    for n in [24, 0, types.len() as u32, types.len() as u32, STRINGS.len() as u32] {
        blob.extend(n.to_ne_bytes());
    }
    blob.extend(types);
    blob.extend(STRINGS);
    blob
}
