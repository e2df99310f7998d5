//! Values that any bytes make.

/// A value that is nothing but bytes: every pattern is valid, and there are no gaps. Derived with
/// `#[derive(Plain)]` for structures of such fields.
///
/// ```compile_fail
/// # use karakoram_extension::Plain;
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Gap { a: u8, b: u32 }
/// ```
///
/// ```compile_fail
/// # use karakoram_extension::Plain;
/// #[derive(Clone, Copy, Plain)]
/// #[repr(C)]
/// struct Pointer<'a> { at: &'a u8 }
/// ```
///
/// # Safety
/// Every pattern of bytes of its size must be a valid value, and it must not contain padding.
pub unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($ty:ty)*) => { $(
        // SAFETY: integers have neither invalid values nor padding.
        unsafe impl Plain for $ty {}
    )* };
}

plain!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

// SAFETY: there is nothing in it.
unsafe impl Plain for () {}

// SAFETY: an array of values without padding has none, and its elements may be anything.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
