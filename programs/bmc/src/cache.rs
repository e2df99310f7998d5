//! The cache: slots that replies are kept in, found by the hash of their key.

use crate::command::Key;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use karakoram_extension::{Mutex, MutexGuard, Shared, counter, now};

/// Places for replies. A power of two.
const PLACES: usize = 65_536;
/// Places that a key may be in. Of several, those stay that were asked for lately. With one, whatever is asked for
/// displaces what was there, as in `bmc.c`.
const WAYS: usize = if cfg!(feature = "plain") { 1 } else { 2 };
/// Whether a value that is kept is renewed by what is written, instead of only forgotten.
const LEARNS_FROM_WRITES: bool = !cfg!(feature = "plain");
const SLOTS: usize = PLACES / WAYS;
/// Longest key that memcached takes.
pub const MOST_KEY: usize = 250;
/// Longest value that is kept.
pub const MOST_VALUE: usize = 1000;
/// `VALUE`, key, flags, length, value, line ends.
pub const MOST_REPLY: usize = MOST_KEY + MOST_VALUE + 54;
/// Within that time memcached has carried out what it does not answer.
pub const GUARD_NS: u64 = 1_000_000_000;
/// A reply that has not come by then was lost; another one may be awaited.
pub const PATIENCE_NS: u64 = 50_000_000;
/// How a reply begins.
pub const VALUE: &[u8] = b"VALUE ";

counter!(
    /// Replies that were kept.
    pub static FILLS
);
counter!(
    /// Writes of keys.
    pub static INVALIDATIONS
);
counter!(
    /// Writes whose value was kept in place of the last one.
    pub static UPDATES
);
counter!(
    /// Times that all slots were emptied.
    pub static FLUSHES
);

/// Places for keys whose hashes lead here.
#[derive(Shared)]
pub struct Slot {
    /// The request or write whose value may be kept here: none of the slot's keys was written since it came. 0 is
    /// none.
    awaited: u64,
    /// Until then no other is awaited: of a key that is asked for all the time, the next request always
    /// comes before the reply to the last one.
    awaited_until: u64,
    /// Nothing is kept before that time.
    quiet_until: u64,
    /// [`EPOCH`] when it was awaited, and so when it was filled.
    epoch: u32,
    /// Whether a key with an expiry time was ever written.
    expires: u32,
    places: [Place; WAYS],
}

/// Room for a reply.
#[derive(Shared)]
struct Place {
    /// Hash of the key.
    hash: u32,
    /// Bytes of the key.
    key_bytes: u32,
    /// Bytes of the reply; 0 when there is none.
    bytes: u32,
    /// Bytes that it will have when memcached has carried out the write that is awaited.
    written_bytes: u32,
    /// Whether it was asked for since somebody else wanted to be here.
    is_used: u32,
    /// From `VALUE` to the line end after the value.
    reply: [u8; MOST_REPLY],
}

static SLOT: [Mutex<Slot>; SLOTS] = [const { Mutex::new(Slot::EMPTY) }; SLOTS];
/// Grows with every flush.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Nothing is answered or kept before that time.
static CLOSED_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Number of the last write that is awaited.
static TICKET: AtomicU64 = AtomicU64::new(NO_CONVERSATION);
/// No conversation has such a number: no address begins with 255.
const NO_CONVERSATION: u64 = 0xff << 56;

/// The slot of a key.
pub fn slot(hash: u32) -> MutexGuard<'static, Slot> {
    SLOT[hash as usize % SLOTS].lock()
}

/// Empties all slots; for operators and tests also what was learnt about expiry.
pub fn flush() {
    EPOCH.fetch_add(1, Ordering::AcqRel);
    FLUSHES.add(1);
}

/// Empties all slots and keeps them empty for a while.
pub fn close(nanoseconds: u64) {
    flush();
    CLOSED_UNTIL.fetch_max(now().saturating_add(nanoseconds), Ordering::AcqRel);
}

/// Whether all slots are to stay empty.
pub fn is_closed() -> bool {
    let until = CLOSED_UNTIL.load(Ordering::Acquire);
    until != 0 && now() < until
}

impl Place {
    const EMPTY: Place =
        Place { hash: 0, key_bytes: 0, bytes: 0, written_bytes: 0, is_used: 0, reply: [0; MOST_REPLY] };

    #[inline(always)]
    fn has(&self, key: &Key) -> bool {
        self.bytes != 0
            && self.hash == key.hash
            && self.key_bytes as usize == key.bytes.len()
            && self.reply.get(VALUE.len()..VALUE.len() + key.bytes.len()) == Some(key.bytes)
    }
}

impl Slot {
    const EMPTY: Slot =
        Slot { awaited: 0, awaited_until: 0, quiet_until: 0, epoch: 0, expires: 0, places: [Place::EMPTY; WAYS] };

    /// The reply for a key.
    pub fn reply(&mut self, key: &Key) -> Option<&[u8]> {
        if self.epoch != EPOCH.load(Ordering::Acquire) {
            return None;
        }
        let place = self.places.iter_mut().find(|p| p.has(key))?;
        place.is_used = 1;
        place.reply.get(..place.bytes as usize)
    }

    /// Where something new may be put.
    fn free(&mut self) -> Option<&mut Place> {
        match self.places.iter().position(|p| p.bytes == 0) {
            Some(empty) => self.places.get_mut(empty),
            None => self.places.iter_mut().find(|p| WAYS == 1 || p.is_used == 0),
        }
    }

