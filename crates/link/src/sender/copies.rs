//! Copies of what was sent, in a ring indexed by number.

use crate::frame::Frame;

/// The copies from `low` on; some may have been taken out.
#[derive(Clone, Debug)]
pub(crate) struct Copies<F> {
    slots: Box<[Option<F>]>,
    /// Which copy went out again last from each slot, and when. Apart, so that what every frame touches is small.
    resent: Box<[(u64, u64)]>,
    low: u64,
    next: u64,
    bytes: u64,
}

impl<F: Frame> Copies<F> {
    /// Room for so many frames, rounded up to a power of two.
    pub(crate) fn new(frames: usize, first: u64) -> Copies<F> {
        let frames = frames.next_power_of_two().max(2);
        let (slots, resent) = ((0..frames).map(|_| None).collect(), vec![(0, 0); frames].into());
        Copies { slots, resent, low: first, next: first, bytes: 0 }
    }

    #[inline]
    fn index(&self, sequence: u64) -> usize {
        sequence as usize & (self.slots.len() - 1)
    }

    /// How many frames can be kept.
    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// How many bytes are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Forgets all and goes on at a number.
    pub(crate) fn restart(&mut self, first: u64) {
        self.free_before(self.next);
        self.low = first;
        self.next = first;
    }

    /// Keeps the next frame. Whether an older one had to go.
    #[inline]
    pub(crate) fn push(&mut self, frame: F) -> bool {
        let is_full = self.next - self.low == self.slots.len() as u64;
        let mut is_evicted = false;
        if is_full {
            is_evicted = self.take(self.low).is_some();
            self.low += 1;
        }
        self.bytes += u64::from(frame.bytes());
        let index = self.index(self.next);
        self.slots[index] = Some(frame);
        self.next += 1;
        is_evicted
    }

    /// Takes a copy out.
    #[inline]
    pub(crate) fn take(&mut self, sequence: u64) -> Option<F> {
        if sequence < self.low || sequence >= self.next {
            return None;
        }
        let index = self.index(sequence);
        let frame = self.slots[index].take()?;
        self.bytes -= u64::from(frame.bytes());
        Some(frame)
    }

    /// A copy that stays.
    pub(crate) fn get(&self, sequence: u64) -> Option<&F> {
        let is_kept = sequence >= self.low && sequence < self.next;
        is_kept.then(|| self.slots[self.index(sequence)].as_ref())?
    }

    /// Another copy of one, unless that was asked for less than `guard_ps` ago.
    pub(crate) fn resend(&mut self, sequence: u64, now_ps: u64, guard_ps: u64) -> Resend<F> {
        if sequence < self.low || sequence >= self.next {
            return Resend::Gone;
        }
        let index = self.index(sequence);
        let Some(frame) = &self.slots[index] else { return Resend::Gone };
        let (last, at) = self.resent[index];
        if last == sequence && now_ps < at.saturating_add(guard_ps) {
            return Resend::TooSoon;
        }
        self.resent[index] = (sequence, now_ps);
        Resend::Copy(frame.clone())
    }

    /// Forgets the copies before a number. How many there were.
    #[inline]
    pub(crate) fn free_before(&mut self, sequence: u64) -> u64 {
        let mut freed = 0;
        while self.low < sequence.min(self.next) {
            freed += u64::from(self.take(self.low).is_some());
            self.low += 1;
        }
        freed
    }

    /// As if so many more frames had been sent, and as many acknowledged.
    pub(crate) fn shift(&mut self, frames: u64) {
        self.slots.rotate_right((frames & (self.slots.len() as u64 - 1)) as usize);
        self.low += frames;
        self.next += frames;
    }
}

/// What there is of a copy that is wanted.
#[derive(Debug)]
pub(crate) enum Resend<F> {
    /// It.
    Copy(F),
    /// It is not kept any more.
    Gone,
    /// It went out a moment ago.
    TooSoon,
}
