//! State machines, codecs, algorithms, state that outlives a run, and changes of packets.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use karakoram_extension::{Counter, Ethernet, Ipv4, Mutex, PerCpu, Shared, Xdp, XdpVerdict, xdp};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[derive(Clone, Copy, PartialEq)]
enum State {
    Closed,
    Listen,
    SynReceived,
    Established,
    FinWait,
    Closing,
}

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => true,
        ([b'*', rest @ ..], _) => matches(rest, text) || (!text.is_empty() && matches(pattern, &text[1..])),
        ([b'?', rest @ ..], [_, more @ ..]) => matches(rest, more),
        ([p, rest @ ..], [t, more @ ..]) if p % 4 == t % 4 => matches(rest, more),
        _ => false,
    }
}

#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn eight(a: u64, b: u32, c: u64, d: u8, e: u64, f: u16, g: u64, h: u32) -> u64 {
    let mixed = a.wrapping_mul(3) ^ (b as u64) << 7 ^ c.rotate_left(9) ^ (d as u64) << 50;
    if mixed % 7 == 3 && g > 2 {
        return eight(c, h, e, f as u8, g - 1, b as u16, g / 2, b);
    }
    mixed.wrapping_add(e).wrapping_sub(f as u64).wrapping_mul(g | 1).wrapping_add(h as u64)
}

trait Codec {
    const STEP: usize;
    fn code(values: &[u8]) -> u64;
}

struct Pairs;
struct Triples;

impl Codec for Pairs {
    const STEP: usize = 2;
    fn code(values: &[u8]) -> u64 {
        values.iter().fold(0, |n, v| n * 251 + *v as u64)
    }
}

impl Codec for Triples {
    const STEP: usize = 3;
    fn code(values: &[u8]) -> u64 {
        values.iter().rev().fold(1, |n, v| (n * 13) ^ *v as u64)
    }
}

fn coded<C: Codec>(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(C::STEP).map(C::code).fold(0, |a, b| a.rotate_left(5) ^ b)
}

