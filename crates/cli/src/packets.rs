//! Packets to try programs on: the same for the same seed, mostly well-formed, some damaged.

use crate::frame::checksum;
use karakoram_lab::random::Random;

/// Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Longest that is made; fits a standard frame.
const MOST_BYTES: u64 = 1514;

/// An endless sequence of frames.
pub fn packets(seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random::new(seed);
    std::iter::from_fn(move || Some(packet(&mut random)))
}

fn packet(random: &mut Random) -> Vec<u8> {
    if random.one_in(8) {
        let length = ETHERNET_BYTES as u64 + random.below(MOST_BYTES - ETHERNET_BYTES as u64);
        return random.bytes(length as usize);
    }
    let mut out = random.bytes(12);
    // Up to three tags: programs that parse them stop after one or two.
    while random.one_in(6) && out.len() < 24 {
        out.extend(random.pick(&[0x8100u16, 0x88a8]).to_be_bytes());
        out.extend(random.bytes(2));
    }
    match random.below(10) {
        0..=5 => ipv4(random, &mut out),
        6..=8 => ipv6(random, &mut out),
        _ => {
            out.extend(random.pick(&[0x0806u16, 0x86dd, 0x0800, 0x8847, 0x88cc]).to_be_bytes());
            let length = random.below(60) as usize;
            out.extend(random.bytes(length));
        }
    }
    damage(random, &mut out);
    out.resize(out.len().max(ETHERNET_BYTES), 0);
    out
}

/// Cuts some packets short, and changes bytes of others.
fn damage(random: &mut Random, out: &mut Vec<u8>) {
    if random.one_in(5) {
        let length = random.below(out.len() as u64 + 1) as usize;
        out.truncate(length);
    }
    if random.one_in(5) && !out.is_empty() {
        let at = random.below(out.len() as u64) as usize;
        out[at] = random.number() as u8;
    }
}

fn ipv4(random: &mut Random, out: &mut Vec<u8>) {
    out.extend(0x0800u16.to_be_bytes());
    let protocol = random.pick(&[6u8, 17, 17, 1, 4, 47, 132]);
    let payload = transport(random, protocol);
    let words = if random.one_in(10) { random.below(16) as u8 } else { 5 };
    let options = (words.max(5) as usize - 5) * 4;
    let start = out.len();
    out.push(0x40 | words);
    out.push(random.number() as u8);
    out.extend(((20 + options + payload.len()) as u16).to_be_bytes());
    out.extend(random.bytes(2));
    out.extend(if random.one_in(10) { [0x20, 1] } else { [0x40, 0] });
    out.extend([random.below(65) as u8, protocol, 0, 0]);
    out.extend(address(random));
    out.extend(address(random));
    let sum = checksum(&out[start..start + 20]);
    out[start + 10..start + 12].copy_from_slice(&sum);
    out.extend(random.bytes(options));
    out.extend(payload);
}

/// Few addresses, so that tables see the same ones again.
fn address(random: &mut Random) -> [u8; 4] {
    [10, 0, random.below(2) as u8, random.below(8) as u8]
}

fn ipv6(random: &mut Random, out: &mut Vec<u8>) {
    out.extend(0x86ddu16.to_be_bytes());
    let protocol = random.pick(&[6u8, 17, 58, 41]);
    let mut payload = transport(random, protocol);
    let mut next = protocol;
    if random.one_in(4) {
        // One extension header of eight bytes.
        let mut extended = vec![next, 0];
        extended.extend(random.bytes(6));
        extended.extend(payload);
        payload = extended;
        next = random.pick(&[0u8, 43, 60, 44]);
    }
    out.extend([0x60, random.number() as u8, 0, 0]);
    out.extend((payload.len() as u16).to_be_bytes());
    out.extend([next, random.below(65) as u8]);
    for _ in 0..2 {
        out.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.push(random.below(8) as u8);
    }
    out.extend(payload);
}

fn transport(random: &mut Random, protocol: u8) -> Vec<u8> {
    let body = random.pick(&[0usize, 1, 8, 18, 64, 512, 1400]);
    let mut out = Vec::new();
    const PORTS: [u16; 8] = [7, 9, 53, 80, 443, 1234, 8080, 4789];
    match protocol {
        6 | 17 | 132 => {
            out.extend(random.pick(&PORTS).to_be_bytes());
            out.extend(random.pick(&PORTS).to_be_bytes());
        }
        _ => out.extend([random.pick(&[0u8, 8, 3, 128, 129, 135]), 0, 0, 0]),
    }
    match protocol {
        17 => out.extend([((body + 8) >> 8) as u8, (body + 8) as u8, 0, 0]),
        6 => {
            out.extend(random.bytes(8));
            out.extend([0x50, random.pick(&[0x02u8, 0x10, 0x12, 0x18, 0x11, 0x04])]);
            out.extend(random.bytes(6));
        }
        _ => out.extend(random.bytes(4)),
    }
    out.extend(random.bytes(body));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_long_enough_and_the_same_each_time() {
        let first: Vec<Vec<u8>> = packets(1).take(500).collect();
        assert!(first.iter().all(|p| (ETHERNET_BYTES..=1600).contains(&p.len())));
        assert_eq!(first, packets(1).take(500).collect::<Vec<_>>());
        assert_ne!(first, packets(2).take(500).collect::<Vec<_>>());
    }
}
