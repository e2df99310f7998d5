//! Connections to memcached: commands that are split over segments are put together, and writes that are
//! not yet answered are kept in mind.

use crate::cache::{self, GUARD_NS, SLOTS};
use crate::command::{Words, Write, find, is_binary, may_become_write, write};
use karakoram_extension::{Buffer, Mutex, Shared};

/// Connections that are kept in mind, one for each place that their numbers lead to.
const FLOWS: usize = 1024;
/// Longest beginning of a line that is kept until the rest comes.
const MOST_BEGUN: usize = 512;
/// Writes of a connection that are not answered yet.
const MOST_OPEN: usize = 64;
/// Stands for all slots.
const ALL: u32 = SLOTS as u32;

/// A connection.
#[derive(Shared)]
struct Flow {
    /// Number of the client, 0 of nobody.
    peer: u64,
    /// Behind the last byte that was seen.
    next: u32,
    /// Writes that are not answered yet, oldest first: hashes of their keys, or [`ALL`] with `flush` set.
    open: [(u32, bool); MOST_OPEN],
    /// How many.
    count: u32,
    /// Bytes of a line that is not complete.
    begun_bytes: u32,
    /// The bytes.
    begun: [u8; MOST_BEGUN],
}

static FLOW: [Mutex<Flow>; FLOWS] = [const { Mutex::new(Flow::NOBODY) }; FLOWS];

fn place(peer: u64) -> &'static Mutex<Flow> {
    &FLOW[(peer.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % FLOWS]
}

/// A segment to memcached; `read` copies its bytes.
pub fn segment(peer: u64, sequence: u32, bytes: usize, read: impl FnOnce(&mut [u8]) -> bool) {
    if bytes == 0 {
        return;
    }
    let mut flow = place(peer).lock();
    if flow.peer != peer {
        flow.give_up();
        (flow.peer, flow.next) = (peer, sequence);
    }
    if flow.begun_bytes > 0 && flow.next != sequence {
        // The line goes on elsewhere.
        flow.begun_bytes = 0;
        cache::close(GUARD_NS);
    }
    let begun = flow.begun_bytes as usize;
    let mut text = Buffer::new(begun + bytes);
    text[..begun].copy_from_slice(&flow.begun[..begun]);
    if !read(&mut text[begun..]) {
        return cache::close(GUARD_NS);
    }
    let end = sequence.wrapping_add(bytes as u32);
    let is_newest = (end.wrapping_sub(flow.next) as i32) >= 0;
    if is_newest {
        flow.next = end;
    }
    flow.begun_bytes = 0;
    if is_binary(&text) {
        return cache::close(GUARD_NS);
    }
    let rest = flow.lines(&text);
    if may_become_write(rest) {
        flow.keep(rest, is_newest);
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

/// Text from memcached on a connection: the writes that were under way may be done now.
pub fn answered(peer: u64, text: &[u8]) {
    let mut flow = place(peer).lock();
    if flow.peer != peer || flow.count == 0 {
        return;
    }
    for (hash, is_flush) in flow.open[..flow.count as usize].iter() {
        match is_flush {
            true => cache::flush(),
            false => cache::slot(*hash).forget(),
        }
    }
    flow.close_writes(text);
}

/// Does what a write does to the cache; returns what to do once more when it is answered.
fn carry_out(write: Write, is_connection: bool) -> Option<(u32, bool)> {
    match write {
        Write::Key { key, expires: true, .. } => cache::slot(key.hash).forget_for_good(),
        Write::Key { key, is_answered, .. } if is_answered && is_connection => {
            cache::slot(key.hash).forget();
            return Some((key.hash, false));
        }
        Write::Key { key, .. } => cache::slot(key.hash).forget_for_a_while(),
        Write::Touched(keys) => {
            let mut keys = Words::new(keys);
            while let Some(key) = keys.key() {
                cache::slot(key.hash).forget_for_good();
            }
        }
        Write::All { delay: 0, is_answered } if is_answered && is_connection => {
            cache::flush();
            return Some((ALL, true));
        }
        // A second more, as memcached's clock has seconds.
        Write::All { delay, .. } => cache::close(delay.saturating_mul(1_000_000_000).saturating_add(2 * GUARD_NS)),
        Write::Any => cache::close(GUARD_NS),
    }
    None
}

impl Flow {
    const NOBODY: Flow =
        Flow { peer: 0, next: 0, open: [(0, false); MOST_OPEN], count: 0, begun_bytes: 0, begun: [0; MOST_BEGUN] };

    /// Carries out all complete lines; returns the beginning of one that is not.
    fn lines<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let mut rest = text;
        while let Some(at) = find(b'\n', rest) {
            if let Some(write) = write(&rest[..=at])
                && let Some(open) = carry_out(write, true)
            {
                self.remember(open);
            }
            rest = &rest[at + 1..];
        }
        rest
    }

    /// Keeps the beginning of a line that may become a write, until the rest comes.
    fn keep(&mut self, rest: &[u8], is_newest: bool) {
        match self.begun.get_mut(..rest.len()) {
            Some(room) if is_newest => {
                room.copy_from_slice(rest);
                self.begun_bytes = rest.len() as u32;
            }
            // Too long, or the rest has come already.
            _ => cache::close(GUARD_NS),
        }
    }

    /// Remembers a write that will be answered.
    fn remember(&mut self, open: (u32, bool)) {
        if self.count as usize == MOST_OPEN {
            give_up_one(self.open[0]);
            self.drop_first(1);
        }
        self.open[self.count as usize] = open;
        self.count += 1;
    }

    fn drop_first(&mut self, count: usize) {
        self.open.copy_within(count.., 0);
        self.count -= count as u32;
    }

    /// Counts the answers in a text, as far as it is clear that they are answers to writes.
    fn close_writes(&mut self, text: &[u8]) {
        const DONE: [&[u8]; 7] = [b"STORED", b"NOT_STORED", b"DELETED", b"NOT_FOUND", b"EXISTS", b"TOUCHED", b"HD"];
        let (mut rest, mut done) = (text, 0);
        while let Some(at) = find(b'\n', rest) {
            let line = &rest[..at];
            if line.starts_with(b"VALUE ") || line.starts_with(b"VA ") {
                // A value follows, in which lines mean nothing.
                break;
            }
            let is_number = line.first().is_some_and(u8::is_ascii_digit);
            let is_flush = line.starts_with(b"OK") && self.open[done % MOST_OPEN].1;
            if is_number || is_flush || DONE.iter().any(|d| line.starts_with(d)) {
                done += 1;
            }
            rest = &rest[at + 1..];
        }
        self.drop_first(done.min(self.count as usize));
    }

    /// Another connection takes the place.
    fn give_up(&mut self) {
        self.open[..self.count as usize].iter().for_each(|open| give_up_one(*open));
        if self.begun_bytes > 0 {
            cache::close(GUARD_NS);
        }
        (self.count, self.begun_bytes) = (0, 0);
    }
}

/// The answer will not be noticed.
fn give_up_one((hash, is_flush): (u32, bool)) {
    match is_flush {
        true => cache::close(GUARD_NS),
        false => cache::slot(hash).forget_for_a_while(),
    }
}
