//! Protocols as people read them with slices, iterators and enums: handshakes, options, compressed headers.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Takes bytes off the front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().fold(0, |all, b| all << 8 | u64::from(*b)))
    }

    /// What a length of so many bytes says.
    fn sized(&mut self, bytes: usize) -> Option<Reader<'a>> {
        let length = self.number(bytes)? as usize;
        Some(Reader { rest: self.take(length)? })
    }
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Extension<'a> {
    ServerName(&'a str),
    Protocols(&'a [u8]),
    Versions(u16),
    Other(u16, usize),
}

struct Extensions<'a>(Reader<'a>);

impl<'a> Iterator for Extensions<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        let kind = self.0.number(2)? as u16;
        let mut body = self.0.sized(2)?;
        Some(match kind {
            0 => {
                let mut list = body.sized(2)?;
                list.take(1)?;
                Extension::ServerName(core::str::from_utf8(list.sized(2)?.rest).ok()?)
            }
            16 => Extension::Protocols(body.sized(2)?.rest),
            43 => {
                let versions = body.sized(1)?.rest;
                let pairs = versions.chunks_exact(2).map(|v| u16::from_be_bytes([v[0], v[1]]));
                Extension::Versions(pairs.filter(|v| v & 0x0f0f != 0x0a0a).max()?)
            }
            other => Extension::Other(other, body.rest.len()),
        })
    }
}

struct ClientHello<'a> {
    random: &'a [u8],
    session: &'a [u8],
    suites: Vec<u16>,
    extensions: Vec<Extension<'a>>,
}

impl<'a> ClientHello<'a> {
    fn parse(bytes: &'a [u8]) -> Option<ClientHello<'a>> {
        let mut record = Reader { rest: bytes };
        if record.number(1)? != 22 || record.number(2)? < 0x0301 {
            return None;
        }
        let mut record = record.sized(2)?;
        if record.number(1)? != 1 {
            return None;
        }
        let mut hello = record.sized(3)?;
        hello.take(2)?;
        let random = hello.take(32)?;
        let session = hello.sized(1)?.rest;
        let suites = hello.sized(2)?.rest.chunks(2).map(|c| u16::from_be_bytes([c[0], *c.get(1).unwrap_or(&0)])).collect();
        hello.sized(1)?;
        let extensions = Extensions(hello.sized(2)?).take(24).collect();
        Some(ClientHello { random, session, suites, extensions })
    }

    fn server_name(&self) -> Option<&'a str> {
        self.extensions.iter().find_map(|e| if let Extension::ServerName(name) = e { Some(*name) } else { None })
    }
}

/// A hello for tests to find: packets of the corpus seldom are any.
fn as_hello(bytes: &[u8]) -> Vec<u8> {
    let first = bytes.first().copied().unwrap_or(0);
    if first & 1 == 0 {
        return bytes.to_vec();
    }
    let name: Vec<u8> = bytes.iter().skip(20).take(usize::from(first & 15)).map(|b| b'a' + b % 26).chain(*b".example.com").collect();
    let mut entry = alloc::vec![0];
    entry.extend((name.len() as u16).to_be_bytes());
    entry.extend(&name);
    let mut extensions = Vec::new();
    for (kind, body) in [
        (0x0a0au16, Vec::new()),
        (16, alloc::vec![0, 3, 2, b'h', b'2']),
        (0, [&(entry.len() as u16).to_be_bytes()[..], &entry].concat()),
        (43, alloc::vec![4, 3, 4, 3, first]),
    ] {
        extensions.extend(kind.to_be_bytes());
        extensions.extend((body.len() as u16).to_be_bytes());
        extensions.extend(body);
    }
    let mut hello = alloc::vec![3, 3];
    hello.extend(bytes.iter().cycle().take(32));
    hello.extend([2, 7, 9, 0, 4, 0x13, 1, 0x13, 2, 1, 0]);
    hello.extend((extensions.len() as u16).to_be_bytes());
    hello.extend(extensions);
    let mut record = alloc::vec![22, 3, 1];
    record.extend((hello.len() as u16 + 4).to_be_bytes());
    record.extend([1, 0]);
    record.extend((hello.len() as u16).to_be_bytes());
    record.extend(hello);
    record
}

