//! Tracepoints: places of the kernel where a program looks at what happens, and changes nothing.

use crate::host;
use crate::plain::Plain;
use crate::running;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, size_of};

/// Most bytes that are read at once: they pass through the kernel's stack.
pub const MOST_READ_BYTES: usize = 256;

/// The tracepoint that was reached.
///
/// A packet is not at hand there, so nothing of a packet's can be asked.
///
/// ```compile_fail
/// # use karakoram_extension::Tracepoint;
/// fn length(event: &mut Tracepoint) -> usize {
///     event.length()
/// }
/// ```
pub struct Tracepoint {
    not_send: PhantomData<*mut ()>,
}

/// An address in the kernel. Nothing can be done with it but to ask what is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Address(pub u64);

impl Address {
    /// So many bytes further on.
    pub fn at(self, bytes: u64) -> Address {
        Address(self.0.wrapping_add(bytes))
    }

    /// A copy of what is there; `None` when nothing is. Only programs that may look at the kernel ask for it.
    #[inline(always)]
    pub(crate) fn read<T: Plain>(self) -> Option<T> {
        const { assert!(size_of::<T>() > 0 && size_of::<T>() <= MOST_READ_BYTES, "1 to 256 bytes at once") };
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: `value` has room for its size.
        match unsafe { host::kernel_read(self.0, value.as_mut_ptr().cast(), size_of::<T>() as u32) } {
            0 => None,
            // SAFETY: all bytes were written, and any bytes make a plain value.
            _ => Some(unsafe { value.assume_init() }),
        }
    }
}

impl Tracepoint {
    /// Number of the process that is running.
    pub fn process(&self) -> u32 {
        running::process()
    }

    /// Number of the thread that is running.
    pub fn thread(&self) -> u32 {
        running::thread()
    }

    /// A copy of what is at an address; `None` when nothing is.
    #[inline(always)]
    pub fn read<T: Plain>(&self, from: Address) -> Option<T> {
        from.read()
    }
}

/// What a tracepoint's argument can be taken as. Each has 64 bits, of which smaller numbers take the lowest.
pub trait Argument {
    /// From 64 bits.
    fn from_word(word: u64) -> Self;
}

macro_rules! numbers {
    ($($ty:ty)*) => { $(
        impl Argument for $ty {
            #[inline(always)]
            fn from_word(word: u64) -> $ty {
                word as $ty
            }
        }
    )* };
}

numbers!(u8 u16 u32 u64 i8 i16 i32 i64);

impl Argument for bool {
    #[inline(always)]
    fn from_word(word: u64) -> bool {
        word as u8 != 0
    }
}

impl Argument for Address {
    #[inline(always)]
    fn from_word(word: u64) -> Address {
        Address(word)
    }
}

/// Runs a program at a tracepoint. What `#[tracepoint]` makes calls it.
#[doc(hidden)]
#[inline(always)]
pub fn run<R>(program: impl FnOnce(&mut Tracepoint) -> R) -> R {
    program(&mut Tracepoint { not_send: PhantomData })
}

/// An argument of the tracepoint that was reached.
#[cfg(any(target_arch = "wasm32", target_os = "none"))]
#[doc(hidden)]
#[inline(always)]
pub fn argument<T: Argument>(number: usize) -> T {
    T::from_word(host::argument(number))
}
