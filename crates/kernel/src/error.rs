//! What goes wrong between us and the kernel, in terms a user can act on.

use crate::errno::Errno;
use std::fmt;

/// Why a request to the kernel failed. `doing` completes the sentence "could not ...".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelError {
    /// This process may not do that: root, or CAP_BPF with CAP_NET_ADMIN or CAP_PERFMON, could.
    NotPermitted {
        /// What was tried.
        doing: String,
        /// What the kernel answered.
        errno: Errno,
    },
    /// This kernel cannot do that for anyone.
    NoKernelSupport {
        /// What was tried.
        doing: String,
        /// What the kernel answered.
        errno: Errno,
    },
    /// The request makes no sense; the kernel was not asked, or its answer leaves no other reading.
    Invalid {
        /// What was tried.
        doing: String,
        /// What is wrong with it.
        why: String,
    },
    /// Anything else.
    Other {
        /// What was tried.
        doing: String,
        /// What the kernel answered.
        errno: Errno,
    },
}

impl KernelError {
    /// Sorts an error number into its kind.
    pub fn new(doing: impl Into<String>, errno: Errno) -> KernelError {
        let doing = doing.into();
        match errno {
            Errno::EPERM | Errno::EACCES => KernelError::NotPermitted { doing, errno },
            Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::ENOTSUPP => KernelError::NoKernelSupport { doing, errno },
            _ => KernelError::Other { doing, errno },
        }
    }

    /// A request that is wrong in itself.
    pub fn invalid(doing: impl Into<String>, why: impl Into<String>) -> KernelError {
        KernelError::Invalid { doing: doing.into(), why: why.into() }
    }

    /// Whether more privilege would help.
    pub fn is_permission(&self) -> bool {
        matches!(self, KernelError::NotPermitted { .. })
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            KernelError::NotPermitted { doing, errno } => write!(
                f,
                "not permitted to {doing} ({errno}): run as root, or with CAP_BPF and CAP_NET_ADMIN (CAP_PERFMON for tracing)"
            ),
            KernelError::NoKernelSupport { doing, errno } => write!(f, "this kernel cannot {doing} ({errno})"),
            KernelError::Invalid { doing, why } => write!(f, "could not {doing}: {why}"),
            KernelError::Other { doing, errno } => write!(f, "could not {doing} ({errno})"),
        }
    }
}

impl std::error::Error for KernelError {}