programs! {
    fn token_bucket(bytes) {
        let (mut tokens, mut last, mut passed) = (100i64, 0u64, 0u64);
        for (i, pair) in bytes.chunks_exact(2).enumerate() {
            let now = i as u64 * 10 + pair[0] as u64 % 10;
            tokens = (tokens + (now.saturating_sub(last)) as i64 * 3).min(200);
            last = now;
            if tokens >= pair[1] as i64 {
                tokens -= pair[1] as i64;
                passed += 1;
            }
        }
        passed << 32 | tokens as u32 as u64
    }

    fn state_machine_tcp(bytes) {
        let mut state = State::Closed;
        let mut trace = 0u64;
        for flags in bytes {
            state = match (state, flags & 7) {
                (State::Closed, 0..=3) => State::Listen,
                (State::Listen, 2) => State::SynReceived,
                (State::SynReceived, 4 | 5) => State::Established,
                (State::Established, 1) => State::FinWait,
                (State::FinWait, 6) => State::Closing,
                (State::Closing, _) => State::Closed,
                (_, 7) => State::Closed,
                (same, _) => same,
            };
            trace = trace.wrapping_mul(7) + state as u64;
        }
        trace
    }

    fn bracket_match(bytes) {
        let mut open = Vec::new();
        for (i, byte) in bytes.iter().enumerate() {
            match byte % 6 {
                kind @ 0..3 => open.push(kind),
                kind => {
                    if open.pop() != Some(kind - 3) {
                        return i as u64;
                    }
                }
            }
        }
        1000 + open.len() as u64
    }

    fn run_length(bytes) {
        let mut runs: Vec<(u8, u8)> = Vec::new();
        for byte in bytes.iter().map(|b| b / 64) {
            match runs.last_mut() {
                Some((value, count)) if *value == byte => *count += 1,
                _ => runs.push((byte, 1)),
            }
        }
        runs.iter().fold(runs.len() as u64, |h, (v, n)| h.wrapping_mul(67) + *v as u64 * 16 + *n as u64)
    }

    fn base64(bytes) {
        let mut out = Vec::new();
        for chunk in bytes.chunks(3) {
            let word = chunk.iter().fold(0u32, |w, b| w << 8 | *b as u32) << (8 * (3 - chunk.len()));
            for i in 0..4 {
                out.push(if i > chunk.len() { b'=' } else { ALPHABET[(word >> (18 - 6 * i) & 63) as usize] });
            }
        }
        out.iter().fold(0u64, |h, b| h.wrapping_mul(131) + *b as u64)
    }

    fn huffman_lengths(bytes) {
        let mut counts: BTreeMap<u8, u32> = BTreeMap::new();
        bytes.iter().for_each(|b| *counts.entry(b / 16).or_default() += 1);
        let mut nodes: Vec<(u32, u32)> = counts.values().map(|n| (*n, 0)).collect();
        let mut total = 0;
        while nodes.len() > 1 {
            nodes.sort_by(|a, b| b.cmp(a));
            let (a, b) = (nodes.pop().unwrap_or_default(), nodes.pop().unwrap_or_default());
            total += (a.0 + b.0) as u64;
            nodes.push((a.0 + b.0, a.1.max(b.1) + 1));
        }
        total << 8 | nodes.first().map_or(0, |n| n.1 as u64)
    }

    fn lz_match(bytes) {
        let (mut at, mut out) = (0, 0u64);
        while at < bytes.len().min(96) {
            let best = (at.saturating_sub(16)..at)
                .map(|from| bytes[at..].iter().zip(&bytes[from..]).take(8).take_while(|(a, b)| **a / 64 == **b / 64).count())
                .max()
                .unwrap_or(0);
            out = out.wrapping_mul(19) + best as u64;
            at += best.max(1);
        }
        out
    }

    fn regex_like(bytes) { (0..bytes.len().min(24)).filter(|i| matches(b"a*b?c", &bytes[*i..bytes.len().min(i + 12)])).count() as u64 }

    fn longest_prefix(bytes) {
        const ROUTES: [(u32, u8, u16); 6] = [
            (0, 0, 1), (0x0a00_0000, 8, 2), (0x0a01_0000, 16, 3), (0x0a01_0200, 24, 4), (0xc0a8_0000, 16, 5), (0x8000_0000, 1, 6),
        ];
        let lookup = |address: u32| {
            let fits = |(net, bits, _): &&(u32, u8, u16)| *bits == 0 || address >> (32 - bits) == net >> (32 - bits);
            ROUTES.iter().filter(fits).max_by_key(|r| r.1).map_or(0, |r| r.2 as u64)
        };
        bytes.chunks_exact(4).map(|c| lookup(u32::from_be_bytes([c[0], c[1], c[2], c[3]]))).fold(0, |h, r| h * 7 % 1_000_003 + r)
    }

    fn aho_like(bytes) {
        const WORDS: [&[u8]; 4] = [b"attack", b"root", b"/etc", b"\x00\x01"];
        WORDS.iter().map(|word| bytes.windows(word.len()).filter(|w| w == word).count() as u64).fold(0, |h, n| h * 256 + n)
    }

    fn moving_average(bytes) {
        let mut window = [0u8; 8];
        let mut most = 0;
        for (i, byte) in bytes.iter().enumerate() {
            window[i % 8] = *byte;
            most = most.max(window.iter().map(|b| *b as u64).sum::<u64>() / 8);
        }
        most
    }

    fn bloom(bytes) {
        let mut bits = [0u8; 32];
        let places = |b: u8| [b as usize, b as usize * 31 % 256, (b as usize * 57 % 256) ^ 5];
        let (known, asked) = bytes.split_at(bytes.len() / 3);
        known.iter().flat_map(|b| places(*b)).for_each(|p| bits[p / 8] |= 1 << (p % 8));
        asked.iter().filter(|b| places(**b).iter().all(|p| bits[p / 8] >> (p % 8) & 1 == 1)).count() as u64
    }

    fn count_min(bytes) {
        let mut rows = [[0u16; 16]; 3];
        for byte in bytes {
            rows.iter_mut().zip([7u8, 31, 113]).for_each(|(row, m)| row[(byte.wrapping_mul(m) >> 4) as usize] += 1);
        }
        let estimate = |b: u8| rows.iter().zip([7u8, 31, 113]).map(|(r, m)| r[(b.wrapping_mul(m) >> 4) as usize]).min().unwrap_or(0);
        (0..=255).map(|b| estimate(b) as u64 * b as u64).sum()
    }

    fn sliding_window(bytes) {
        let (mut start, mut sum, mut best) = (0, 0u32, 0);
        for (end, byte) in bytes.iter().enumerate() {
            sum += *byte as u32;
            while sum > 700 {
                sum -= bytes[start] as u32;
                start += 1;
            }
            best = best.max(end + 1 - start);
        }
        best as u64
    }

    fn lfsr(bytes) {
        let mut state = bytes.iter().fold(1u16, |s, b| s.rotate_left(3) ^ *b as u16) | 1;
        let start = state;
        for period in 1..2000u64 {
            let bit = (state ^ state >> 2 ^ state >> 3 ^ state >> 5) & 1;
            state = state >> 1 | bit << 15;
            if state == start {
                return period;
            }
        }
        state as u64
    }

    fn brainfuck(bytes) {
        let (mut tape, mut head, mut at, mut steps) = ([0u8; 16], 0usize, 0usize, 0u64);
        while at < bytes.len() && steps < 500 {
            match bytes[at] % 8 {
                0 => head = (head + 1) % 16,
                1 => head = (head + 15) % 16,
                2 | 3 => tape[head] = tape[head].wrapping_add(1),
                4 => tape[head] = tape[head].wrapping_sub(1),
                5 if tape[head] == 0 => at += bytes[at..].iter().position(|b| b % 8 == 6).unwrap_or(0),
                6 if tape[head] != 0 => at = bytes[..at].iter().rposition(|b| b % 8 == 5).unwrap_or(at),
                _ => {}
            }
            at += 1;
            steps += 1;
        }
        tape.iter().fold(steps, |h, b| h.wrapping_mul(31) + *b as u64)
    }

    fn stack_machine(bytes) {
        let mut stack: Vec<i64> = Vec::new();
        for byte in bytes {
            let value = match byte % 7 {
                0..3 => *byte as i64,
                operation => {
                    let (Some(b), Some(a)) = (stack.pop(), stack.pop()) else { continue };
                    match operation {
                        3 => a.wrapping_add(b),
                        4 => a.wrapping_sub(b),
                        5 => a.wrapping_mul(b),
                        _ => a.checked_div(b).unwrap_or(-1) ^ a.checked_rem(b).unwrap_or(-2),
                    }
                }
            };
            stack.push(value);
        }
        stack.iter().fold(stack.len() as u64, |h, v| h.wrapping_mul(31).wrapping_add(*v as u64))
    }

    fn closures(bytes) {
        let offset = bytes.first().copied().unwrap_or(0) as u64;
        let steps: [Box<dyn Fn(u64) -> u64>; 3] =
            [Box::new(move |x| x + offset), Box::new(|x| x * 3), Box::new(move |x| x ^ offset << 4)];
        bytes.iter().fold(1u64, |x, b| steps[*b as usize % 3](x) & 0xffff_ffff)
    }

    fn iterators(bytes) {
        let zipped = bytes.iter().zip(bytes.iter().skip(1)).step_by(3).map(|(a, b)| (a ^ b) as u64);
        let scanned = bytes.iter().scan(0u8, |s, b| { *s = s.wrapping_add(*b); (*s != 200).then_some(*s as u64) });
        zipped.chain(scanned).enumerate().map(|(i, v)| v << (i % 16)).fold(0, u64::wrapping_add)
    }

    fn many_arguments(bytes) {
        let b = |i: usize| bytes.get(i).copied().unwrap_or(0);
        bytes.chunks(8).map(|c| eight(c[0] as u64, b(1) as u32, b(2) as u64, b(3), b(4) as u64, b(5) as u16, c.len() as u64, b(7) as u32))
            .fold(0, |x, y| x.rotate_left(1) ^ y)
    }

    fn generics(bytes) { coded::<Pairs>(bytes).wrapping_add(coded::<Triples>(bytes)) }

    fn wide_multiply(bytes) {
        let (a, b) = bytes.iter().fold((1u64, 2u64), |(a, b), x| (b.rotate_left(9) ^ *x as u64, a.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let wide = a as u128 * b as u128;
        (wide >> 64) as u64 ^ (wide % 1_000_000_007) as u64 ^ (wide / 12_345) as u64
    }

    fn bit_tricks(bytes) {
        let n = bytes.iter().fold(0u64, |n, b| n.rotate_left(8) ^ *b as u64);
        let m = n as u32;
        (n.leading_zeros() + n.trailing_zeros() + n.count_ones() + m.leading_zeros() + m.trailing_zeros()) as u64
            ^ n.reverse_bits() ^ n.swap_bytes() ^ m.rotate_right(n as u32 % 32) as u64 ^ n.isqrt()
    }

    fn saturating(bytes) {
        bytes.iter().fold(0i16, |s, b| s.saturating_add((*b as i8 as i16) * 64).saturating_sub(1)) as u16 as u64
            | (bytes.iter().fold(1u8, |s, b| s.saturating_mul(1 + b % 3)) as u64) << 16
            | (bytes.iter().fold(7i32, |s, b| s.wrapping_mul(*b as i32 - 128).div_euclid(3).rem_euclid(1009)) as u64) << 32
    }

    fn shared_counter(bytes) {
        SEEN.add(1);
        let length = bytes.len() as u64;
        BYTES.add(length);
        length
    }

    fn shared_table(bytes) {
        let mut table = TABLE.lock();
        for byte in bytes {
            let entry = &mut table.entries[*byte as usize % 16];
            entry.0 = entry.0.wrapping_add(1);
            entry.1 = entry.1.rotate_left(3) ^ *byte as u64;
        }
        table.updates += 1;
        table.entries.iter().fold(table.updates, |h, e| h.wrapping_mul(31).wrapping_add(e.0 as u64 ^ e.1))
    }

    fn per_cpu_state(bytes) {
        let mut history = HISTORY.get();
        history.rotate_right(1);
        history[0] = bytes.len() as u16;
        // The same on every CPU: what was before depends on where it ran.
        history[0] as u64
    }
}

static SEEN: Counter = Counter::new();
static BYTES: Counter = Counter::new();

/// A table of counts and mixed bytes.
#[derive(Shared)]
struct Table {
    entries: [(u32, u64); 16],
    updates: u64,
}

static TABLE: Mutex<Table> = Mutex::new(Table { entries: [(0, 0); 16], updates: 0 });
static HISTORY: PerCpu<[u16; 8]> = PerCpu::new([0; 8]);

/// Decrements the time to live and corrects the checksum.
#[xdp(on_panic = drop)]
pub fn headers_rewrite(packet: &mut Xdp) -> XdpVerdict {
    let (Some(ethernet), Some(mut ip)) = (packet.read::<Ethernet>(0), packet.read::<Ipv4>(14)) else {
        return XdpVerdict::Drop;
    };
    if ethernet.kind.get() != 0x0800 || ip.time_to_live == 0 {
        return XdpVerdict::Pass;
    }
    ip.time_to_live -= 1;
    let sum = ip.checksum.get() as u32 + 0x100;
    ip.checksum = karakoram_extension::Be16::new((sum + (sum >> 16)) as u16);
    match packet.write(14, &ip) {
        true => XdpVerdict::Tx,
        false => XdpVerdict::Drop,
    }
}

/// Sends a packet back.
#[xdp]
pub fn swap_addresses(packet: &mut Xdp) -> XdpVerdict {
    let Some(mut header) = packet.read::<Ethernet>(0) else { return XdpVerdict::Drop };
    core::mem::swap(&mut header.source, &mut header.destination);
    match packet.write(0, &header) {
        true => XdpVerdict::Tx,
        false => XdpVerdict::Aborted,
    }
}

/// Puts a header before the packet and takes a trailer away.
#[xdp]
pub fn grow_and_trim(packet: &mut Xdp) -> XdpVerdict {
    let length = packet.length();
    if !packet.adjust_head(-8) || !packet.set_be64(0, length as u64) {
        return XdpVerdict::Drop;
    }
    if length > 64 && !packet.adjust_tail(-16) {
        return XdpVerdict::Aborted;
    }
    XdpVerdict::Tx
}
