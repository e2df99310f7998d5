//! Compression, encodings, ciphers and hashes.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

fn hashed(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf29ce484222325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100000001b3))
}

#[derive(Debug)]
enum Broken {
    Ends,
    Distance(usize),
    TooLong,
}

/// Blocks as LZ4 has them.
fn unpacked(mut input: &[u8]) -> Result<Vec<u8>, Broken> {
    fn length(input: &mut &[u8], nibble: u8) -> Result<usize, Broken> {
        let mut length = usize::from(nibble);
        if nibble == 15 {
            loop {
                let (byte, rest) = input.split_first().ok_or(Broken::Ends)?;
                *input = rest;
                length += usize::from(*byte);
                if *byte != 255 {
                    break;
                }
            }
        }
        Ok(length)
    }
    let mut out: Vec<u8> = Vec::new();
    while let Some((token, rest)) = input.split_first() {
        input = rest;
        let literals = length(&mut input, token >> 4)?;
        let (copied, rest) = input.split_at_checked(literals).ok_or(Broken::Ends)?;
        out.extend_from_slice(copied);
        input = rest;
        let [low, high, rest @ ..] = input else { break };
        input = rest;
        let distance = usize::from(u16::from_le_bytes([*low, *high]));
        let count = length(&mut input, token & 15)? + 4;
        let start = out.len().checked_sub(distance).filter(|_| distance > 0).ok_or(Broken::Distance(distance))?;
        if out.len() + count > 4096 {
            return Err(Broken::TooLong);
        }
        for at in start..start + count {
            out.push(out[at]);
        }
    }
    Ok(out)
}

/// Makes blocks of that kind.
fn packed(bytes: &[u8]) -> Vec<u8> {
    fn put(out: &mut Vec<u8>, mut more: usize) {
        while more >= 255 {
            out.push(255);
            more -= 255;
        }
        out.push(more as u8);
    }
    let mut seen = [usize::MAX; 64];
    let (mut out, mut at, mut from) = (Vec::new(), 0, 0);
    while at + 4 <= bytes.len() {
        let word = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let slot = &mut seen[(word.wrapping_mul(2654435761) >> 26) as usize];
        let before = core::mem::replace(slot, at);
        let same = bytes.get(before..).map_or(0, |b| b.iter().zip(&bytes[at..]).take_while(|(a, b)| a == b).count());
        if same < 4 {
            at += 1;
            continue;
        }
        let literals = at - from;
        out.push((literals.min(15) << 4 | (same - 4).min(15)) as u8);
        if literals >= 15 {
            put(&mut out, literals - 15);
        }
        out.extend(&bytes[from..at]);
        out.extend(((at - before) as u16).to_le_bytes());
        if same - 4 >= 15 {
            put(&mut out, same - 19);
        }
        at += same;
        from = at;
    }
    let literals = bytes.len() - from;
    out.push((literals.min(15) << 4) as u8);
    if literals >= 15 {
        put(&mut out, literals - 15);
    }
    out.extend(&bytes[from..]);
    out
}

/// Reads bits from the front.
struct Bits<'a, I: Iterator<Item = &'a u8>> {
    bytes: I,
    held: u32,
    count: u32,
}

impl<'a, I: Iterator<Item = &'a u8>> Bits<'a, I> {
    fn bits(&mut self, wanted: u32) -> Option<u32> {
        while self.count < wanted {
            self.held |= u32::from(*self.bytes.next()?) << self.count;
            self.count += 8;
        }
        let value = self.held & ((1 << wanted) - 1);
        self.held >>= wanted;
        self.count -= wanted;
        Some(value)
    }
}

/// Codes from their lengths, as deflate has them.
struct Canonical {
    counts: [u16; 16],
    symbols: Vec<u16>,
}

impl Canonical {
    fn new(lengths: &[u8]) -> Canonical {
        let mut counts = [0; 16];
        lengths.iter().for_each(|l| counts[usize::from(*l)] += 1);
        counts[0] = 0;
        let mut symbols: Vec<u16> = (0..lengths.len() as u16).filter(|s| lengths[usize::from(*s)] > 0).collect();
        symbols.sort_by_key(|s| (lengths[usize::from(*s)], *s));
        Canonical { counts, symbols }
    }

