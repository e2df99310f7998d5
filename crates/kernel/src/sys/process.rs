//! Child processes that cannot outlive us, and descriptors of other processes.

use super::Result;
use crate::errno::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a command in a network namespace, on these CPUs. The kernel kills it when the calling
/// *thread* ends, so that even `kill -9` of this process leaves none behind.
pub fn spawn_bound(command: &mut Command, namespace: BorrowedFd, cpus: &[usize]) -> io::Result<Child> {
    let fd = namespace.as_raw_fd();
    let parent = std::process::id();
    let cpus = cpus.to_vec();
    let prepare = move || {
        // SAFETY: between fork and exec; these calls take numbers, allocate nothing and take no locks.
        let bound = unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
                // The parent may have died before the line above.
                && libc::getppid() as u32 == parent
                && libc::setns(fd, libc::CLONE_NEWNET) == 0
        };
        if !bound {
            return Err(io::Error::last_os_error());
        }
        if !cpus.is_empty() {
            super::thread::set_affinity(super::thread::ThreadId(0), &cpus)
                .map_err(|e| io::Error::from_raw_os_error(e.0))?;
        }
        Ok(())
    };
    // SAFETY: `prepare` is fit to run between fork and exec, see above; `fd` is open until then,
    // because it is borrowed for this call.
    unsafe { command.pre_exec(prepare).spawn() }
}

/// A copy of a descriptor that another process has open (`pidfd_getfd`, since Linux 5.6).
pub fn descriptor_of(process: u32, number: i32) -> Result<OwnedFd> {
    // SAFETY: the calls take numbers; the descriptors they return are new and ours alone.
    unsafe {
        let pidfd = owned(libc::syscall(libc::SYS_pidfd_open, process as libc::pid_t, 0))?;
        owned(libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), number, 0))
    }
}

/// # Safety
/// `fd` must be what a system call returned that makes a descriptor.
unsafe fn owned(fd: libc::c_long) -> Result<OwnedFd> {
    match libc::c_int::try_from(fd) {
        // SAFETY: the caller's promise: it is new.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Errno::last()),
    }
}
