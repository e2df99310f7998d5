//! The host functions: in BPF what the translator provides, in a kernel module what its glue does,
//! elsewhere a stand-in with one packet for each thread.

#[cfg(target_os = "none")]
mod module;

#[cfg(target_os = "none")]
pub(crate) use module::*;

#[cfg(target_arch = "wasm32")]
mod imports {
    #[link(wasm_import_module = "kara")]
    unsafe extern "C" {
        pub fn panic(file: *const u8, length: usize, line: u32) -> !;
        pub safe fn now() -> u64;
        pub safe fn random() -> u32;
        pub safe fn cpu() -> u32;
        pub safe fn control() -> usize;
        pub safe fn heap() -> usize;
        pub safe fn packet_length() -> u32;
        pub safe fn packet_load8(offset: u32) -> u64;
        pub safe fn packet_load16(offset: u32) -> u64;
        pub safe fn packet_load32(offset: u32) -> u64;
        pub safe fn packet_load64(offset: u32) -> u64;
        pub safe fn packet_store8(offset: u32, value: u64) -> u32;
        pub safe fn packet_store16(offset: u32, value: u64) -> u32;
        pub safe fn packet_store32(offset: u32, value: u64) -> u32;
        pub safe fn packet_store64(offset: u32, value: u64) -> u32;
        pub fn packet_read(offset: u32, to: *mut u8, length: u32) -> u32;
        pub fn packet_write(offset: u32, from: *const u8, length: u32) -> u32;
        pub safe fn adjust_head(delta: i32) -> i32;
        pub safe fn adjust_tail(delta: i32) -> i32;
        pub safe fn interface() -> u32;
        pub safe fn redirect(interface: u32, flags: u32) -> u32;
        pub safe fn process() -> u64;
        pub fn kernel_read(from: u64, to: *mut u8, length: u32) -> u32;
        pub fn map_get(map: *const crate::map::Definition, key: *const u8, to: *mut u8) -> u32;
        pub fn map_set(map: *const crate::map::Definition, key: *const u8, value: *const u8) -> i32;
        pub fn map_remove(map: *const crate::map::Definition, key: *const u8) -> i32;
    }
}

#[cfg(target_arch = "wasm32")]
pub(crate) use imports::*;

#[cfg(any(target_arch = "wasm32", target_os = "none"))]
#[panic_handler]
fn end_with_panic(info: &core::panic::PanicInfo) -> ! {
    let (file, line) = info.location().map_or(("", 0), |l| (l.file(), l.line()));
    // SAFETY: the pointer and the length are those of a static text.
    unsafe { panic(file.as_ptr(), file.len(), line) }
}

/// What the program is given of its context, by place: at most twelve words.
#[cfg(any(target_arch = "wasm32", target_os = "none"))]
#[inline(always)]
pub(crate) fn argument(place: usize) -> u64 {
    let at = (control() + crate::layout::ARGUMENTS + 8 * place) as *const u64;
    // SAFETY: the control page is this run's alone, and has room for twelve.
    unsafe { at.read() }
}

/// Changes one of them, which counts where the hook lets it.
#[cfg(any(target_arch = "wasm32", target_os = "none"))]
#[inline(always)]
pub(crate) fn set_argument(place: usize, value: u64) {
    let at = (control() + crate::layout::ARGUMENTS + 8 * place) as *mut u64;
    // SAFETY: as above.
    unsafe { at.write(value) }
}

#[cfg(not(any(target_arch = "wasm32", target_os = "none")))]
pub(crate) use native::*;

#[cfg(not(any(target_arch = "wasm32", target_os = "none")))]
pub(crate) mod native {
    use std::cell::{Cell, RefCell};

    thread_local! {
        /// The packet being worked on.
        pub(crate) static PACKET: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        /// What [`now`] says next; none is the real time.
        pub(crate) static TIME: Cell<Option<u64>> = const { Cell::new(None) };
        /// What the program is given of its context.
        pub(crate) static ARGUMENTS: Cell<[u64; 12]> = const { Cell::new([0; 12]) };
        static RANDOM: Cell<u32> = const { Cell::new(0x9e37_79b9) };
        /// Pieces of a kernel's memory: where, and what is there.
        pub(crate) static MEMORY: RefCell<Vec<(u64, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
    }

    pub fn now() -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        TIME.get().unwrap_or_else(|| since.map_or(0, |d| d.as_nanos() as u64))
    }