    fn symbol<'a, I: Iterator<Item = &'a u8>>(&self, bits: &mut Bits<'a, I>) -> Option<u16> {
        let (mut code, mut first, mut index) = (0i32, 0i32, 0i32);
        for length in 1..16 {
            code |= bits.bits(1)? as i32;
            let count = i32::from(self.counts[length]);
            if code - count < first {
                return self.symbols.get((index + code - first) as usize).copied();
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        None
    }
}

fn inflated(bytes: &[u8]) -> u64 {
    let (head, body) = bytes.split_at(bytes.len().min(24));
    let lengths: Vec<u8> = head.iter().map(|b| b % 7 + 1).collect();
    let code = Canonical::new(&lengths);
    let mut bits = Bits { bytes: body.iter(), held: 0, count: 0 };
    let mut out: Vec<u8> = Vec::new();
    while let Some(symbol) = code.symbol(&mut bits) {
        match symbol {
            20.. if !out.is_empty() => {
                let back = bits.bits(3).unwrap_or(0) as usize % out.len() + 1;
                let start = out.len() - back;
                out.extend_from_within(start..start + back.min(5));
            }
            literal => out.push(literal as u8),
        }
    }
    hashed(&out)
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |all, (i, b)| all | u32::from(*b) << (16 - 8 * i));
        for i in 0..4 {
            match i <= chunk.len() {
                true => out.push(char::from(LETTERS[(word >> (18 - 6 * i) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    out
}

fn from_base64(text: &str) -> Result<Vec<u8>, (usize, char)> {
    let mut out = Vec::new();
    let (mut held, mut bits) = (0u32, 0);
    for (at, c) in text.char_indices().filter(|(_, c)| *c != '=') {
        let value = match c {
            'A'..='Z' => c as u32 - 'A' as u32,
            'a'..='z' => c as u32 - 'a' as u32 + 26,
            '0'..='9' => c as u32 - '0' as u32 + 52,
            '+' | '-' => 62,
            '/' | '_' => 63,
            _ => return Err((at, c)),
        };
        held = held << 6 | value;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    Ok(out)
}

/// SipHash-2-4 behind the standard trait.
struct Sip {
    v: [u64; 4],
    tail: [u8; 8],
    length: usize,
}

impl Sip {
    fn new(a: u64, b: u64) -> Sip {
        let v = [a ^ 0x736f6d6570736575, b ^ 0x646f72616e646f6d, a ^ 0x6c7967656e657261, b ^ 0x7465646279746573];
        Sip { v, tail: [0; 8], length: 0 }
    }

    fn rounds(v: &mut [u64; 4], count: usize) {
        for _ in 0..count {
            v[0] = v[0].wrapping_add(v[1]);
            v[2] = v[2].wrapping_add(v[3]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].rotate_left(32).wrapping_add(v[3]);
            v[2] = v[2].wrapping_add(v[1]);
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[2] = v[2].rotate_left(32);
        }
    }

    fn word(v: &mut [u64; 4], word: u64) {
        v[3] ^= word;
        Sip::rounds(v, 2);
        v[0] ^= word;
    }
}

impl Hasher for Sip {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.tail[self.length % 8] = *byte;
            self.length += 1;
            if self.length.is_multiple_of(8) {
                Sip::word(&mut self.v, u64::from_le_bytes(self.tail));
                self.tail = [0; 8];
            }
        }
    }

    // As wide on the host as in the kernel.
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        let mut v = self.v;
        Sip::word(&mut v, u64::from_le_bytes(self.tail) | (self.length as u64) << 56);
        v[2] ^= 0xff;
        Sip::rounds(&mut v, 4);
        v.iter().fold(0, |all, v| all ^ v)
    }
}

#[derive(Hash, Clone, Copy)]
enum Address {
    V4([u8; 4]),
    V6([u16; 8]),
    Named(u32, bool),
}

#[derive(Hash)]
struct Flow {
    from: Address,
    to: Address,
    ports: (u16, u16),
    tag: Option<u8>,
}

fn address(bytes: &[u8]) -> Address {
    let word = |i: usize| u16::from(bytes.get(i).copied().unwrap_or(0));
    match word(0) % 3 {
        0 => Address::V4([1, 2, 3, 4].map(|i| word(i) as u8)),
        1 => Address::V6(core::array::from_fn(|i| word(i) << 8 | word(i + 1))),
        _ => Address::Named(u32::from(word(1)) * 77, word(2) > 100),
    }
}

fn flow_hash(bytes: &[u8]) -> u64 {
    let mut sip = Sip::new(0x0706050403020100, 0x0f0e0d0c0b0a0908);
    for part in bytes.chunks(24).take(8) {
        let (from, to) = part.split_at(part.len() / 2);
        let flow = Flow {
            from: address(from),
            to: address(to),
            ports: (u16::from(part[0]), part.len() as u16),
            tag: part.get(7).copied().filter(|t| t % 2 == 0),
        };
        flow.hash(&mut sip);
    }
    sip.finish()
}

/// Text of numbers that refer to what was seen before.
fn lzw(bytes: &[u8]) -> Vec<u16> {
    use alloc::collections::BTreeMap;
    let mut known: BTreeMap<Vec<u8>, u16> = (0..=255).map(|b: u8| (alloc::vec![b], u16::from(b))).collect();
    let mut out = Vec::new();
    let mut current: Vec<u8> = Vec::new();
    for byte in bytes.iter().take(64) {
        let mut longer = current.clone();
        longer.push(*byte);
        if known.contains_key(&longer) {
            current = longer;
        } else {
            out.push(known[&current]);
            let next = known.len() as u16;
            known.insert(longer, next);
            current = alloc::vec![*byte];
        }
    }
    out.extend(known.get(&current));
    out
}

/// ChaCha20.
fn chacha(key: &[u8; 32], counter: u32, nonce: [u8; 12], data: &mut [u8]) {
    let word = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let mut state = [0u32; 16];
    state[..4].copy_from_slice(&[0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]);
    for (s, k) in state[4..12].iter_mut().zip(key.chunks(4)) {
        *s = word(k);
    }
    for (s, n) in state[13..].iter_mut().zip(nonce.chunks(4)) {
        *s = word(n);
    }
    let quarter = |s: &mut [u32; 16], [a, b, c, d]: [usize; 4]| {
        for (i, (x, y, z, turn)) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)].into_iter().enumerate() {
            let _ = i;
            s[x] = s[x].wrapping_add(s[y]);
            s[z] = (s[z] ^ s[x]).rotate_left(turn);
        }
    };
    for (n, block) in data.chunks_mut(64).enumerate() {
        state[12] = counter.wrapping_add(n as u32);
        let mut mixed = state;
        for _ in 0..10 {
            for i in 0..4 {
                quarter(&mut mixed, [i, 4 + i, 8 + i, 12 + i]);
            }
            for i in 0..4 {
                quarter(&mut mixed, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
            }
        }
        let stream = mixed.iter().zip(&state).flat_map(|(m, s)| m.wrapping_add(*s).to_le_bytes());
        block.iter_mut().zip(stream).for_each(|(b, s)| *b ^= s);
    }
}

/// Reed and Solomon's code over bytes: appends `N` bytes of parity.
struct Field {
    log: [u8; 256],
    exp: [u8; 512],
}

impl Field {
    fn new() -> Field {
        let mut field = Field { log: [0; 256], exp: [0; 512] };
        let mut x = 1u16;
        for i in 0..255 {
            field.exp[i] = x as u8;
            field.exp[i + 255] = x as u8;
            field.log[usize::from(x)] = i as u8;
            x <<= 1;
            if x & 0x100 != 0 {
                x ^= 0x11d;
            }
        }
        field
    }

    fn times(&self, a: u8, b: u8) -> u8 {
        if a == 0 || b == 0 {
            return 0;
        }
        self.exp[usize::from(self.log[usize::from(a)]) + usize::from(self.log[usize::from(b)])]
    }

    fn generator<const N: usize>(&self) -> Vec<u8> {
        let mut g = alloc::vec![1u8];
        for i in 0..N {
            let mut next = alloc::vec![0; g.len() + 1];
            for (j, c) in g.iter().enumerate() {
                next[j] ^= *c;
                next[j + 1] ^= self.times(*c, self.exp[i]);
            }
            g = next;
        }
        g
    }

    fn parity<const N: usize>(&self, message: &[u8]) -> [u8; N] {
        let generator = self.generator::<N>();
        let mut rest = [0u8; N];
        for byte in message {
            let factor = byte ^ rest[0];
            rest.rotate_left(1);
            rest[N - 1] = 0;
            for (r, g) in rest.iter_mut().zip(&generator[1..]) {
                *r ^= self.times(*g, factor);
            }
        }
        rest
    }
}

programs! {
    fn lz4_block(bytes) {
        let there = packed(bytes);
        match (unpacked(&there), unpacked(bytes)) {
            (Ok(back), other) if back == bytes => match other {
                Ok(out) => hashed(&out) ^ there.len() as u64,
                Err(Broken::Ends) => 1,
                Err(Broken::Distance(d)) => 2 + d as u64,
                Err(Broken::TooLong) => 3,
            },
            (Ok(back), _) => back.len() as u64,
            (Err(_), _) => 0,
        }
    }

    fn deflate_codes(bytes) { inflated(bytes) }

    fn base64_both_ways(bytes) {
        let text = to_base64(bytes);
        let back = from_base64(&text);
        let own = core::str::from_utf8(bytes).map_or(Err((0, ' ')), |t| from_base64(t.trim()));
        let own = match own { Ok(out) => hashed(&out), Err((at, c)) => (at as u64) << 32 | u64::from(c) };
        hashed(text.as_bytes()) ^ own ^ u64::from(back.is_ok_and(|b| b == bytes))
    }

    fn siphash_of_structures(bytes) { flow_hash(bytes) }

    fn lzw_codes(bytes) { lzw(bytes).iter().fold(7, |all, c| all.wrapping_mul(4099) ^ u64::from(*c)) }

    fn chacha20(bytes) {
        let mut key = [0x5a; 32];
        key.iter_mut().zip(bytes).for_each(|(k, b)| *k ^= b);
        let mut data = bytes.to_vec();
        chacha(&key, 1, [7; 12], &mut data);
        hashed(&data)
    }

    fn reed_solomon(bytes) {
        let field = Field::new();
        u64::from_be_bytes(field.parity::<8>(bytes)) ^ u64::from(field.parity::<3>(bytes)[1]) << 11
    }
}
