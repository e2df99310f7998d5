//! Little-endian integers in byte slices, with bounds checked.

/// `N` bytes at `at`.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// Overwrites what is at `at`; `None` when it does not fit inside.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> Option<()> {
    bytes.get_mut(at..at.checked_add(value.len())?)?.copy_from_slice(value);
    Some(())
}

/// The text from `at` to the next zero byte; not UTF-8 is `None`.
pub(crate) fn text_at(bytes: &[u8], at: usize) -> Option<&str> {
    let tail = bytes.get(at..)?;
    let end = tail.iter().position(|b| *b == 0)?;
    std::str::from_utf8(&tail[..end]).ok()
}

/// The next multiple of `align`, which is 0, 1 or a power of two.
pub(crate) fn align_up(value: usize, align: usize) -> Option<usize> {
    let mask = align.max(1) - 1;
    Some(value.checked_add(mask)? & !mask)
}