    /// A xorshift generator: tests shall give the same results every time.
    pub fn random() -> u32 {
        let mut x = RANDOM.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        RANDOM.set(x);
        x
    }

    pub fn cpu() -> u32 {
        0
    }

    pub fn argument(place: usize) -> u64 {
        ARGUMENTS.get()[place]
    }

    pub fn set_argument(place: usize, value: u64) {
        let mut arguments = ARGUMENTS.get();
        arguments[place] = value;
        ARGUMENTS.set(arguments);
    }

    pub fn packet_length() -> u32 {
        PACKET.with_borrow(|p| p.len() as u32)
    }

    fn load(offset: u32, bytes: usize) -> u64 {
        PACKET.with_borrow(|packet| {
            let found = packet.get(offset as usize..offset as usize + bytes).unwrap_or(&[]);
            found.iter().rev().fold(0, |all, byte| all << 8 | *byte as u64)
        })
    }

    pub fn packet_load8(offset: u32) -> u64 {
        load(offset, 1)
    }

    pub fn packet_load16(offset: u32) -> u64 {
        load(offset, 2)
    }

    pub fn packet_load32(offset: u32) -> u64 {
        load(offset, 4)
    }

    pub fn packet_load64(offset: u32) -> u64 {
        load(offset, 8)
    }

    fn store(offset: u32, bytes: &[u8]) -> u32 {
        PACKET.with_borrow_mut(|packet| match packet.get_mut(offset as usize..offset as usize + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                1
            }
            None => 0,
        })
    }

    pub fn packet_store8(offset: u32, value: u64) -> u32 {
        store(offset, &value.to_le_bytes()[..1])
    }

    pub fn packet_store16(offset: u32, value: u64) -> u32 {
        store(offset, &value.to_le_bytes()[..2])
    }

    pub fn packet_store32(offset: u32, value: u64) -> u32 {
        store(offset, &value.to_le_bytes()[..4])
    }

    pub fn packet_store64(offset: u32, value: u64) -> u32 {
        store(offset, &value.to_le_bytes())
    }

    /// # Safety
    /// `to` must be valid for writing `length` bytes.
    pub unsafe fn packet_read(offset: u32, to: *mut u8, length: u32) -> u32 {
        PACKET.with_borrow(|packet| match packet.get(offset as usize..offset as usize + length as usize) {
            Some(from) => {
                // SAFETY: the caller's promise; the packet is elsewhere.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
                1
            }
            None => 0,
        })
    }

    /// # Safety
    /// `from` must be valid for reading `length` bytes.
    pub unsafe fn packet_write(offset: u32, from: *const u8, length: u32) -> u32 {
        // SAFETY: the caller's promise.
        store(offset, unsafe { std::slice::from_raw_parts(from, length as usize) })
    }

    pub fn adjust_head(delta: i32) -> i32 {
        PACKET.with_borrow_mut(|packet| match usize::try_from(delta) {
            Ok(less) if less < packet.len() => {
                packet.drain(..less);
                0
            }
            Ok(_) => -22,
            Err(_) => {
                packet.splice(..0, std::iter::repeat_n(0, delta.unsigned_abs() as usize));
                0
            }
        })
    }

    pub fn adjust_tail(delta: i32) -> i32 {
        PACKET.with_borrow_mut(|packet| {
            let length = packet.len() as i64 + delta as i64;
            if !(14..=3520).contains(&length) {
                return -22;
            }
            packet.resize(length as usize, 0);
            0
        })
    }

    pub fn interface() -> u32 {
        1
    }

    pub fn redirect(_interface: u32, _flags: u32) -> u32 {
        4
    }

    pub fn process() -> u64 {
        u64::from(std::process::id()) << 32 | u64::from(std::process::id())
    }

    /// # Safety
    /// `to` must be valid for writing `length` bytes.
    pub unsafe fn kernel_read(from: u64, to: *mut u8, length: u32) -> u32 {
        MEMORY.with_borrow(|memory| {
            let part = memory.iter().find_map(|(at, bytes)| {
                let start = usize::try_from(from.checked_sub(*at)?).ok()?;
                bytes.get(start..start.checked_add(length as usize)?)
            });
            let Some(part) = part else { return 0 };
            // SAFETY: the caller's promise; the memory is elsewhere.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len()) };
            1
        })
    }

    pub use crate::map::native::{Content, map_get, map_remove, map_set};
}
