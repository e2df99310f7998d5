//! Captures that Wireshark opens: classic pcap with nanoseconds (draft-ietf-opsawg-pcap).

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINK_TYPE_ETHERNET: u32 = 1;
const SNAP_LENGTH: u32 = 1 << 18;

/// What a capture file starts with.
pub fn capture_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
    header[4..6].copy_from_slice(&2u16.to_le_bytes());
    header[6..8].copy_from_slice(&4u16.to_le_bytes());
    header[16..20].copy_from_slice(&SNAP_LENGTH.to_le_bytes());
    header[20..].copy_from_slice(&LINK_TYPE_ETHERNET.to_le_bytes());
    header
}

/// Appends a frame.
pub fn capture_record(now_ps: u64, frame: &[u8], out: &mut Vec<u8>) {
    let ns = now_ps / 1000;
    let length = frame.len() as u32;
    for word in [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, length, length] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record() {
        let mut out = capture_header().to_vec();
        capture_record(2_000_000_005_000, &[1, 2, 3], &mut out);
        assert_eq!(out[..4], [0x4d, 0x3c, 0xb2, 0xa1]);
        assert_eq!(out[24..], [2, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]);
    }
}