const BLOCKED: [&str; 4] = ["ads.example.com", "aa.example.com", "example.org", "tracker.net"];

fn fingerprint(bytes: &[u8]) -> Option<u64> {
    let record = as_hello(bytes);
    let hello = ClientHello::parse(&record)?;
    let name = hello.server_name()?.to_ascii_lowercase();
    let is_blocked = BLOCKED.iter().any(|b| name == *b || name.strip_suffix(b).is_some_and(|rest| rest.ends_with('.')));
    let labels = name.split('.').rev().map(|l| l.bytes().map(u64::from).sum::<u64>());
    let names = labels.fold(0u64, |all, l| all.wrapping_mul(1009) ^ l);
    let suites = hello.suites.iter().filter(|s| *s & 0x0f0f != 0x0a0a).map(|s| u64::from(*s)).sum::<u64>();
    let others = hello.extensions.iter().map(|e| match e {
        Extension::ServerName(n) => n.len() as u64,
        Extension::Protocols(p) => p.iter().map(|b| u64::from(*b)).sum::<u64>() << 4,
        Extension::Versions(v) => u64::from(*v) << 8,
        Extension::Other(kind, length) => u64::from(*kind) << 3 | *length as u64,
    });
    let all = others.fold(u64::from(is_blocked), |all, e| all.rotate_left(9) ^ e);
    Some(all ^ names << 20 ^ suites ^ u64::from(hello.random[0]) ^ hello.session.len() as u64)
}

/// QUIC's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Quic<'a> {
    Initial { version: u32, to: &'a [u8], from: &'a [u8], token: &'a [u8], length: u64 },
    Handshake { to: &'a [u8], length: u64 },
    Retry { token: &'a [u8] },
    Negotiation { versions: Vec<u32> },
    Short { spin: bool, key: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuicError {
    Short { at: usize },
    IdTooLong(u8),
    FixedBit,
}

impl fmt::Display for QuicError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            QuicError::Short { at } => write!(f, "ends at {at}"),
            QuicError::IdTooLong(length) => write!(f, "an id of {length} bytes"),
            QuicError::FixedBit => f.write_str("no fixed bit"),
        }
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], QuicError> {
        let end = self.at.checked_add(n).ok_or(QuicError::Short { at: self.at })?;
        let taken = self.bytes.get(self.at..end).ok_or(QuicError::Short { at: self.bytes.len() })?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, QuicError> {
        self.take(1).map(|b| b[0])
    }

    fn word(&mut self) -> Result<u32, QuicError> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn variable(&mut self) -> Result<u64, QuicError> {
        let first = self.byte()?;
        let more = self.take((1 << (first >> 6)) - 1)?;
        Ok(more.iter().fold(u64::from(first & 0x3f), |all, b| all << 8 | u64::from(*b)))
    }

    fn id(&mut self) -> Result<&'a [u8], QuicError> {
        match self.byte()? {
            length @ 0..=20 => self.take(usize::from(length)),
            length => Err(QuicError::IdTooLong(length)),
        }
    }
}

fn quic_packet<'a>(cursor: &mut Cursor<'a>) -> Result<Quic<'a>, QuicError> {
    let first = cursor.byte()?;
    if first & 0x80 == 0 {
        return Ok(Quic::Short { spin: first & 0x20 != 0, key: first & 4 != 0 });
    }
    let version = cursor.word()?;
    let (to, from) = (cursor.id()?, cursor.id()?);
    if version == 0 {
        let rest = cursor.take(cursor.bytes.len() - cursor.at)?;
        let versions = rest.chunks_exact(4).map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]])).collect();
        return Ok(Quic::Negotiation { versions });
    }
    if first & 0x40 == 0 {
        return Err(QuicError::FixedBit);
    }
    match first >> 4 & 3 {
        0 => {
            let token = cursor.variable()? as usize;
            let token = cursor.take(token)?;
            let length = cursor.variable()?;
            cursor.take(length as usize)?;
            Ok(Quic::Initial { version, to, from, token, length })
        }
        1 | 2 => {
            let length = cursor.variable()?;
            cursor.take(length as usize)?;
            Ok(Quic::Handshake { to, length })
        }
        _ => Ok(Quic::Retry { token: cursor.take((cursor.bytes.len() - cursor.at).saturating_sub(16))? }),
    }
}

