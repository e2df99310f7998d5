//! Text from numbers and back.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

fn digest(text: &str) -> u64 {
    text.bytes().fold(text.len() as u64, |h, b| h.wrapping_mul(31).wrapping_add(b as u64))
}

#[derive(Debug)]
#[allow(dead_code, reason = "read by its Debug form")]
struct Flow {
    from: [u8; 4],
    port: u16,
    name: Option<&'static str>,
}

programs! {
    fn decimal(bytes) {
        let mut text = String::new();
        for byte in bytes.iter().take(16) {
            let _ = write!(text, "{},", *byte as i32 - 100);
        }
        digest(&text)
    }

    fn hexadecimal(bytes) {
        let mut text = String::new();
        for byte in bytes.iter().take(32) {
            let _ = write!(text, "{byte:02x}");
        }
        digest(&text)
    }

    fn padded(bytes) {
        let n = bytes.iter().take(8).fold(0u64, |n, b| n << 8 | *b as u64);
        digest(&format!("[{n:>24}] [{n:<22}] [{n:^+30}] [{:#018b}]", bytes.len()))
    }

    fn debug_struct(bytes) {
        let b = |i: usize| bytes.get(i).copied().unwrap_or(0);
        let name = if b(6) > 100 { Some("web \"x\"\n") } else { None };
        let flow = Flow { from: [b(0), b(1), b(2), b(3)], port: u16::from_be_bytes([b(4), b(5)]), name };
        digest(&format!("{flow:?} {flow:#?}"))
    }

    fn joined(bytes) {
        let parts: Vec<String> = bytes.chunks(4).take(8).map(|c| format!("{c:?}")).collect();
        digest(&parts.join("; "))
    }

    fn parse_decimal(bytes) {
        let text: String = bytes.iter().take(9).map(|b| char::from(b'0' + b % 11)).collect();
        match text.parse::<u32>() {
            Ok(number) => number as u64,
            Err(error) => 1 << 40 | digest(&format!("{error}")),
        }
    }

    fn float_free(bytes) {
        let total: u64 = bytes.iter().map(|b| *b as u64).sum();
        let count = bytes.len().max(1) as u64;
        digest(&format!("{}.{:03}", total / count, total % count * 1000 / count))
    }

    fn ipv4_text(bytes) {
        match bytes {
            [a, b, c, d, ..] => {
                let address = core::net::Ipv4Addr::new(*a, *b, *c, *d);
                let text = format!("{address}");
                let back: core::net::Ipv4Addr = text.parse().unwrap_or(core::net::Ipv4Addr::LOCALHOST);
                digest(&text) ^ (back == address) as u64
            }
            _ => 0,
        }
    }
}
