//! Packets from captures: classic pcap (all byte orders and both clock resolutions) and the packet
//! blocks of pcapng. Formats: draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng.

/// Longest packet that is taken; captures of networks have far shorter ones.
const MOST_BYTES: usize = 1 << 20;

const CLASSIC: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ENHANCED_PACKET: u32 = 6;
const SIMPLE_PACKET: u32 = 3;
const OBSOLETE_PACKET: u32 = 2;

/// Whether bytes begin like a capture.
pub fn is_capture(bytes: &[u8]) -> bool {
    let Some(magic) = word(bytes, 0, false) else { return false };
    magic == SECTION_HEADER || CLASSIC.contains(&magic) || CLASSIC.contains(&magic.swap_bytes())
}

/// The packets of a capture in order. A capture that ends in the middle of a packet is an error.
pub fn packets(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    match word(bytes, 0, false) {
        Some(SECTION_HEADER) => next_generation(bytes),
        Some(magic) if CLASSIC.contains(&magic) => classic(bytes, false),
        Some(_) if is_capture(bytes) => classic(bytes, true),
        _ => Err("this is no capture".to_string()),
    }
}

fn word(bytes: &[u8], at: usize, swapped: bool) -> Option<u32> {
    let word = u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?);
    Some(if swapped { word.swap_bytes() } else { word })
}

fn slice(bytes: &[u8], at: usize, length: usize) -> Option<Vec<u8>> {
    (length <= MOST_BYTES).then_some(())?;
    bytes.get(at..at.checked_add(length)?).map(<[u8]>::to_vec)
}

fn classic(bytes: &[u8], swapped: bool) -> Result<Vec<Vec<u8>>, String> {
    const FILE_HEADER: usize = 24;
    const RECORD_HEADER: usize = 16;
    let mut packets = Vec::new();
    let mut at = FILE_HEADER;
    while at < bytes.len() {
        let torn = || format!("the capture ends inside packet {}", packets.len() + 1);
        let length = word(bytes, at + 8, swapped).ok_or_else(torn)? as usize;
        let packet = slice(bytes, at + RECORD_HEADER, length).ok_or_else(torn)?;
        packets.push(packet);
        at += RECORD_HEADER + length;
    }
    Ok(packets)
}

fn next_generation(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut packets = Vec::new();
    let (mut at, mut swapped) = (0, false);
    while at < bytes.len() {
        let torn = || format!("the capture ends inside the block at byte {at}");
        let mut kind = word(bytes, at, swapped).ok_or_else(torn)?;
        if kind == SECTION_HEADER {
            swapped = word(bytes, at + 8, false).ok_or_else(torn)? != BYTE_ORDER;
            kind = SECTION_HEADER;
        }
        let length = word(bytes, at + 4, swapped).ok_or_else(torn)? as usize;
        let end = at.checked_add(length).filter(|end| *end <= bytes.len() && length >= 12 && length.is_multiple_of(4));
        let end = end.ok_or_else(torn)?;
        let packet = match kind {
            ENHANCED_PACKET | OBSOLETE_PACKET => {
                let captured = word(bytes, at + 20, swapped).ok_or_else(torn)? as usize;
                Some(slice(&bytes[..end], at + 28, captured).ok_or_else(torn)?)
            }
            SIMPLE_PACKET => {
                // Longer packets were cut to what the block holds.
                let original = word(bytes, at + 8, swapped).ok_or_else(torn)? as usize;
                Some(slice(&bytes[..end], at + 12, original.min(length - 16)).ok_or_else(torn)?)
            }
            _ => None,
        };
        packets.extend(packet);
        at = end;
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn classic_in_both_byte_orders() {
        let mut little = words(&[0xa1b2_c3d4, 0, 0, 0, 65535, 1, 0, 0, 3, 3]);
        little.extend([1, 2, 3]);
        assert_eq!(packets(&little), Ok(vec![vec![1, 2, 3]]));
        let mut big: Vec<u8> =
            [0xa1b2_3c4du32, 0, 0, 0, 65535, 1, 0, 0, 2, 2].iter().flat_map(|w| w.to_be_bytes()).collect();
        big.extend([9, 8]);
        assert_eq!(packets(&big), Ok(vec![vec![9, 8]]));
        assert!(packets(&big[..big.len() - 1]).is_err());
        assert!(!is_capture(b"\x7fELF"));
    }

    #[test]
    fn blocks_of_the_next_generation() {
        let mut file = words(&[SECTION_HEADER, 28, BYTE_ORDER, 1, u32::MAX, u32::MAX, 28]);
        file.extend(words(&[1, 20, 1, 0, 20]));
        file.extend(words(&[ENHANCED_PACKET, 36, 0, 0, 0, 3, 3, 0x0003_0201, 36]));
        file.extend(words(&[SIMPLE_PACKET, 20, 2, 0x0605, 20]));
        assert_eq!(packets(&file), Ok(vec![vec![1, 2, 3], vec![5, 6]]));
        for length in 0..file.len() {
            let _ = packets(&file[..length]);
        }
    }
}