    /// memcached is asked; what it says may be kept.
    pub fn await_reply(&mut self, conversation: u64) {
        let (time, epoch) = (now(), EPOCH.load(Ordering::Acquire));
        let is_waiting = self.awaited != 0 && self.epoch == epoch && time < self.awaited_until;
        if self.expires != 0 || time < self.quiet_until || is_waiting {
            return;
        }
        if self.epoch != epoch {
            self.epoch = epoch;
            self.places.iter_mut().for_each(|p| p.bytes = 0);
        }
        if self.free().is_none() {
            // The next one finds room where nobody asks until then.
            return self.places.iter_mut().for_each(|p| p.is_used = 0);
        }
        (self.awaited, self.awaited_until) = (conversation, time + PATIENCE_NS);
    }

    /// Keeps a reply if it is the awaited one.
    pub fn fill(&mut self, key: &Key, conversation: u64, reply: &[u8]) {
        let is_awaited = self.awaited == conversation && self.epoch == EPOCH.load(Ordering::Acquire);
        if !is_awaited || is_closed() {
            return;
        }
        self.awaited = 0;
        let Some(place) = self.free() else { return };
        let Some(room) = place.reply.get_mut(..reply.len()) else { return };
        room.copy_from_slice(reply);
        (place.hash, place.key_bytes, place.bytes) = (key.hash, key.bytes.len() as u32, reply.len() as u32);
        place.is_used = 0;
        FILLS.add(1);
    }

    /// A key with that hash is or was written.
    pub fn forget(&mut self, hash: u32) {
        self.awaited = 0;
        self.places.iter_mut().filter(|p| p.hash == hash).for_each(|p| p.bytes = 0);
        INVALIDATIONS.add(1);
    }

    /// A key is written, and nobody will say when that is done.
    pub fn forget_for_a_while(&mut self, hash: u32) {
        self.forget(hash);
        self.quiet_until = now() + GUARD_NS;
    }

    /// A key is written that will vanish by itself.
    pub fn forget_for_good(&mut self, hash: u32) {
        self.forget(hash);
        self.expires = 1;
    }

    /// A key is written. If its value is kept, so will be the new one once memcached has carried that out: the reply
    /// for it, in parts. The number of the write, 0 when nothing will be kept.
    pub fn renew(&mut self, key: &Key, parts: [&[u8]; 4]) -> u64 {
        let known = self.places.iter().position(|p| p.bytes != 0 && p.hash == key.hash);
        self.forget(key.hash);
        let epoch = EPOCH.load(Ordering::Acquire);
        let Some(place) = known.filter(|_| LEARNS_FROM_WRITES && self.expires == 0 && self.epoch == epoch) else {
            return 0;
        };
        let time = now();
        if time < self.quiet_until {
            return 0;
        }
        let place = &mut self.places[place];
        let mut length = 0;
        for part in parts {
            let Some(room) = place.reply.get_mut(length..length + part.len()) else { return 0 };
            room.copy_from_slice(part);
            length += part.len();
        }
        (place.key_bytes, place.written_bytes) = (key.bytes.len() as u32, length as u32);
        self.awaited = TICKET.fetch_add(1, Ordering::Relaxed) + 1;
        self.awaited_until = time + PATIENCE_NS;
        self.awaited
    }

    /// memcached has answered a write of a key with that hash: it has carried out the one of that number, or with 0
    /// nobody knows what.
    pub fn is_answered(&mut self, hash: u32, ticket: u64) {
        let is_awaited = ticket != 0 && self.awaited == ticket && self.epoch == EPOCH.load(Ordering::Acquire);
        let written = self.places.iter_mut().find(|p| p.hash == hash && p.written_bytes != 0);
        match written {
            Some(place) if is_awaited && !is_closed() => {
                (place.bytes, place.written_bytes, place.is_used) = (place.written_bytes, 0, 1);
                self.awaited = 0;
                UPDATES.add(1);
            }
            _ => self.forget(hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys whose hashes are the same are compared to the end.
    #[test]
    fn a_key_is_not_its_beginning() {
        let (long, short) = (Key { bytes: b"prefix-and", hash: 7 }, Key { bytes: b"prefix", hash: 7 });
        let mut slot = Slot::EMPTY;
        slot.await_reply(1);
        slot.fill(&long, 1, b"VALUE prefix-and 0 1\r\nv\r\n");
        assert!(slot.reply(&long).is_some());
        assert_eq!(slot.reply(&short), None);
    }

    /// What nobody asks for makes room, what is asked for stays.
    #[test]
    fn who_is_asked_for_stays() {
        let keys = [b"a", b"b", b"c"].map(|bytes| Key { bytes, hash: bytes[0] as u32 });
        let reply = |key: &Key| [b"VALUE ", key.bytes, b" 0 1\r\nv\r\n"].concat();
        let mut slot = Slot::EMPTY;
        for key in &keys[..2] {
            slot.await_reply(1);
            slot.fill(key, 1, &reply(key));
        }
        assert!(slot.reply(&keys[0]).is_some());
        slot.await_reply(1);
        slot.fill(&keys[2], 1, &reply(&keys[2]));
        assert!(slot.reply(&keys[0]).is_some() && slot.reply(&keys[2]).is_some());
        assert_eq!(slot.reply(&keys[1]), None);
        // Both were asked for: the first request in vain finds no room, the second one does.
        slot.await_reply(1);
        assert_eq!(slot.awaited, 0);
        slot.await_reply(1);
        assert_eq!(slot.awaited, 1);
    }
}
