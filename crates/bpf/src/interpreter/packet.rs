//! The packet: bytes with room before and behind, and metadata before the first byte.

/// Bytes of room that the kernel leaves before a packet at the XDP hook (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM: usize = 256;
/// Bytes at the start of that room which the kernel keeps for itself (`struct xdp_frame`).
const XDP_FRAME: usize = 40;
/// Bytes from the start of the room to the last byte a packet can grow to at the XDP hook:
/// a page without `struct skb_shared_info`.
const XDP_PAGE: usize = 4096 - 320;
/// Room of this model before a packet, for hooks whose packets can grow more.
const HEADROOM: usize = 4096;
/// Shortest packet at the XDP hook (`ETH_HLEN`).
const ETHERNET_HEADER: usize = 14;
/// Longest packet.
pub(super) const MAX_PACKET: usize = 1 << 17;

/// A packet in its buffer. Places are counted from the start of the buffer.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    buffer: Vec<u8>,
    meta: usize,
    start: usize,
}

/// The packet cannot be changed in that way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoRoom;

impl Packet {
    pub(super) fn new(meta: &[u8], bytes: &[u8]) -> Packet {
        let bytes = &bytes[..bytes.len().min(MAX_PACKET)];
        let meta = &meta[..meta.len().min(XDP_HEADROOM - XDP_FRAME)];
        let mut buffer = vec![0; HEADROOM - meta.len()];
        buffer.extend_from_slice(meta);
        buffer.extend_from_slice(bytes);
        Packet { buffer, meta: HEADROOM - meta.len(), start: HEADROOM }
    }

    /// Place of the first byte of metadata.
    pub(super) fn meta(&self) -> usize {
        self.meta
    }

    /// Place of the first byte.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Place after the last byte.
    pub(super) fn end(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn len(&self) -> usize {
        self.end() - self.start
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start..]
    }

    pub(super) fn metadata(&self) -> &[u8] {
        &self.buffer[self.meta..self.start]
    }

    /// Bytes at a place, metadata included.
    #[inline]
    pub(super) fn at(&self, place: i64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(place).ok().filter(|p| *p >= self.meta)?;
        self.buffer.get(from..from.checked_add(len)?)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, place: i64, len: usize) -> Option<&mut [u8]> {
        let from = usize::try_from(place).ok().filter(|p| *p >= self.meta)?;
        self.buffer.get_mut(from..from.checked_add(len)?)
    }

    /// `bpf_xdp_adjust_head`: moves the start, metadata with it.
    pub(super) fn adjust_head(&mut self, delta: i64) -> Result<(), NoRoom> {
        let metadata = self.start - self.meta;
        let start = usize::try_from(self.start as i64 + delta).map_err(|_| NoRoom)?;
        if start < HEADROOM - XDP_HEADROOM + XDP_FRAME + metadata || start + ETHERNET_HEADER > self.end() {
            return Err(NoRoom);
        }
        self.buffer.copy_within(self.meta..self.start, start - metadata);
        (self.meta, self.start) = (start - metadata, start);
        Ok(())
    }

    /// `bpf_xdp_adjust_tail`: moves the end; new bytes are zero.
    pub(super) fn adjust_tail(&mut self, delta: i64) -> Result<(), NoRoom> {
        let end = usize::try_from(self.end() as i64 + delta).map_err(|_| NoRoom)?;
        let page_end = HEADROOM - XDP_HEADROOM + XDP_PAGE;
        if (delta > 0 && end > page_end) || end < self.start + ETHERNET_HEADER {
            return Err(NoRoom);
        }
        self.buffer.resize(end, 0);
        Ok(())
    }

    /// `bpf_xdp_adjust_meta`: moves the start of the metadata.
    pub(super) fn adjust_meta(&mut self, delta: i64) -> Result<(), NoRoom> {
        let meta = usize::try_from(self.meta as i64 + delta).map_err(|_| NoRoom)?;
        if meta < HEADROOM - XDP_HEADROOM + XDP_FRAME || meta > self.start {
            return Err(NoRoom);
        }
        let bytes = self.start - meta;
        if !bytes.is_multiple_of(4) || bytes > 252 {
            return Err(NoRoom);
        }
        self.meta = meta;
        Ok(())
    }

    /// Inserts `count` zero bytes `at` bytes after the start. Metadata is lost, as in the kernel.
    pub(super) fn insert(&mut self, at: usize, count: usize) -> Result<(), NoRoom> {
        if at > self.len() || self.start < count || self.len() + count > MAX_PACKET {
            return Err(NoRoom);
        }
        let start = self.start - count;
        self.buffer.copy_within(self.start..self.start + at, start);
        self.buffer[start + at..start + at + count].fill(0);
        (self.meta, self.start) = (start, start);
        Ok(())
    }

    /// Removes `count` bytes `at` bytes after the start. Metadata is lost.
    pub(super) fn remove(&mut self, at: usize, count: usize) -> Result<(), NoRoom> {
        match at.checked_add(count) {
            Some(end) if end <= self.len() => {}
            _ => return Err(NoRoom),
        }
        self.buffer.copy_within(self.start..self.start + at, self.start + count);
        self.start += count;
        self.meta = self.start;
        Ok(())
    }

    /// Sets the length; new bytes are zero.
    pub(super) fn set_len(&mut self, len: usize) -> Result<(), NoRoom> {
        if len > MAX_PACKET {
            return Err(NoRoom);
        }
        self.buffer.resize(self.start + len, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_moves_within_its_room() {
        let mut packet = Packet::new(&[], &[7; 60]);
        assert_eq!(packet.adjust_head(-216), Ok(()));
        assert_eq!((packet.len(), packet.bytes()[216]), (276, 7));
        assert_eq!(packet.adjust_head(-1), Err(NoRoom));
        assert_eq!(packet.adjust_head(276 - 14), Ok(()));
        assert_eq!(packet.adjust_head(1), Err(NoRoom));
        assert_eq!(packet.adjust_head(i64::MAX / 2), Err(NoRoom));
    }

    #[test]
    fn metadata_grows_in_words_and_moves_with_the_head() {
        let mut packet = Packet::new(&[], &[7; 60]);
        assert_eq!(packet.adjust_meta(-3), Err(NoRoom));
        assert_eq!(packet.adjust_meta(-4), Ok(()));
        packet.at_mut(packet.meta() as i64, 4).expect("inside").copy_from_slice(b"meta");
        assert_eq!(packet.adjust_head(8), Ok(()));
        assert_eq!(packet.metadata(), b"meta");
        assert_eq!(packet.adjust_meta(8), Err(NoRoom));
    }

    #[test]
    fn bytes_are_inserted_and_removed_inside() {
        let mut packet = Packet::new(&[], b"abcdef");
        assert_eq!(packet.insert(2, 3), Ok(()));
        assert_eq!(packet.bytes(), b"ab\0\0\0cdef");
        assert_eq!(packet.remove(1, 5), Ok(()));
        assert_eq!(packet.bytes(), b"adef");
        assert_eq!(packet.remove(1, 4), Err(NoRoom));
        assert_eq!(packet.remove(usize::MAX, 4), Err(NoRoom));
    }
}