fn coalesced(bytes: &[u8]) -> u64 {
    // The lengths that random bytes say are mostly too large.
    let small: Vec<u8> = bytes.iter().enumerate().map(|(i, b)| if i % 5 == 0 { b | 0xc0 } else { b & 0x0f }).collect();
    let mut cursor = Cursor { bytes: &small, at: 0 };
    let mut sum = 0u64;
    for n in 1..16 {
        if cursor.at >= small.len() {
            break;
        }
        let value = match quic_packet(&mut cursor) {
            Ok(Quic::Initial { version, to, from, token, length }) => {
                u64::from(version) ^ (to.len() << 8 | from.len() << 16 | token.len() << 24) as u64 ^ length
            }
            Ok(Quic::Handshake { to, length }) => to.iter().map(|b| u64::from(*b)).sum::<u64>() + length,
            Ok(Quic::Retry { token }) => token.len() as u64,
            Ok(Quic::Negotiation { versions }) => versions.iter().map(|v| u64::from(*v)).sum(),
            Ok(Quic::Short { spin, key }) => u64::from(spin) * 2 + u64::from(key),
            Err(error) => return sum ^ error.to_string().bytes().map(u64::from).sum::<u64>() << 32,
        };
        sum = sum.wrapping_mul(n * 2 + 1) ^ value;
    }
    sum
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Lease {
    Mask([u8; 4]),
    Routers(Vec<[u8; 4]>),
    Seconds(u32),
    Kind(Kind),
    Host(String),
    Wanted(Vec<u8>),
    Unknown { code: u8, bytes: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Discover,
    Offer,
    Request,
    Ack,
    Other(u8),
}

fn lease_option(code: u8, value: &[u8]) -> Result<Lease, (u8, usize)> {
    let four = |v: &[u8]| <[u8; 4]>::try_from(v).map_err(|_| (code, v.len()));
    match (code, value) {
        (1, v) => four(v).map(Lease::Mask),
        (3, v) => v.chunks(4).map(four).collect::<Result<_, _>>().map(Lease::Routers),
        (51 | 58 | 59, v) => four(v).map(|b| Lease::Seconds(u32::from_be_bytes(b))),
        (53, [kind]) => Ok(Lease::Kind(match kind {
            1 => Kind::Discover,
            2 => Kind::Offer,
            3 => Kind::Request,
            5 => Kind::Ack,
            other => Kind::Other(*other),
        })),
        (53, v) => Err((53, v.len())),
        (12, v) => Ok(Lease::Host(String::from_utf8_lossy(v).trim_end_matches('\0').to_ascii_lowercase())),
        (55, v) => Ok(Lease::Wanted(v.to_vec())),
        (_, v) => Ok(Lease::Unknown { code, bytes: v.len() }),
    }
}

fn leases(bytes: &[u8]) -> u64 {
    const CODES: [u8; 12] = [1, 3, 51, 53, 12, 55, 0, 60, 61, 3, 53, 58];
    let mut found: BTreeMap<u8, Lease> = BTreeMap::new();
    let mut errors = 0;
    let mut rest = bytes;
    while let [code, length, after @ ..] = rest {
        let code = CODES[usize::from(code % 12)];
        if code == 0 {
            rest = &rest[1..];
            continue;
        }
        let (value, next) = after.split_at(usize::from(length % 9).min(after.len()));
        match lease_option(code, value) {
            Ok(option) => {
                found.insert(code, option);
            }
            Err((code, length)) => errors += u64::from(code) * 100 + length as u64,
        }
        rest = next;
    }
    found.iter().fold(errors, |all, (code, option)| {
        let value = match option {
            Lease::Mask(m) => u64::from(u32::from_be_bytes(*m).leading_ones()),
            Lease::Routers(r) => r.iter().flatten().map(|b| u64::from(*b)).sum(),
            Lease::Seconds(s) => u64::from(*s),
            Lease::Kind(Kind::Other(k)) => u64::from(*k),
            Lease::Kind(k) => 1000 + matches!(k, Kind::Request | Kind::Ack) as u64,
            Lease::Host(h) => h.chars().map(u64::from).sum(),
            Lease::Wanted(w) => w.len() as u64,
            Lease::Unknown { code, bytes } => u64::from(*code) * *bytes as u64,
        };
        all.wrapping_mul(31) ^ value ^ u64::from(*code) << 40
    })
}

/// HTTP/2's header compression without its Huffman code.
#[derive(Default)]
struct Headers {
    dynamic: alloc::collections::VecDeque<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

const STATIC: [(&[u8], &[u8]); 8] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
];

impl Headers {
    const MOST_BYTES: usize = 128;

    fn get(&self, index: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let index = index.checked_sub(1)?;
        match STATIC.get(index) {
            Some((name, value)) => Some((name.to_vec(), value.to_vec())),
            None => self.dynamic.get(index - STATIC.len()).cloned(),
        }
    }

    fn add(&mut self, name: &[u8], value: &[u8]) {
        self.bytes += name.len() + value.len() + 32;
        self.dynamic.push_front((name.to_vec(), value.to_vec()));
        while self.bytes > Self::MOST_BYTES {
            let Some((name, value)) = self.dynamic.pop_back() else { break };
            self.bytes -= name.len() + value.len() + 32;
        }
    }

    fn number(input: &mut impl Iterator<Item = u8>, first: u8, bits: u32) -> Option<usize> {
        let most = (1usize << bits) - 1;
        let mut value = usize::from(first) & most;
        if value == most {
            for shift in (0..28).step_by(7) {
                let byte = input.next()?;
                value += usize::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    return Some(value);
                }
            }
            return None;
        }
        Some(value)
    }

    fn text(input: &mut impl Iterator<Item = u8>) -> Option<Vec<u8>> {
        let first = input.next()?;
        let length = Self::number(input, first, 7)? % 12;
        let text: Vec<u8> = input.by_ref().take(length).collect();
        (text.len() == length).then_some(text)
    }

    fn decode(&mut self, input: &mut impl Iterator<Item = u8>) -> Option<(Vec<u8>, Vec<u8>)> {
        let first = input.next()?;
        if first & 0x80 != 0 {
            let index = Self::number(input, first, 7)?;
            return self.get(index % 12);
        }
        let (bits, keeps) = if first & 0x40 != 0 { (6, true) } else { (4, false) };
        let index = Self::number(input, first, bits)? % 12;
        let name = match index {
            0 => Self::text(input)?,
            index => self.get(index)?.0,
        };
        let value = Self::text(input)?;
        if keeps {
            self.add(&name, &value);
        }
        Some((name, value))
    }
}

fn header_list(bytes: &[u8]) -> u64 {
    let mut headers = Headers::default();
    let mut input = bytes.iter().copied();
    let mut hash = 17u64;
    while let Some((name, value)) = headers.decode(&mut input) {
        for byte in name.iter().chain(b": ").chain(&value) {
            hash = hash.wrapping_mul(131).wrapping_add(u64::from(*byte));
        }
    }
    hash ^ (headers.dynamic.len() as u64) << 56
}

programs! {
    fn client_hello(bytes) { fingerprint(bytes).unwrap_or(1) }
    fn quic_coalesced(bytes) { coalesced(bytes) }
    fn dhcp_lease(bytes) { leases(bytes) }
    fn header_compression(bytes) { header_list(bytes) }
}
