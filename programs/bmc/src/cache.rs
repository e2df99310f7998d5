//! The cache: slots that replies are kept in, found by the hash of their key.

use crate::command::Key;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use karakoram_extension::{Mutex, MutexGuard, Shared, counter, now};

/// Slots. A power of two.
pub const SLOTS: usize = 65_536;
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
    /// Writes that emptied a slot.
    pub static INVALIDATIONS
);
counter!(
    /// Times that all slots were emptied.
    pub static FLUSHES
);

/// What is in a slot.
#[derive(Shared)]
pub struct Slot {
    /// The request whose reply may be kept here: none of the slot's keys was written since it came. 0 is none.
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
    /// Hash of the key.
    hash: u32,
    /// Bytes of the key.
    key_bytes: u32,
    /// Bytes of the reply; 0 when there is none.
    bytes: u32,
    /// From `VALUE` to the line end after the value.
    reply: [u8; MOST_REPLY],
}

static SLOT: [Mutex<Slot>; SLOTS] = [const { Mutex::new(Slot::EMPTY) }; SLOTS];
/// Grows with every flush.
static EPOCH: AtomicU32 = AtomicU32::new(0);
/// Nothing is answered or kept before that time.
static CLOSED_UNTIL: AtomicU64 = AtomicU64::new(0);

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

impl Slot {
    const EMPTY: Slot = Slot {
        awaited: 0,
        awaited_until: 0,
        quiet_until: 0,
        epoch: 0,
        expires: 0,
        hash: 0,
        key_bytes: 0,
        bytes: 0,
        reply: [0; MOST_REPLY],
    };

    /// The reply for a key.
    pub fn reply(&self, key: &Key) -> Option<&[u8]> {
        if self.bytes == 0 || self.hash != key.hash || self.key_bytes as usize != key.bytes.len() {
            return None;
        }
        let kept = self.reply.get(VALUE.len()..VALUE.len() + key.bytes.len())?;
        (self.epoch == EPOCH.load(Ordering::Acquire) && kept == key.bytes).then_some(())?;
        self.reply.get(..self.bytes as usize)
    }

    /// memcached is asked; what it says may be kept.
    pub fn await_reply(&mut self, conversation: u64) {
        let (time, epoch) = (now(), EPOCH.load(Ordering::Acquire));
        let is_waiting = self.awaited != 0 && self.epoch == epoch && time < self.awaited_until;
        if self.expires != 0 || time < self.quiet_until || is_waiting {
            return;
        }
        if self.epoch != epoch {
            (self.epoch, self.bytes) = (epoch, 0);
        }
        (self.awaited, self.awaited_until) = (conversation, time + PATIENCE_NS);
    }

    /// Keeps a reply if it is the awaited one.
    pub fn fill(&mut self, key: &Key, conversation: u64, reply: &[u8]) {
        let is_awaited = self.awaited == conversation && self.epoch == EPOCH.load(Ordering::Acquire);
        if !is_awaited || is_closed() {
            return;
        }
        let Some(room) = self.reply.get_mut(..reply.len()) else { return };
        room.copy_from_slice(reply);
        (self.hash, self.key_bytes, self.bytes) = (key.hash, key.bytes.len() as u32, reply.len() as u32);
        self.awaited = 0;
        FILLS.add(1);
    }

    /// A key of this slot is or was written.
    pub fn forget(&mut self) {
        (self.bytes, self.awaited) = (0, 0);
        INVALIDATIONS.add(1);
    }

    /// A key is written, and nobody will say when that is done.
    pub fn forget_for_a_while(&mut self) {
        self.forget();
        self.quiet_until = now() + GUARD_NS;
    }

    /// A key is written that will vanish by itself.
    pub fn forget_for_good(&mut self) {
        self.forget();
        self.expires = 1;
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
}
