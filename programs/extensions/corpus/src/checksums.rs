//! Checksums and hashes.

use alloc::vec::Vec;

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut value, mut bit) = (i as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
};

const SHA_ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
];

fn sha_block(block: &[u8; 64]) -> u64 {
    let mut w = [0u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for i in 16..64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ w[i - 15] >> 3;
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let start = [0x6a09e667u32, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
    let mut v = start;
    for i in 0..64 {
        let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
        let ch = v[4] & v[5] ^ !v[4] & v[6];
        let t1 = v[7].wrapping_add(s1).wrapping_add(ch).wrapping_add(SHA_ROUNDS[i]).wrapping_add(w[i]);
        let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
        let t2 = s0.wrapping_add(v[0] & v[1] ^ v[0] & v[2] ^ v[1] & v[2]);
        v = [t1.wrapping_add(t2), v[0], v[1], v[2], v[3].wrapping_add(t1), v[4], v[5], v[6]];
    }
    (start[0].wrapping_add(v[0]) as u64) << 32 | start[1].wrapping_add(v[1]) as u64
}

programs! {
    fn internet_checksum(bytes) {
        let mut sum: u32 = bytes.chunks(2).map(|p| (p[0] as u32) << 8 | *p.get(1).unwrap_or(&0) as u32).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16) as u64
    }

    fn crc32_bitwise(bytes) {
        let mut crc = !0u32;
        for byte in bytes {
            crc ^= *byte as u32;
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            }
        }
        !crc as u64
    }

    fn crc32_table(bytes) {
        !bytes.iter().fold(!0u32, |crc, b| CRC_TABLE[((crc ^ *b as u32) & 255) as usize] ^ crc >> 8) as u64
    }

    fn adler32(bytes) {
        let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
            let a = (a + *byte as u32) % 65521;
            (a, (b + a) % 65521)
        });
        (b as u64) << 16 | a as u64
    }

    fn fletcher16(bytes) {
        let (mut a, mut b) = (0u16, 0u16);
        for byte in bytes {
            a = (a + *byte as u16) % 255;
            b = (b + a) % 255;
        }
        (b as u64) << 8 | a as u64
    }

    fn fnv1a(bytes) {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ *b as u64).wrapping_mul(0x100_0000_01b3))
    }

    fn murmur_mix(bytes) {
        let mut hash = 0x1234_5678u32;
        for chunk in bytes.chunks_exact(4) {
            let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]).wrapping_mul(0xcc9e_2d51);
            k = k.rotate_left(15).wrapping_mul(0x1b87_3593);
            hash = (hash ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
        }
        hash ^= hash >> 16;
        hash = hash.wrapping_mul(0x85eb_ca6b);
        (hash ^ hash >> 13) as u64
    }

    fn siphash(bytes) {
        let mut v = [0x736f_6d65_7073_6575u64, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];
        let round = |v: &mut [u64; 4]| {
            v[0] = v[0].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[0] = v[0].rotate_left(32);
            v[2] = v[2].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].wrapping_add(v[3]);
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[2] = v[2].wrapping_add(v[1]);
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[2] = v[2].rotate_left(32);
        };
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let m = u64::from_le_bytes(word);
            v[3] ^= m;
            round(&mut v);
            v[0] ^= m;
        }
        v[2] ^= 0xff;
        (0..3).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }

    fn jenkins(bytes) {
        let mut hash = bytes.iter().fold(0u32, |h, b| {
            let h = h.wrapping_add(*b as u32);
            let h = h.wrapping_add(h << 10);
            h ^ h >> 6
        });
        hash = hash.wrapping_add(hash << 3);
        hash ^= hash >> 11;
        hash.wrapping_add(hash << 15) as u64
    }

    fn xxhash32(bytes) {
        const P: [u32; 3] = [2_654_435_761, 2_246_822_519, 3_266_489_917];
        let mut lanes = [P[0].wrapping_add(P[1]), P[1], 0, 0u32.wrapping_sub(P[0])];
        for stripe in bytes.chunks_exact(16) {
            for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                let value = u32::from_le_bytes(word.try_into().expect("four bytes"));
                *lane = lane.wrapping_add(value.wrapping_mul(P[1])).rotate_left(13).wrapping_mul(P[0]);
            }
        }
        let joined = lanes.iter().zip([1, 7, 12, 18]).fold(0u32, |h, (l, r)| h.wrapping_add(l.rotate_left(r)));
        (joined ^ joined >> 15).wrapping_mul(P[2]) as u64
    }

    fn luhn(bytes) {
        let digits: Vec<u8> = bytes.iter().map(|b| b % 10).collect();
        let sum: u64 = digits.iter().rev().enumerate().map(|(i, d)| match (i % 2, *d) {
            (1, d) if d > 4 => 2 * d as u64 - 9,
            (1, d) => 2 * d as u64,
            (_, d) => d as u64,
        }).sum();
        sum % 10
    }

    fn parity(bytes) {
        bytes.iter().map(|b| b.count_ones() as u64).sum::<u64>() << 32
            | bytes.iter().map(|b| b.leading_zeros() as u64 + b.trailing_zeros() as u64).sum::<u64>()
    }

    fn sha256_block(bytes) {
        let mut block = [0; 64];
        let length = bytes.len().min(64);
        block[..length].copy_from_slice(&bytes[..length]);
        sha_block(&block)
    }

    fn md5_like(bytes) {
        let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
        for (i, byte) in bytes.iter().enumerate() {
            let f = match i / 16 % 4 {
                0 => state[1] & state[2] | !state[1] & state[3],
                1 => state[3] & state[1] | !state[3] & state[2],
                2 => state[1] ^ state[2] ^ state[3],
                _ => state[2] ^ (state[1] | !state[3]),
            };
            let next = state[0].wrapping_add(f).wrapping_add(*byte as u32).rotate_left(7 + i as u32 % 5);
            state = [state[3], state[1].wrapping_add(next), state[1], state[2]];
        }
        (state[0] as u64) << 32 | (state[1] ^ state[2] ^ state[3]) as u64
    }
}
