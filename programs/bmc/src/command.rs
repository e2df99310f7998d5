//! memcached's text protocol (`doc/protocol.txt`): keys that are read and written.

use crate::cache::{MOST_KEY, MOST_VALUE};

/// A key with its hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key<'a> {
    /// The key.
    pub bytes: &'a [u8],
    /// FNV-1a of it, 32 bits.
    pub hash: u32,
}

impl<'a> Key<'a> {
    /// The key at the beginning of a text, up to a blank or control character, and what follows it.
    #[inline(always)]
    pub fn split(text: &'a [u8]) -> Option<(Key<'a>, &'a [u8])> {
        let mut hash = 0x811c_9dc5u32;
        let mut length = 0;
        for byte in text.iter().take(MOST_KEY + 1) {
            if *byte <= b' ' {
                break;
            }
            hash = (hash ^ *byte as u32).wrapping_mul(0x0100_0193);
            length += 1;
        }
        match text.split_at_checked(length) {
            Some((bytes, rest)) if (1..=MOST_KEY).contains(&length) => Some((Key { bytes, hash }, rest)),
            _ => None,
        }
    }
}

/// The keys of a request that is nothing but one `get`; stops at `None` before anything else.
pub struct Keys<'a> {
    rest: &'a [u8],
}

impl<'a> Keys<'a> {
    /// Of the text after `get`, which starts with a blank.
    pub fn new(text: &'a [u8]) -> Keys<'a> {
        Keys { rest: text }
    }

    /// Whether all of the request was understood.
    pub fn is_over(&self) -> bool {
        self.rest == b"\r\n"
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Key<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Key<'a>> {
        let (b' ', rest) = self.rest.split_first()? else { return None };
        let (key, rest) = Key::split(rest)?;
        self.rest = rest;
        Some(key)
    }
}

/// What a command changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write<'a> {
    /// A key.
    Key {
        /// Which.
        key: Key<'a>,
        /// It vanishes by itself some time.
        expires: bool,
        /// memcached will say when it is done.
        is_answered: bool,
    },
    /// Several keys, all of which may vanish by themselves: the text with them.
    Touched(&'a [u8]),
    /// Everything, after so many seconds.
    All {
        /// Seconds.
        delay: u64,
        /// memcached will say when it is done.
        is_answered: bool,
    },
    /// A key that is not known.
    Any,
}

/// What begins commands that change something, and must be followed by a blank or, of some, a line end.
const WRITES: [&[u8]; 16] = [
    b"set",
    b"add",
    b"replace",
    b"append",
    b"prepend",
    b"cas",
    b"incr",
    b"decr",
    b"delete",
    b"touch",
    b"gat",
    b"gats",
    b"flush_all",
    b"ms",
    b"md",
    b"ma",
];
/// Reads that may change something.
const META_GET: &[u8] = b"mg";

/// Whether a line that is not complete may become one that changes something.
pub fn may_become_write(start: &[u8]) -> bool {
    let name = word(start);
    let is_name_complete = name.len() < start.len();
    let fits = |command: &&[u8]| if is_name_complete { *command == name } else { command.starts_with(name) };
    !start.is_empty() && (WRITES.iter().any(fits) || fits(&META_GET))
}

/// What a line changes.
pub fn write(line: &[u8]) -> Option<Write<'_>> {
    let name = word(line);
    let mut words = Words { rest: &line[name.len()..] };
    let is_answered = !line.trim_ascii_end().ends_with(b" noreply");
    match name {
        b"set" | b"add" | b"replace" | b"cas" => {
            let key = words.key()?;
            let expires = words.nth(1).is_none_or(|time| time != b"0");
            Some(Write::Key { key, expires, is_answered })
        }
        b"append" | b"prepend" | b"incr" | b"decr" | b"delete" => {
            Some(Write::Key { key: words.key()?, expires: false, is_answered })
        }
        b"touch" => {
            let key = words.key()?;
            Some(Write::Key { key, expires: words.next() != Some(b"0"), is_answered })
        }
        b"gat" | b"gats" => {
            words.next()?;
            Some(Write::Touched(words.rest))
        }
        b"flush_all" => {
            let delay = words.next().filter(|w| *w != b"noreply").map_or(0, |w| number(w).unwrap_or(u64::MAX));
            Some(Write::All { delay, is_answered })
        }
        b"ms" | b"md" | b"ma" => meta(words, false),
        META_GET => meta(words, true),
        _ => None,
    }
}

