//! Connections to memcached: commands that are split over segments are put together, and writes that are
//! not yet answered are kept in mind. A connection is *followed* as long as every byte of it was seen in order in both
//! directions, and all of it was `set`: each answer then belongs to the oldest write.

use crate::cache::{self, GUARD_NS};
use crate::command::{Set, Words, Write, find, is_binary, may_become_write, write};
use karakoram_extension::{Buffer, Mutex, Shared};

/// Connections that are kept in mind, one for each place that their numbers lead to.
const FLOWS: usize = 1024;
/// Longest beginning of a line that is kept until the rest comes.
const MOST_BEGUN: usize = 512;
/// Writes of a connection that are not answered yet.
const MOST_OPEN: usize = 64;

/// A connection.
#[derive(Shared)]
struct Flow {
    /// Number of the client, 0 of nobody.
    peer: u64,
    /// Behind the last byte that was seen.
    next: u32,
    /// Behind the last byte that memcached said, where the connection is followed.
    heard: u32,
    /// Whether every byte of the connection was seen, in order, and all of it was `set`: then it is known which
    /// answer belongs to which write.
    is_followed: bool,
    /// Bytes of a value, with its line end, that are still to come, where the connection is followed.
    value_bytes: u32,
    /// Where the oldest write is that is not answered yet.
    first: u32,
    /// How many there are.
    count: u32,
    /// These writes, in a circle.
    open: [Open; MOST_OPEN],
    /// Bytes of a line that is not complete.
    begun_bytes: u32,
    /// The bytes.
    begun: [u8; MOST_BEGUN],
}

/// A write that is not answered yet.
#[derive(Clone, Copy, Shared)]
struct Open {
    /// Its number, when its value may be kept.
    ticket: u64,
    /// Hash of its key.
    hash: u32,
    /// Whether it is of all keys.
    is_flush: bool,
}

static FLOW: [Mutex<Flow>; FLOWS] = [const { Mutex::new(Flow::NOBODY) }; FLOWS];

fn place(peer: u64) -> &'static Mutex<Flow> {
    &FLOW[(peer.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % FLOWS]
}

/// A client opens a connection: the first byte will have the next number.
pub fn open(peer: u64, sequence: u32, bytes: usize) {
    let mut flow = place(peer).lock();
    flow.give_up();
    (flow.peer, flow.next, flow.value_bytes) = (peer, sequence.wrapping_add(1), 0);
    flow.is_followed = bytes == 0;
}

/// memcached accepts a connection.
pub fn accepted(peer: u64, sequence: u32) {
    let mut flow = place(peer).lock();
    if flow.peer == peer {
        flow.heard = sequence.wrapping_add(1);
    }
}

/// A segment to memcached; `read` copies its bytes.
pub fn segment(peer: u64, sequence: u32, bytes: usize, read: impl FnOnce(&mut [u8]) -> bool) {
    if bytes == 0 {
        return;
    }
    let mut flow = place(peer).lock();
    if flow.peer != peer {
        flow.give_up();
        (flow.peer, flow.next, flow.is_followed) = (peer, sequence, false);
    }
    if flow.next != sequence {
        flow.is_followed = false;
        if flow.begun_bytes > 0 {
            // The line goes on elsewhere.
            flow.begun_bytes = 0;
            cache::close(GUARD_NS);
        }
    }
    let begun = flow.begun_bytes as usize;
    let mut text = Buffer::new(begun + bytes);
    if begun > 0 {
        text[..begun].copy_from_slice(&flow.begun[..begun]);
    }
    if !read(&mut text[begun..]) {
        flow.is_followed = false;
        return cache::close(GUARD_NS);
    }
    let end = sequence.wrapping_add(bytes as u32);
    let is_newest = (end.wrapping_sub(flow.next) as i32) >= 0;
    if is_newest {
        flow.next = end;
    }
    flow.begun_bytes = 0;
    let is_in_value = flow.is_followed && flow.value_bytes > 0;
    if !is_in_value && is_binary(&text) {
        flow.is_followed = false;
        return cache::close(GUARD_NS);
    }
    let rest = flow.lines(&text);
    if may_become_write(rest) {
        flow.keep(rest, is_newest);
    } else if !rest.is_empty() {
        flow.is_followed = false;
    }
}

