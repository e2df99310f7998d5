//! Programs that once were refused, or built to something that was: numbers compared in several places, wide
//! numbers, functions with more values at a time than a frame has room for.

// As they were written.
#![allow(clippy::needless_range_loop, clippy::precedence)]

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

fn mix(h: u64, v: u64) -> u64 {
    (h ^ v).wrapping_mul(0x100000001b3).rotate_left(7)
}

fn text_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf29ce484222325, |h, b| mix(h, b as u64))
}

#[derive(Clone, Copy)]
struct Matrix<const N: usize>([[i128; N]; N]);
impl<const N: usize> Matrix<N> {
    fn determinant(&self) -> i128 {
        let mut m = self.0;
        let mut sign = 1;
        let mut previous = 1i128;
        for k in 0..N - 1 {
            if m[k][k] == 0 {
                match (k + 1..N).find(|&i| m[i][k] != 0) {
                    Some(i) => {
                        m.swap(i, k);
                        sign = -sign;
                    }
                    None => return 0,
                }
            }
            for i in k + 1..N {
                for j in k + 1..N {
                    m[i][j] = (m[i][j] * m[k][k] - m[i][k] * m[k][j]) / previous;
                }
            }
            previous = m[k][k];
        }
        sign * m[N - 1][N - 1]
    }
}
impl<const N: usize> core::ops::Mul for Matrix<N> {
    type Output = Self;
    fn mul(self, o: Self) -> Self {
        let mut r = [[0; N]; N];
        for i in 0..N {
            for j in 0..N {
                r[i][j] = (0..N).map(|k| self.0[i][k] * o.0[k][j] % 1000007).sum();
            }
        }
        Matrix(r)
    }
}

