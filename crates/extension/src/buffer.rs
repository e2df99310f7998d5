//! Room for bytes that nobody has to clear first.

use core::ops::{Deref, DerefMut};

/// Bytes on the run's heap. They are what the memory happened to hold: what earlier runs left there, zeros
/// on the host.
///
/// Of an array on the stack every byte is written before it is used, which takes longer than many a
/// program's own work.
pub struct Buffer {
    #[cfg(any(target_arch = "wasm32", target_os = "none"))]
    bytes: &'static mut [u8],
    #[cfg(not(any(target_arch = "wasm32", target_os = "none")))]
    bytes: Vec<u8>,
}

#[cfg(not(any(target_arch = "wasm32", target_os = "none")))]
impl Buffer {
    /// So many bytes.
    pub fn new(length: usize) -> Buffer {
        Buffer { bytes: vec![0; length] }
    }
}

#[cfg(any(target_arch = "wasm32", target_os = "none"))]
mod kernel {
    use super::Buffer;
    use crate::heap::HEAP;
    use core::alloc::{GlobalAlloc, Layout};

    impl Buffer {
        /// So many bytes. Panics when the heap is full.
        #[inline(always)]
        #[track_caller]
        pub fn new(length: usize) -> Buffer {
            // Not by way of the language's allocation functions: of what those return the compiler knows
            // that nothing has been written to it.
            // SAFETY: any layout is right for this heap.
            let start = unsafe { HEAP.alloc(layout(length)) };
            if start.is_null() {
                panic!("the heap of the run is full");
            }
            // SAFETY: the block is ours until it is given back, and memory of the arena always has
            // some contents.
            Buffer { bytes: unsafe { core::slice::from_raw_parts_mut(start, length) } }
        }
    }

    impl Drop for Buffer {
        #[inline(always)]
        fn drop(&mut self) {
            // SAFETY: it is what `new` got.
            unsafe { HEAP.dealloc(self.bytes.as_mut_ptr(), layout(self.bytes.len())) }
        }
    }

    fn layout(length: usize) -> Layout {
        // SAFETY: eight is a power of two, and a length beyond the address space finds no room.
        unsafe { Layout::from_size_align_unchecked(length, 8) }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}