/// A request to memcached in a datagram, whose answer nobody waits for here.
pub fn datagram(text: &[u8]) {
    if is_binary(text) {
        return cache::close(GUARD_NS);
    }
    let mut rest = text;
    while !rest.is_empty() {
        let end = find(b'\n', rest).map_or(rest.len(), |at| at + 1);
        if let Some(write) = write(&rest[..end]) {
            carry_out(write, false);
        }
        rest = &rest[end..];
    }
}

/// Text from memcached on a connection, or its beginning: writes that were under way may be done now.
pub fn answered(peer: u64, sequence: u32, text: &[u8], is_all: bool) {
    let mut flow = place(peer).lock();
    if flow.peer != peer {
        return;
    }
    if flow.is_followed {
        flow.is_followed = is_all && flow.settle(sequence, text);
        if !flow.is_followed {
            // Which of them these were nobody knows.
            flow.give_up_writes();
        }
    } else if flow.count > 0 {
        flow.close_writes(text);
    }
}

/// Does what a write does to the cache; returns what to do once more when it is answered.
fn carry_out(write: Write, is_connection: bool) -> Option<Open> {
    match write {
        Write::Key { key, expires: true, .. } => cache::slot(key.hash).forget_for_good(key.hash),
        Write::Key { key, is_answered, .. } if is_answered && is_connection => {
            cache::slot(key.hash).forget(key.hash);
            return Some(Open { hash: key.hash, ..Open::NONE });
        }
        Write::Key { key, .. } => cache::slot(key.hash).forget_for_a_while(key.hash),
        Write::Touched(keys) => {
            let mut keys = Words::new(keys);
            while let Some(key) = keys.key() {
                cache::slot(key.hash).forget_for_good(key.hash);
            }
        }
        Write::All { delay: 0, is_answered } if is_answered && is_connection => {
            cache::flush();
            return Some(Open { is_flush: true, ..Open::NONE });
        }
        // A second more, as memcached's clock has seconds.
        Write::All { delay, .. } => cache::close(delay.saturating_mul(1_000_000_000).saturating_add(2 * GUARD_NS)),
        Write::Any => cache::close(GUARD_NS),
    }
    None
}

impl Open {
    const NONE: Open = Open { ticket: 0, hash: 0, is_flush: false };

    /// It may be done now.
    fn forget(self) {
        match self.is_flush {
            true => cache::flush(),
            false => cache::slot(self.hash).forget(self.hash),
        }
    }

    /// Its answer will not be noticed.
    fn give_up(self) {
        match self.is_flush {
            true => cache::close(GUARD_NS),
            false => cache::slot(self.hash).forget_for_a_while(self.hash),
        }
    }
}

impl Flow {
    const NOBODY: Flow = Flow {
        peer: 0,
        next: 0,
        heard: 0,
        is_followed: false,
        value_bytes: 0,
        first: 0,
        count: 0,
        open: [Open::NONE; MOST_OPEN],
        begun_bytes: 0,
        begun: [0; MOST_BEGUN],
    };

