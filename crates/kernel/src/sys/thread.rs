//! Where and how urgently threads run, and getting one out of a long system call.

use super::Result;
use crate::errno::Errno;
use std::mem::{size_of, zeroed};
use std::sync::OnceLock;

/// A thread of any process, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadId(pub i32);

impl ThreadId {
    /// This thread.
    pub fn current() -> ThreadId {
        // SAFETY: takes nothing, always succeeds.
        ThreadId(unsafe { libc::gettid() })
    }
}

/// Lets a thread run on these CPUs only. Numbers past what the kernel's set holds give `ERANGE`.
pub fn set_affinity(thread: ThreadId, cpus: &[usize]) -> Result<()> {
    if cpus.iter().any(|c| *c >= libc::CPU_SETSIZE as usize) {
        return Err(Errno::ERANGE);
    }
    // SAFETY: `cpu_set_t` is a plain bit set, all zeros is the empty one; the call gets its size.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        cpus.iter().for_each(|c| libc::CPU_SET(*c, &mut set));
        check(libc::sched_setaffinity(thread.0, size_of::<libc::cpu_set_t>(), &set))
    }
}

/// The CPUs that a thread may run on.
pub fn affinity(thread: ThreadId) -> Result<Vec<usize>> {
    // SAFETY: the kernel fills a set of the size it is told.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        check(libc::sched_getaffinity(thread.0, size_of::<libc::cpu_set_t>(), &mut set))?;
        Ok((0..libc::CPU_SETSIZE as usize).filter(|c| libc::CPU_ISSET(*c, &set)).collect())
    }
}

/// Real-time scheduling, first in first out, with a priority of 1 to 99; 0 makes it an ordinary thread.
/// Threads and processes that it starts are ordinary ones.
pub fn set_fifo(thread: ThreadId, priority: i32) -> Result<()> {
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK };
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure is live for the call.
    check(unsafe { libc::sched_setscheduler(thread.0, policy, &parameters) })
}

/// Gets a thread of this process out of the system call it is in (`EINTR`). When it is in none nothing
/// happens, so ask again until it has noticed.
pub fn interrupt(thread: ThreadId) -> Result<()> {
    static HANDLER: OnceLock<bool> = OnceLock::new();
    if !*HANDLER.get_or_init(install_handler) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: takes numbers; the signal has a handler that does nothing.
    let done = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.0, signal()) };
    if done == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// A signal that nobody else uses.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 11
}

extern "C" fn nothing(_: libc::c_int) {}

fn install_handler() -> bool {
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: all zeros is an action without flags (so system calls are not restarted) and with an
    // empty mask; the handler touches nothing and so may run at any time.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signal(), &action, std::ptr::null_mut()) == 0
    }
}

fn check(done: libc::c_int) -> Result<()> {
    if done == 0 { Ok(()) } else { Err(Errno::last()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_sleeping_thread_is_interrupted() {
        let (send, receive) = channel();
        let sleeper = std::thread::spawn(move || {
            send.send(ThreadId::current()).unwrap();
            let long = libc::timespec { tv_sec: 60, tv_nsec: 0 };
            // SAFETY: the time is live for the call, the place for the rest is null.
            unsafe { libc::nanosleep(&long, std::ptr::null_mut()) }
        });
        let thread = receive.recv().unwrap();
        while !sleeper.is_finished() {
            interrupt(thread).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(sleeper.join().unwrap(), -1);
    }

    #[test]
    fn affinity_reads_back() {
        std::thread::spawn(|| {
            let first = affinity(ThreadId::current()).unwrap()[0];
            set_affinity(ThreadId::current(), &[first]).unwrap();
            assert_eq!(affinity(ThreadId::current()).unwrap(), [first]);
            assert_eq!(set_affinity(ThreadId::current(), &[100_000]), Err(Errno::ERANGE));
        })
        .join()
        .unwrap();
    }
}
