//! Packets: what is in them is copied out and in, after a check that it is there.

use crate::host;
use crate::plain::Plain;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, size_of};

/// The packet that the program runs on.
///
/// ```compile_fail
/// # use karakoram_extension::Xdp;
/// fn stale(packet: &mut Xdp) {
///     let mut buffer = [0; 64];
///     let bytes = packet.bytes(&mut buffer);
///     buffer[0] = 1; // `bytes` is still in use
///     assert_eq!(bytes[0], 0);
/// }
/// ```
pub struct Packet {
    pub(crate) not_send: PhantomData<*mut ()>,
}

impl Packet {
    /// Bytes that can be read and written.
    pub fn length(&self) -> usize {
        host::packet_length() as usize
    }

    /// A header at an offset; `None` when the packet ends before it does.
    #[inline(always)]
    pub fn read<H: Plain>(&self, offset: usize) -> Option<H> {
        let offset = u32::try_from(offset).ok()?;
        let mut value = MaybeUninit::<H>::uninit();
        // SAFETY: `value` has room for its size.
        match unsafe { host::packet_read(offset, value.as_mut_ptr().cast(), size_of::<H>() as u32) } {
            0 => None,
            // SAFETY: all bytes were written, and any bytes make a plain value.
            _ => Some(unsafe { value.assume_init() }),
        }
    }

    /// Writes a header at an offset; false when the packet ends before it does.
    #[inline(always)]
    #[must_use]
    pub fn write<H: Plain>(&mut self, offset: usize, value: &H) -> bool {
        let Ok(offset) = u32::try_from(offset) else { return false };
        // SAFETY: a plain value is all bytes.
        unsafe { host::packet_write(offset, (&raw const *value).cast(), size_of::<H>() as u32) != 0 }
    }

    /// The byte at an offset.
    #[inline(always)]
    pub fn u8(&self, offset: usize) -> Option<u8> {
        self.has(offset, 1).then(|| host::packet_load8(offset as u32) as u8)
    }

    /// The number of 16 bits, most significant byte first, at an offset.
    #[inline(always)]
    pub fn be16(&self, offset: usize) -> Option<u16> {
        self.has(offset, 2).then(|| (host::packet_load16(offset as u32) as u16).swap_bytes())
    }

    /// The number of 32 bits, most significant byte first, at an offset.
    #[inline(always)]
    pub fn be32(&self, offset: usize) -> Option<u32> {
        self.has(offset, 4).then(|| (host::packet_load32(offset as u32) as u32).swap_bytes())
    }

    /// The number of 64 bits, most significant byte first, at an offset.
    #[inline(always)]
    pub fn be64(&self, offset: usize) -> Option<u64> {
        self.has(offset, 8).then(|| host::packet_load64(offset as u32).swap_bytes())
    }

    /// Sets the byte at an offset; false when there is none.
    #[inline(always)]
    #[must_use]
    pub fn set_u8(&mut self, offset: usize, value: u8) -> bool {
        u32::try_from(offset).is_ok_and(|o| host::packet_store8(o, value as u64) != 0)
    }

    /// Sets the number of 16 bits at an offset, most significant byte first.
    #[inline(always)]
    #[must_use]
    pub fn set_be16(&mut self, offset: usize, value: u16) -> bool {
        u32::try_from(offset).is_ok_and(|o| host::packet_store16(o, value.swap_bytes() as u64) != 0)
    }

    /// Sets the number of 32 bits at an offset, most significant byte first.
    #[inline(always)]
    #[must_use]
    pub fn set_be32(&mut self, offset: usize, value: u32) -> bool {
        u32::try_from(offset).is_ok_and(|o| host::packet_store32(o, value.swap_bytes() as u64) != 0)
    }

    /// Sets the number of 64 bits at an offset, most significant byte first.
    #[inline(always)]
    #[must_use]
    pub fn set_be64(&mut self, offset: usize, value: u64) -> bool {
        u32::try_from(offset).is_ok_and(|o| host::packet_store64(o, value.swap_bytes()) != 0)
    }

    /// Copies out as many bytes as the buffer has; false when they are not all there.
    #[inline(always)]
    #[must_use]
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) -> bool {
        let (Ok(offset), Ok(length)) = (u32::try_from(offset), u32::try_from(to.len())) else { return false };
        // SAFETY: `to` is a buffer of that length.
        unsafe { host::packet_read(offset, to.as_mut_ptr(), length) != 0 }
    }

    /// Copies bytes in; false when the packet ends before they do.
    #[inline(always)]
    #[must_use]
    pub fn copy_from(&mut self, offset: usize, from: &[u8]) -> bool {
        let (Ok(offset), Ok(length)) = (u32::try_from(offset), u32::try_from(from.len())) else { return false };
        // SAFETY: `from` is a buffer of that length.
        unsafe { host::packet_write(offset, from.as_ptr(), length) != 0 }
    }

    /// The packet's bytes, copied: all of them, or as many as the buffer holds.
    #[inline(always)]
    pub fn bytes<'b>(&self, buffer: &'b mut [u8]) -> &'b [u8] {
        let length = self.length().min(buffer.len());
        let part = &mut buffer[..length];
        match self.copy_to(0, part) {
            true => part,
            false => &[],
        }
    }

    #[inline(always)]
    fn has(&self, offset: usize, bytes: usize) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.length())
    }
}