    /// Carries out all complete lines; returns the beginning of one that is not.
    fn lines<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let mut rest = text;
        loop {
            if self.is_followed {
                rest = self.value(rest);
            }
            let Some(at) = find(b'\n', rest) else { return rest };
            let (line, after) = rest.split_at(at + 1);
            rest = after;
            if self.is_followed {
                match Set::parse(line) {
                    Some(set) => {
                        self.set(&set, after);
                        continue;
                    }
                    None => self.is_followed = false,
                }
            }
            if let Some(write) = write(line)
                && let Some(open) = carry_out(write, true)
            {
                self.remember(open);
            }
        }
    }

    /// What follows the part of a value that a text begins with.
    fn value<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let (part, rest) = text.split_at((self.value_bytes as usize).min(text.len()));
        let left = self.value_bytes - part.len() as u32;
        // What else it ends with memcached does not take for a value.
        let is_right = match (left, part) {
            (_, []) => true,
            (0, [.., b'\r', b'\n'] | [b'\n']) => true,
            (0, _) => false,
            (1, part) => part.ends_with(b"\r"),
            _ => true,
        };
        self.value_bytes = left;
        self.is_followed = is_right;
        rest
    }

    /// A `set` on a connection that is followed, and what comes after its line.
    fn set(&mut self, set: &Set, after: &[u8]) {
        let mut slot = cache::slot(set.key.hash);
        let ticket = match set.reply(after) {
            Some(parts) => slot.renew(&set.key, parts),
            None => {
                slot.forget(set.key.hash);
                0
            }
        };
        drop(slot);
        self.value_bytes = (set.value_bytes + b"\r\n".len()) as u32;
        self.remember(Open { ticket, hash: set.key.hash, is_flush: false });
    }

    /// Keeps the beginning of a line that may become a write, until the rest comes.
    fn keep(&mut self, rest: &[u8], is_newest: bool) {
        match self.begun.get_mut(..rest.len()) {
            Some(room) if is_newest => {
                room.copy_from_slice(rest);
                self.begun_bytes = rest.len() as u32;
            }
            // Too long, or the rest has come already.
            _ => {
                self.is_followed = false;
                cache::close(GUARD_NS);
            }
        }
    }

    /// Remembers a write that will be answered.
    fn remember(&mut self, open: Open) {
        if self.count as usize == MOST_OPEN {
            self.is_followed = false;
            self.oldest().give_up();
            self.drop_first(1);
        }
        self.open[(self.first + self.count) as usize % MOST_OPEN] = open;
        self.count += 1;
    }

    fn oldest(&self) -> Open {
        self.open[self.first as usize % MOST_OPEN]
    }

    fn each_open(&self, act: impl Fn(Open)) {
        (0..self.count).for_each(|n| act(self.open[(self.first + n) as usize % MOST_OPEN]));
    }

    fn drop_first(&mut self, count: u32) {
        self.first = (self.first + count) % MOST_OPEN as u32;
        self.count -= count;
    }

    /// Takes a text for the answers to the oldest writes; false when that it cannot be.
    fn settle(&mut self, sequence: u32, text: &[u8]) -> bool {
        let end = sequence.wrapping_add(text.len() as u32);
        if end.wrapping_sub(self.heard) as i32 <= 0 {
            // Once more.
            return true;
        }
        if sequence != self.heard || !text.ends_with(b"\n") {
            return false;
        }
        self.heard = end;
        let mut rest = text;
        while let Some(at) = find(b'\n', rest) {
            if self.count == 0 {
                return false;
            }
            let (line, after) = rest.split_at(at + 1);
            rest = after;
            let open = self.oldest();
            self.drop_first(1);
            let ticket = if line == b"STORED\r\n" { open.ticket } else { 0 };
            cache::slot(open.hash).is_answered(open.hash, ticket);
        }
        true
    }

    /// What is under way may be done now. Counts the answers in a text, as far as it is clear that they are answers
    /// to writes.
    fn close_writes(&mut self, text: &[u8]) {
        const DONE: [&[u8]; 7] = [b"STORED", b"NOT_STORED", b"DELETED", b"NOT_FOUND", b"EXISTS", b"TOUCHED", b"HD"];
        self.each_open(Open::forget);
        let mut rest = text;
        while let Some(at) = find(b'\n', rest).filter(|_| self.count > 0) {
            let line = &rest[..at];
            if line.starts_with(b"VALUE ") || line.starts_with(b"VA ") {
                // A value follows, in which lines mean nothing.
                break;
            }
            let is_number = line.first().is_some_and(u8::is_ascii_digit);
            let is_flush = line.starts_with(b"OK") && self.oldest().is_flush;
            if is_number || is_flush || DONE.iter().any(|d| line.starts_with(d)) {
                self.drop_first(1);
            }
            rest = &rest[at + 1..];
        }
    }

    /// Another connection takes the place.
    fn give_up(&mut self) {
        self.give_up_writes();
        if self.begun_bytes > 0 {
            cache::close(GUARD_NS);
        }
        self.begun_bytes = 0;
    }

    fn give_up_writes(&mut self) {
        self.each_open(Open::give_up);
        self.count = 0;
    }
}
