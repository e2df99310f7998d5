//! Congestion marks (RFC 3168): a frame whose transport understands them is told that the queue is long.

const TYPE: std::ops::Range<usize> = 12..14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Of IPv4: version and length, type of service; the checksum.
const SERVICE: usize = 15;
const CHECKSUM: std::ops::Range<usize> = 24..26;
const IPV4_HEADER: usize = 34;
/// Of IPv6: the byte with the lower half of the traffic class.
const CLASS: usize = 15;
const CAPABLE: [u8; 2] = [1, 2];
const EXPERIENCED: u8 = 3;

/// Marks a frame, if it can be marked and is not yet.
pub(crate) fn mark(frame: &mut [u8]) -> bool {
    if frame.len() < IPV4_HEADER {
        return false;
    }
    match [frame[TYPE.start], frame[TYPE.start + 1]] {
        IPV4 if CAPABLE.contains(&(frame[SERVICE] & EXPERIENCED)) => {
            mark_ipv4(frame);
            true
        }
        IPV6 if CAPABLE.contains(&(frame[CLASS] >> 4 & EXPERIENCED)) => {
            frame[CLASS] |= EXPERIENCED << 4;
            true
        }
        _ => false,
    }
}

/// The checksum follows (RFC 1624, equation 3).
fn mark_ipv4(frame: &mut [u8]) {
    let word = |frame: &[u8]| u16::from_be_bytes([frame[SERVICE - 1], frame[SERVICE]]);
    let before = word(frame);
    frame[SERVICE] |= EXPERIENCED;
    let old = u16::from_be_bytes([frame[CHECKSUM.start], frame[CHECKSUM.start + 1]]);
    let sum = u32::from(!old) + u32::from(!before) + u32::from(word(frame));
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    frame[CHECKSUM].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(service: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[TYPE].copy_from_slice(&IPV4);
        let header = [0x45, service, 0, 46, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
        frame[14..34].copy_from_slice(&header);
        let sum = checksum(&frame);
        frame[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    fn checksum(frame: &[u8]) -> u16 {
        let mut sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn what_can_be_marked_is() {
        for service in 0..=255u8 {
            let mut frame = ipv4(service);
            assert_eq!(mark(&mut frame), CAPABLE.contains(&(service & 3)), "{service}");
            assert!(frame[SERVICE] & 3 == 3 || service & 3 == 0);
            assert_eq!(checksum(&frame), 0, "{service}");
        }
    }

    #[test]
    fn other_frames_stay_as_they_are() {
        let mut ipv6 = vec![0; 60];
        ipv6[TYPE].copy_from_slice(&IPV6);
        ipv6[14..16].copy_from_slice(&[0x60, 0x20]);
        assert!(mark(&mut ipv6));
        assert_eq!(ipv6[14..16], [0x60, 0x30]);
        assert!(!mark(&mut ipv6) && !mark(&mut [0; 60]) && !mark(&mut []));
    }
}
