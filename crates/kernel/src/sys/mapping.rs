//! Memory that is shared with the kernel: array maps and ring buffers.

use super::{MapFd, Result};
use crate::errno::Errno;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

/// Shared memory of a map, unmapped when dropped. No Rust reference into it is ever made, because
/// the kernel may write to it at any time: bytes are copied in and out, or compared in place.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
    writable: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and all access is by copying.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes of the map from byte `offset` on, a multiple of the page size. `EPERM`
    /// and `ENOTSUPP` when the map cannot be mapped.
    pub fn new(map: &MapFd, offset: usize, length: usize, writable: bool) -> Result<Mapping> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let fd = map.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address the kernel chooses touches no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::EFAULT)?;
        Ok(Mapping { start, length, writable })
    }

    /// Maps a whole arena where its programs take it to be, for reading and writing. `EEXIST` when this
    /// process has something else there.
    pub fn arena(map: &MapFd, address: u64, length: usize) -> Result<Mapping> {
        let wanted = address as *mut libc::c_void;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE;
        let fd = map.as_fd().as_raw_fd();
        // SAFETY: with this flag a mapping never replaces another one, so no memory of ours is touched.
        let start = unsafe { libc::mmap(wanted, length, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start = NonNull::new(start.cast()).ok_or(Errno::EFAULT)?;
        Ok(Mapping { start, length, writable: true })
    }

    /// Has the kernel put memory where there is none yet. `ERANGE` when the range is not all inside.
    pub fn populate(&self, offset: usize, length: usize) -> Result<()> {
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        let start = self.range(offset, length)?;
        // SAFETY: `range` checked that the pages are ours; populating changes no contents.
        let done = unsafe { libc::madvise(start.as_ptr().cast(), length, MADV_POPULATE_WRITE) };
        if done == 0 { Ok(()) } else { Err(Errno::last()) }
    }

    /// Bytes mapped.
    pub fn length(&self) -> usize {
        self.length
    }

    fn range(&self, offset: usize, length: usize) -> Result<NonNull<u8>> {
        match offset.checked_add(length) {
            // SAFETY: the sum stays inside the mapping.
            Some(end) if end <= self.length => Ok(unsafe { self.start.add(offset) }),
            _ => Err(Errno::ERANGE),
        }
    }

    /// Copies bytes out. `ERANGE` when they are not all inside.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let from = self.range(offset, to.len())?;
        // SAFETY: `range` checked the source; `to` is ours alone, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes in. `ERANGE` when they do not fit, `EACCES` when mapped for reading.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        if !self.writable {
            return Err(Errno::EACCES);
        }
        let to = self.range(offset, from.len())?;
        // SAFETY: `range` checked the target, which is mapped for writing; `from` lies elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    /// Whether the bytes at `offset` are these. False when they are not all inside.
    pub fn equals(&self, offset: usize, bytes: &[u8]) -> bool {
        let Ok(here) = self.range(offset, bytes.len()) else { return false };
        // SAFETY: both ranges are readable for that length.
        unsafe { libc::memcmp(here.as_ptr().cast(), bytes.as_ptr().cast(), bytes.len()) == 0 }
    }

    /// Whether the first `length` bytes are the same in both.
    pub fn equals_mapping(&self, other: &Mapping, length: usize) -> bool {
        let (Ok(a), Ok(b)) = (self.range(0, length), other.range(0, length)) else { return false };
        // SAFETY: both ranges are readable for that length.
        unsafe { libc::memcmp(a.as_ptr().cast(), b.as_ptr().cast(), length) == 0 }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and `length` are what mmap gave, and nothing refers to the memory any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