/// A `set` that memcached cannot but understand, and will answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Set<'a> {
    /// What is written.
    pub key: Key<'a>,
    /// Bytes of the value that follows, without its line end.
    pub value_bytes: usize,
    /// A blank, the key, a blank, and the flags.
    name: &'a [u8],
    /// A blank, the number of bytes, and the line end.
    length: &'a [u8],
}

impl<'a> Set<'a> {
    /// Of a line. The value does not expire.
    pub fn parse(line: &'a [u8]) -> Option<Set<'a>> {
        let words = line.strip_prefix(b"set")?;
        let (key, rest) = Key::split(words.strip_prefix(b" ")?)?;
        let flags = word(rest.strip_prefix(b" ")?);
        plain_number(flags, u32::MAX)?;
        let (name, rest) = words.split_at_checked(b"  ".len() + key.bytes.len() + flags.len())?;
        let length = rest.strip_prefix(b" 0")?;
        let digits = length.strip_prefix(b" ")?.strip_suffix(b"\r\n")?;
        let value_bytes = plain_number(digits, MOST_VALUE as u32)? as usize;
        Some(Set { key, value_bytes, name, length })
    }

    /// What memcached will reply to whom asks for the key, given what follows the line, if all of the value is
    /// there.
    pub fn reply(&self, after: &'a [u8]) -> Option<[&'a [u8]; 4]> {
        let value = after.get(..self.value_bytes + b"\r\n".len())?;
        value.ends_with(b"\r\n").then_some([b"VALUE", self.name, self.length, value])
    }
}

/// A number as memcached writes it, up to a limit.
fn plain_number(digits: &[u8], most: u32) -> Option<u32> {
    let is_short = matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && digits.len() <= b"4294967295".len();
    let number = is_short.then(|| number(digits))??;
    u32::try_from(number).ok().filter(|n| *n <= most)
}

/// Whether a text looks like a request of the binary protocol: magic number, known operation, data type 0,
/// a body with room for key and extras.
pub fn is_binary(text: &[u8]) -> bool {
    let Some(([0x80, operation, key_high, key_low, extras, 0, _, _, body @ ..], _)) = text.split_first_chunk::<12>()
    else {
        return false;
    };
    let inside = u16::from_be_bytes([*key_high, *key_low]) as u32 + *extras as u32;
    *operation <= 0x48 && inside <= u32::from_be_bytes(*body) && text.len() >= 24
}

/// Meta commands: `T` sets an expiry time, `N` makes a key that expires, `q` answers only when something is
/// wrong, `b` says that the key is encoded.
fn meta(mut words: Words<'_>, is_read: bool) -> Option<Write<'_>> {
    let key = words.key()?;
    let (mut expires, mut is_answered, mut is_encoded) = (false, true, false);
    for word in words {
        match word.first() {
            Some(b'T') => expires |= word != b"T0",
            Some(b'N') => expires = true,
            Some(b'q') => is_answered = false,
            Some(b'b') => is_encoded = true,
            _ => {}
        }
    }
    match (is_read && !expires, is_encoded) {
        (true, _) => None,
        (false, true) => Some(Write::Any),
        (false, false) => Some(Write::Key { key, expires, is_answered }),
    }
}

/// Words between blanks, up to the line's end.
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// Of a text.
    pub fn new(text: &'a [u8]) -> Words<'a> {
        Words { rest: text }
    }

    /// The next one as a key.
    pub fn key(&mut self) -> Option<Key<'a>> {
        Some(Key::split(self.next()?)?.0)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while let Some((b' ', rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        let found = word(self.rest);
        self.rest = &self.rest[found.len()..];
        (!found.is_empty()).then_some(found)
    }
}

/// The characters before the first blank or control character.
fn word(text: &[u8]) -> &[u8] {
    let length = text.iter().position(|b| *b <= b' ').unwrap_or(text.len());
    &text[..length]
}

/// A decimal number.
pub fn number(digits: &[u8]) -> Option<u64> {
    let mut all = 0u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        (digit <= 9).then_some(())?;
        all = all.checked_mul(10)?.checked_add(digit as u64)?;
    }
    (!digits.is_empty()).then_some(all)
}

/// Where a byte is first, looking at eight at a time.
pub fn find(byte: u8, text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = u64::from_le_bytes([128; 8]);
    let (chunks, rest) = text.as_chunks::<8>();
    for (n, chunk) in chunks.iter().enumerate() {
        let differs = u64::from_le_bytes(*chunk) ^ (ONES * byte as u64);
        let hits = differs.wrapping_sub(ONES) & !differs & TOPS;
        if hits != 0 {
            return Some(8 * n + hits.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|b| *b == byte)?;
    Some(8 * chunks.len() + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key<'_> {
        Key::split(name.as_bytes()).unwrap().0
    }

    #[test]
    fn keys_of_a_get() {
        let all = |text: &'static [u8]| {
            let mut keys = Keys::new(text);
            let found: Vec<&[u8]> = keys.by_ref().map(|k| k.bytes).collect();
            (found, keys.is_over())
        };
        assert_eq!(all(b" a bcd\r\n"), (vec![b"a" as &[u8], b"bcd"], true));
        for bad in [b" a\n" as &[u8], b" a \r\n", b"  a\r\n", b" a\r\nget b\r\n", b" a\tb\r\n"] {
            assert!(!all(bad).1, "{bad:?}");
        }
        assert_eq!(key("a").hash, 0xe40c_292c);
    }

    #[test]
    fn what_lines_change() {
        let one = |expires, is_answered| Some(Write::Key { key: key("k"), expires, is_answered });
        for (line, expected) in [
            ("set k 0 0 5\r\n", one(false, true)),
            ("set k 0 0 5 noreply\r\n", one(false, false)),
            ("add k 0 60 5\r\n", one(true, true)),
            ("cas k 0 0 5 77\r\n", one(false, true)),
            ("incr k 5\r\n", one(false, true)),
            ("delete k\r\n", one(false, true)),
            ("touch k 0\r\n", one(false, true)),
            ("touch k 9\r\n", one(true, true)),
            ("gat 9 k j\r\n", Some(Write::Touched(b" k j\r\n"))),
            ("flush_all\r\n", Some(Write::All { delay: 0, is_answered: true })),
            ("flush_all 30 noreply\r\n", Some(Write::All { delay: 30, is_answered: false })),
            ("ms k 5 T0\r\n", one(false, true)),
            ("ms k 5 T9 q\r\n", one(true, false)),
            ("md k b\r\n", Some(Write::Any)),
            ("mg k v\r\n", None),
            ("mg k v T30\r\n", one(true, true)),
            ("get k\r\n", None),
            ("gets k\r\n", None),
            ("setter k 0 0 5\r\n", None),
        ] {
            assert_eq!(write(line.as_bytes()), expected, "{line}");
        }
        assert!(is_binary(b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0"));
        assert!(!is_binary(b"\x80\x01\0\x01\x08\x07\0\0\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0"));
    }

    #[test]
    fn sets_that_leave_no_doubt() {
        let set = Set::parse(b"set key 7 0 3\r\n").unwrap();
        assert_eq!((set.key, set.value_bytes), (key("key"), 3));
        let reply = set.reply(b"abc\r\nset other").map(|parts| parts.concat());
        assert_eq!(reply.as_deref(), Some(b"VALUE key 7 3\r\nabc\r\n" as &[u8]));
        for after in ["abc", "abc\r", "abc\n\n", "abcd\r\n"] {
            assert_eq!(set.reply(after.as_bytes()), None, "{after:?}");
        }
        for other in [
            "set key 7 0 3 noreply\r\n",
            "set key 7 9 3\r\n",
            "set key 07 0 3\r\n",
            "set key 7 0 03\r\n",
            "set key 4294967296 0 3\r\n",
            "set key -1 0 3\r\n",
            "set key 7 0 1001\r\n",
            "set key 7 0 \r\n",
            "set key 7 0 3\n",
            "set  key 7 0 3\r\n",
            "set key  7 0 3\r\n",
            "set key 7 0\r\n",
            "cas key 7 0 3\r\n",
        ] {
            assert_eq!(Set::parse(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn beginnings_of_writes() {
        for start in ["s", "se", "set", "set k", "flush_al", "m", "mg k", "replace abc 0 "] {
            assert!(may_become_write(start.as_bytes()), "{start}");
        }
        for start in ["", "get k", "x", "sett", "value"] {
            assert!(!may_become_write(start.as_bytes()), "{start}");
        }
    }

    #[test]
    fn a_byte_is_found_anywhere() {
        for length in 0..20 {
            let mut text = vec![b'a'; length];
            assert_eq!(find(b'\n', &text), None);
            for at in (0..length).rev() {
                text[at] = b'\n';
                assert_eq!(find(b'\n', &text), Some(at));
            }
        }
    }
}
