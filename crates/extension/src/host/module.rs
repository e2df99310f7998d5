//! The host functions in a kernel module: the packet is memory, the rest is in the module's glue
//! (`crates/native`), with which the control page is agreed on.

use core::arch::asm;

mod glue {
    unsafe extern "C" {
        #[link_name = "kara_panic"]
        pub fn panic(file: *const u8, length: usize, line: u32) -> !;
        #[link_name = "kara_now"]
        pub safe fn now() -> u64;
        #[link_name = "kara_random"]
        pub safe fn random() -> u32;
        #[link_name = "kara_cpu"]
        pub safe fn cpu() -> u32;
        #[link_name = "kara_make_writable"]
        pub safe fn make_writable() -> u32;
        #[link_name = "kara_adjust_head"]
        pub safe fn adjust_head(delta: i32) -> i32;
        #[link_name = "kara_adjust_tail"]
        pub safe fn adjust_tail(delta: i32) -> i32;
        #[link_name = "kara_interface"]
        pub safe fn interface() -> u32;
        #[link_name = "kara_redirect"]
        pub safe fn redirect(interface: u32, flags: u32) -> u32;
    }
}

pub use glue::{adjust_head, adjust_tail, cpu, interface, now, panic, random, redirect};

/// Modules have no programs at tracepoints: building one says so.
pub fn process() -> u64 {
    0
}

/// # Safety
/// None is needed: nothing is written.
pub unsafe fn kernel_read(_from: u64, _to: *mut u8, _length: u32) -> u32 {
    0
}

/// The packet in the control page.
#[repr(C)]
struct Place {
    data: *mut u8,
    length: usize,
    /// Not 0 when nobody else has these bytes.
    is_writable: u64,
}

/// The control page of this CPU. A run stays on its CPU.
#[inline(always)]
pub fn control() -> usize {
    let control: usize;
    // SAFETY: reads a variable of the glue that stays the same as long as the module is there.
    unsafe {
        asm!("mov {}, qword ptr gs:[kara_control]", out(reg) control, options(pure, nomem, nostack, preserves_flags))
    };
    control
}

/// The same page, which is where the heap is on record.
#[inline(always)]
pub fn heap() -> usize {
    control()
}

#[inline(always)]
fn packet() -> *const Place {
    (control() + crate::layout::PACKET) as *const Place
}

/// Where these bytes of the packet are.
#[inline(always)]
fn place(offset: u32, bytes: u32) -> Option<*mut u8> {
    // SAFETY: the control page is this run's alone, and the glue keeps what it says of the packet true.
    let Place { data, length, .. } = unsafe { packet().read() };
    // SAFETY: within the packet.
    (offset as u64 + bytes as u64 <= length as u64).then(|| unsafe { data.add(offset as usize) })
}

/// The same for writing.
#[inline(always)]
fn place_to_write(offset: u32, bytes: u32) -> Option<*mut u8> {
    // SAFETY: as above.
    if unsafe { (*packet()).is_writable } == 0 && make_packet_writable() == 0 {
        return None;
    }
    place(offset, bytes)
}

#[cold]
fn make_packet_writable() -> u32 {
    glue::make_writable()
}

#[inline(always)]
pub fn packet_length() -> u32 {
    // SAFETY: as above.
    unsafe { (*packet()).length as u32 }
}

macro_rules! accesses {
    ($($load:ident $store:ident $ty:ty;)*) => { $(
        #[inline(always)]
        pub fn $load(offset: u32) -> u64 {
            // SAFETY: these bytes are the packet's.
            place(offset, size_of::<$ty>() as u32).map_or(0, |at| unsafe { at.cast::<$ty>().read_unaligned() } as u64)
        }

        #[inline(always)]
        pub fn $store(offset: u32, value: u64) -> u32 {
            let Some(at) = place_to_write(offset, size_of::<$ty>() as u32) else { return 0 };
            // SAFETY: these bytes are the packet's, and nobody else's.
            unsafe { at.cast::<$ty>().write_unaligned(value as $ty) };
            1
        }
    )* };
}

accesses! {
    packet_load8 packet_store8 u8;
    packet_load16 packet_store16 u16;
    packet_load32 packet_store32 u32;
    packet_load64 packet_store64 u64;
}

/// # Safety
/// `to` must be valid for writing `length` bytes.
#[inline(always)]
pub unsafe fn packet_read(offset: u32, to: *mut u8, length: u32) -> u32 {
    let Some(from) = place(offset, length) else { return 0 };
    // SAFETY: the caller's promise; packets are not part of the program's memory.
    unsafe { core::ptr::copy_nonoverlapping(from, to, length as usize) };
    1
}

/// # Safety
/// `from` must be valid for reading `length` bytes.
#[inline(always)]
pub unsafe fn packet_write(offset: u32, from: *const u8, length: u32) -> u32 {
    let Some(to) = place_to_write(offset, length) else { return 0 };
    // SAFETY: as above.
    unsafe { core::ptr::copy_nonoverlapping(from, to, length as usize) };
    1
}
