//! Network namespaces without names.

use crate::error::LabError;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

/// A network namespace; it and everything in it is gone when this, its copies and the sockets made in it are.
#[derive(Clone, Debug)]
pub struct Namespace {
    fd: Arc<File>,
}

impl Namespace {
    /// A new, empty one.
    pub fn new() -> Result<Namespace, LabError> {
        on_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|e| no_namespaces(&e.to_string()))?;
            let path = Path::new("/proc/thread-self/ns/net");
            let fd = File::open(path).map_err(|e| LabError::file("open", path, &e))?;
            Ok(Namespace { fd: Arc::new(fd) })
        })?
    }

    /// Runs something in a thread that is in it. Sockets made there stay in it wherever they are used.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        on_a_thread(|| self.enter().map(|()| work()))?
    }

    /// Puts this thread into it, for good.
    pub fn enter(&self) -> Result<(), LabError> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET).map_err(|e| no_namespaces(&e.to_string()))
    }

    /// As [`Namespace::run`], with a view of `/sys` that shows the namespace's devices.
    pub fn run_with_sysfs<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        on_a_thread(|| {
            self.enter()?;
            mount_sysfs()
                .map_err(|e| LabError::Machine(format!("could not mount sysfs: {e}"), "run as root".into()))?;
            Ok(work())
        })?
    }

    /// The descriptor, for system calls.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// In mounts of this thread's own, which go when it ends.
fn mount_sysfs() -> nix::Result<()> {
    const NOTHING: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), NOTHING)
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    std::thread::scope(|scope| scope.spawn(work).join()).map_err(|panic| std::panic::resume_unwind(panic))
}

fn no_namespaces(why: &str) -> LabError {
    LabError::Machine(
        format!("could not make or enter a network namespace: {why}"),
        "run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN); `kara doctor` says what this machine permits".into(),
    )
}

/// Sets a value under `/proc/sys` for the namespace of this thread; `net` settings only.
pub(super) fn set(name: &str, value: &str) -> Result<(), LabError> {
    debug_assert!(name.starts_with("net/"), "settings outside net are not the namespace's own");
    let path = Path::new("/proc/sys").join(name);
    match fs::write(&path, value) {
        Ok(()) => Ok(()),
        // A kernel without IPv6, say, has nothing to switch off.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(LabError::file("write", &path, &e)),
    }
}
