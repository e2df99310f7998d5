//! The heap of a run: a stack of blocks that is empty again when the next run starts. What is freed or
//! grown last is freed or grown in place.

use core::alloc::{GlobalAlloc, Layout};

use crate::layout::HEAP_NEXT;

/// Where the heap ends, from the control page on. Programs that never ask for that by `heap` get no pages for a heap.
#[cfg(target_arch = "wasm32")]
const END: usize = 1 << 20;
#[cfg(not(target_arch = "wasm32"))]
const END: usize = (4 << 10) + (512 << 10);

pub(crate) struct RunHeap;

#[global_allocator]
pub(crate) static HEAP: RunHeap = RunHeap;

fn next() -> *mut u64 {
    (crate::host::heap() + HEAP_NEXT) as *mut u64
}

// SAFETY: blocks lie in this run's own region, one above the other, and the control page is this run's
// alone.
unsafe impl GlobalAlloc for RunHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe {
            let start = (next().read() as usize).next_multiple_of(layout.align());
            let end = start.wrapping_add(layout.size());
            if end > crate::host::heap() + END || end < start {
                return core::ptr::null_mut();
            }
            next().write(end as u64);
            start as *mut u8
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: see above.
        unsafe {
            if block as usize + layout.size() == next().read() as usize {
                next().write(block as u64);
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: see above; `alloc` gives a block of `size`, of which the smaller part is copied.
        unsafe {
            let is_last = block as usize + layout.size() == next().read() as usize;
            let end = (block as usize).wrapping_add(size);
            if is_last && end <= crate::host::heap() + END && end >= block as usize {
                next().write(end as u64);
                return block;
            }
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
            }
            new
        }
    }
}
