//! Error numbers of system calls, with names.

use std::fmt;

/// A positive error number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

#[allow(missing_docs)]
impl Errno {
    pub const EPERM: Errno = Errno(libc::EPERM);
    pub const ENOENT: Errno = Errno(libc::ENOENT);
    pub const EINTR: Errno = Errno(libc::EINTR);
    pub const E2BIG: Errno = Errno(libc::E2BIG);
    pub const EBADF: Errno = Errno(libc::EBADF);
    pub const EAGAIN: Errno = Errno(libc::EAGAIN);
    pub const ENOMEM: Errno = Errno(libc::ENOMEM);
    pub const EACCES: Errno = Errno(libc::EACCES);
    pub const EFAULT: Errno = Errno(libc::EFAULT);
    pub const EBUSY: Errno = Errno(libc::EBUSY);
    pub const ENODEV: Errno = Errno(libc::ENODEV);
    pub const EEXIST: Errno = Errno(libc::EEXIST);
    pub const ENOEXEC: Errno = Errno(libc::ENOEXEC);
    pub const EINVAL: Errno = Errno(libc::EINVAL);
    pub const ENOSPC: Errno = Errno(libc::ENOSPC);
    pub const ERANGE: Errno = Errno(libc::ERANGE);
    pub const ENOSYS: Errno = Errno(libc::ENOSYS);
    pub const EOPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);
    /// In the kernel's own headers only; bpf(2) lets it out all the same.
    pub const ENOTSUPP: Errno = Errno(524);
}

const NAMES: &[(i32, &str)] = &[
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::ESRCH, "ESRCH"),
    (libc::EINTR, "EINTR"),
    (libc::EIO, "EIO"),
    (libc::E2BIG, "E2BIG"),
    (libc::EBADF, "EBADF"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EFAULT, "EFAULT"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::ENOEXEC, "ENOEXEC"),
    (libc::ENODEV, "ENODEV"),
    (libc::EINVAL, "EINVAL"),
    (libc::EMFILE, "EMFILE"),
    (libc::EFBIG, "EFBIG"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::ERANGE, "ERANGE"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENODATA, "ENODATA"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (524, "ENOTSUPP"),
];

impl Errno {
    /// The error number that the last failing system call of this thread left.
    pub(crate) fn last() -> Errno {
        Errno::of(&std::io::Error::last_os_error())
    }

    /// The error number inside an error of the standard library; `EIO` when there is none.
    pub fn of(error: &std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }

    /// `EPERM` and the like, when known.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(n, _)| *n == self.0).map(|(_, name)| *name)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}
