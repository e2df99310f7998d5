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

/// Bytes as a value, if there are enough. Only for values that may be at any address, such as headers.
///
/// ```compile_fail
/// // Numbers of 32 bits are not at odd addresses.
/// karakoram_extension::view::<u32>(&[0; 8]);
/// ```
#[inline(always)]
pub fn view<T: Plain>(bytes: &[u8]) -> Option<&T> {
    const { assert!(align_of::<T>() == 1, "its fields must be bytes") };
    // SAFETY: there are enough bytes, any of them make a value, and its alignment is that of bytes.
    bytes.get(..size_of::<T>()).map(|bytes| unsafe { &*bytes.as_ptr().cast() })
}

/// Bytes as a value that can be changed, if there are enough.
#[inline(always)]
pub fn view_mut<T: Plain>(bytes: &mut [u8]) -> Option<&mut T> {
    const { assert!(align_of::<T>() == 1, "its fields must be bytes") };
    // SAFETY: as for `view`; whatever is written to it leaves bytes.
    bytes.get_mut(..size_of::<T>()).map(|bytes| unsafe { &mut *bytes.as_mut_ptr().cast() })
}