const fn xtime(x: u8) -> u8 {
    (x << 1) ^ (if x & 0x80 != 0 { 0x1b } else { 0 })
}
const fn gmul(mut a: u8, mut b: u8) -> u8 {
    let mut p = 0;
    while b != 0 {
        if b & 1 == 1 {
            p ^= a;
        }
        a = xtime(a);
        b >>= 1;
    }
    p
}
static SBOX: [u8; 256] = {
    let mut t = [0u8; 256];
    let mut i = 0usize;
    while i < 256 {
        let mut inv = 0u8;
        if i != 0 {
            let mut j = 1usize;
            while j < 256 {
                if gmul(i as u8, j as u8) == 1 {
                    inv = j as u8;
                    break;
                }
                j += 1;
            }
        }
        t[i] = inv ^ inv.rotate_left(1) ^ inv.rotate_left(2) ^ inv.rotate_left(3) ^ inv.rotate_left(4) ^ 0x63;
        i += 1;
    }
    t
};
struct Aes {
    keys: [[u8; 16]; 11],
}
impl Aes {
    fn new(key: [u8; 16]) -> Aes {
        let mut keys = [[0; 16]; 11];
        keys[0] = key;
        let mut rcon = 1;
        for r in 1..11 {
            let p = keys[r - 1];
            let mut t = [SBOX[p[13] as usize] ^ rcon, SBOX[p[14] as usize], SBOX[p[15] as usize], SBOX[p[12] as usize]];
            for w in 0..4 {
                for i in 0..4 {
                    t[i] ^= p[w * 4 + i];
                    keys[r][w * 4 + i] = t[i];
                }
            }
            rcon = xtime(rcon);
        }
        Aes { keys }
    }
    fn encrypt(&self, block: &mut [u8; 16]) {
        for (b, k) in block.iter_mut().zip(&self.keys[0]) {
            *b ^= k;
        }
        for r in 1..11 {
            let s: [u8; 16] = core::array::from_fn(|i| SBOX[block[(i + 4 * (i % 4)) % 16] as usize]);
            for c in 0..4 {
                for i in 0..4 {
                    let at = |k: usize| s[c * 4 + (i + k) % 4];
                    let v = if r == 10 { at(0) } else { xtime(at(0)) ^ xtime(at(1)) ^ at(1) ^ at(2) ^ at(3) };
                    block[c * 4 + i] = v ^ self.keys[r][c * 4 + i];
                }
            }
        }
    }
}
programs! {
    fn cow_text(b) {
        fn clean(t: &str) -> Cow<'_, str> { if t.contains(|c: char| c.is_whitespace() || c.is_control()) { Cow::Owned(t.chars().filter(|c| !c.is_control()).map(|c| if c.is_whitespace() { '_' } else { c }).collect()) } else { Cow::Borrowed(t) } }
        let text = String::from_utf8_lossy(b);
        let parts: Vec<Cow<str>> = text.split(['0', 'a', '{']).map(clean).collect();
        let upper = parts.iter().map(|p| p.to_uppercase()).collect::<Vec<_>>().join("-");
        text_hash(&upper) ^ text_hash(&upper.to_lowercase()) ^ upper.trim_start_matches('-').chars().rev().take(20).map(u64::from).sum::<u64>()
    }

    fn interval_merge(b) {
        let mut v: Vec<(u16, u16)> = b.chunks_exact(3).map(|c| { let s = u16::from_be_bytes([c[0], c[1]]); (s, s.saturating_add(c[2] as u16 * 16)) }).collect();
        v.sort_unstable_by_key(|i| (i.0, Reverse(i.1)));
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(v.len());
        for (s, e) in v { match merged.last_mut() { Some(l) if l.1 >= s => l.1 = l.1.max(e), _ => merged.push((s, e)) } }
        let covered = |x: u16| match merged.binary_search_by(|i| if i.1 < x { core::cmp::Ordering::Less } else if i.0 > x { core::cmp::Ordering::Greater } else { core::cmp::Ordering::Equal }) { Ok(i) => i as u64 + 1, Err(i) => 1000 + i as u64 };
        (0..20).map(|i| covered(i * 3000)).fold(merged.len() as u64, mix)
    }

    fn determinant(b) {
        let mut it = b.iter().cycle();
        let m = Matrix::<5>(core::array::from_fn(|_| core::array::from_fn(|_| *it.next().unwrap_or(&1) as i128 - 100)));
        let p = m * m;
        (m.determinant() as u64) ^ (p.determinant() >> 3) as u64 ^ text_hash(&format!("{}", m.determinant()))
    }

    fn wide_division(b) {
        let mut h = 0u128;
        for c in b.chunks_exact(32).take(4) {
            let x = u128::from_be_bytes(c[..16].try_into().unwrap()); let y = u128::from_le_bytes(c[16..].try_into().unwrap()) >> (c[0] % 100) | 1;
            h ^= x / y; h = h.rotate_left(31).wrapping_add(x % y);
            h ^= ((x as i128).wrapping_div(y as i128)) as u128; h ^= ((x as i128).wrapping_rem(y as i128)) as u128;
            h = h.wrapping_add(x.checked_mul(y).unwrap_or(7)).wrapping_add((x as i128).checked_mul(y as i128).unwrap_or(9) as u128).wrapping_add(x.leading_zeros() as u128).wrapping_add(y.isqrt());
            if let Some(p) = x.checked_add(y) { h ^= p >> (c[1] % 128); h ^= ((p as i128) >> (c[2] % 128)) as u128; h ^= p << (c[3] % 128); }
        }
        (h >> 64) as u64 ^ h as u64
    }

    fn poly1305(b) {
        let r = 0x0806d5400e52447c036d555408bed685u128 & 0x0ffffffc0ffffffc0ffffffc0fffffff;
        let r: [u64; 5] = core::array::from_fn(|i| ((r >> (26 * i)) & 0x3ffffff) as u64);
        let mut h = [0u64; 5];
        for chunk in b.chunks(16) {
            let mut block = [0u8; 17]; block[..chunk.len()].copy_from_slice(chunk); block[chunk.len()] = 1;
            let low = u128::from_le_bytes(block[..16].try_into().unwrap());
            for i in 0..5 { let part = if i < 4 { ((low >> (26 * i)) & 0x3ffffff) as u64 } else { (low >> 104) as u64 | (block[16] as u64) << 24 }; h[i] += part; }
            let mut d = [0u128; 5];
            for i in 0..5 { for j in 0..5 { let m = if i + j >= 5 { 5 } else { 1 }; d[(i + j) % 5] += h[i] as u128 * (r[j] * m) as u128; } }
            let mut carry = 0u128; for i in 0..5 { d[i] += carry; h[i] = (d[i] & 0x3ffffff) as u64; carry = d[i] >> 26; } h[0] += carry as u64 * 5; h[1] += h[0] >> 26; h[0] &= 0x3ffffff;
        }
        h.iter().enumerate().fold(0u128, |a, (i, x)| a.wrapping_add((*x as u128) << (26 * i))).wrapping_add(0x1bf54941aff6bf4afdb20dfb8a800301) as u64
    }

    fn aes128(b) { let aes = Aes::new(*b"0123456789abcdef"); let mut last = [0u8; 16]; for c in b.chunks_exact(16) { for (l, x) in last.iter_mut().zip(c) { *l ^= x; } aes.encrypt(&mut last); } u64::from_be_bytes(*last.first_chunk().expect("sixteen")) }

    fn entropy(b) { let log2 = |x: u64| -> u64 { let n = 63 - x.leading_zeros() as u64; let mut r = n << 16; let mut y = (x << (63 - n)) as u128; for i in (0..16).rev() { y = y * y >> 63; if y >> 64 != 0 { y >>= 1; r |= 1 << i; } } r }; let mut counts = [0u64; 256]; for x in b { counts[*x as usize] += 1; } let n = b.len() as u64; counts.iter().filter(|c| **c > 0).map(|c| c * (log2(n) - log2(*c))).sum::<u64>() / n }
}
