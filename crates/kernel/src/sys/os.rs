//! System calls besides bpf(2): CPUs, limits, and what the probe tries out.

use super::Result;
use crate::errno::Errno;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

/// Number of CPUs this kernel could ever have, which sizes per-CPU values. None when it does not say.
pub fn possible_cpus() -> Option<usize> {
    static CPUS: OnceLock<Option<usize>> = OnceLock::new();
    *CPUS.get_or_init(|| count_cpus(&std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?))
}

/// The count of a list such as `0-3,8` (kernel `num_possible_cpus`, which leaves out the holes).
fn count_cpus(list: &str) -> Option<usize> {
    list.trim().split(',').try_fold(0usize, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Bytes of a memory page.
pub fn page_size() -> usize {
    // SAFETY: sysconf takes a number and touches no memory.
    let n = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(n).unwrap_or(4096)
}

/// Processor time that this thread has used, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is plain numbers, live for the call. This clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Raises the soft limit of locked memory to the hard one, and the hard one where permitted. Kernels
/// before 5.11 charge BPF objects to it. Failure shows in the call that needed the memory.
pub fn raise_memory_lock_limit() {
    // SAFETY: the structures are plain numbers, live for the calls.
    unsafe {
        let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        if libc::setrlimit(libc::RLIMIT_MEMLOCK, &all) == 0 {
            return;
        }
        let mut now: libc::rlimit = zeroed();
        if libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut now) == 0 {
            now.rlim_cur = now.rlim_max;
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &now);
        }
    }
}

/// Soft limit of locked memory in bytes; None is unlimited.
pub fn memory_lock_limit() -> Option<u64> {
    // SAFETY: the structure is plain numbers, live for the call.
    let limit = unsafe {
        let mut limit: libc::rlimit = zeroed();
        (libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) == 0).then_some(limit.rlim_cur)
    };
    limit.filter(|n| *n != libc::RLIM_INFINITY)
}

/// Keeps this thread on the CPU it runs on, until dropped. Not to be sent to another thread.
pub struct Pinned {
    before: libc::cpu_set_t,
    /// The CPU.
    pub cpu: usize,
    not_send: std::marker::PhantomData<*const ()>,
}

/// Pins this thread to its current CPU.
pub fn pin_to_current_cpu() -> Result<Pinned> {
    // SAFETY: `cpu_set_t` is a plain bit set, all zeros is the empty one; both calls get its size.
    unsafe {
        let mut before: libc::cpu_set_t = zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut before) != 0 {
            return Err(Errno::last());
        }
        let cpu = usize::try_from(libc::sched_getcpu()).map_err(|_| Errno::last())?;
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(Errno::ERANGE);
        }
        let mut one: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu, &mut one);
        if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one) != 0 {
            return Err(Errno::last());
        }
        Ok(Pinned { before, cpu, not_send: std::marker::PhantomData })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the set is the one sched_getaffinity filled in.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.before) };
    }
}

/// Puts this thread, and no other, into a new empty network namespace, which vanishes with it.
pub fn enter_new_network_namespace() -> Result<()> {
    // SAFETY: unshare takes a number and touches no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// Sends one rtnetlink request that asks for an acknowledgement, and returns what that says.
pub fn netlink_request(message: &[u8]) -> Result<()> {
    let socket = route_socket()?;
    let fd = socket.as_raw_fd();
    let mut reply = [0u8; 4096];
    // SAFETY: both buffers are borrowed for their call, with their lengths.
    let n = unsafe {
        if libc::send(fd, message.as_ptr().cast(), message.len(), 0) < 0 {
            return Err(Errno::last());
        }
        libc::recv(fd, reply.as_mut_ptr().cast(), reply.len(), 0)
    };
    if n < 0 {
        return Err(Errno::last());
    }
    // `struct nlmsghdr` (16 bytes, type at 4), then the error number of `struct nlmsgerr`.
    let kind = u16::from_ne_bytes([reply[4], reply[5]]);
    if n < 20 || i32::from(kind) != libc::NLMSG_ERROR {
        return Err(Errno::EINVAL);
    }
    match i32::from_ne_bytes([reply[16], reply[17], reply[18], reply[19]]) {
        0 => Ok(()),
        e => Err(Errno(e.saturating_neg())),
    }
}

fn route_socket() -> Result<OwnedFd> {
    // SAFETY: socket takes numbers; the descriptor it returns is new and becomes ours alone.
    unsafe {
        match libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) {
            fd if fd < 0 => Err(Errno::last()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_a_list() {
        assert_eq!(count_cpus("0-3,8\n"), Some(5));
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("none"), None);
    }
}
