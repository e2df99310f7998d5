//! Frames that wait for those before them, in a ring indexed by number.

use crate::frame::Frame;

#[derive(Clone, Debug)]
enum Slot<F> {
    /// Has not come.
    Missing,
    /// Has come and was handed on.
    Seen,
    /// Waits.
    Held(F),
}

/// The window of numbers from the one that is due.
#[derive(Clone, Debug)]
pub(crate) struct Slots<F> {
    slots: Box<[Slot<F>]>,
    /// How many are not missing.
    occupied: usize,
    cells: u32,
    bytes: u64,
}

impl<F: Frame> Slots<F> {
    pub(crate) fn new(frames: usize) -> Slots<F> {
        let slots = (0..frames.next_power_of_two().max(2)).map(|_| Slot::Missing).collect();
        Slots { slots, occupied: 0, cells: 0, bytes: 0 }
    }

    #[inline]
    fn index(&self, sequence: u64) -> usize {
        sequence as usize & (self.slots.len() - 1)
    }

    /// How many numbers from the due one on have a place.
    #[inline]
    pub(crate) fn window(&self) -> u64 {
        self.slots.len() as u64
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    pub(crate) fn cells(&self) -> u32 {
        self.cells
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(crate) fn is_missing(&self, sequence: u64) -> bool {
        matches!(self.slots[self.index(sequence)], Slot::Missing)
    }

    /// Keeps a frame whose place is free.
    pub(crate) fn hold(&mut self, sequence: u64, frame: F) {
        self.cells += frame.cells();
        self.bytes += u64::from(frame.bytes());
        self.put(sequence, Slot::Held(frame));
    }

    /// Remembers that one has come.
    pub(crate) fn mark(&mut self, sequence: u64) {
        self.put(sequence, Slot::Seen);
    }

    fn put(&mut self, sequence: u64, slot: Slot<F>) {
        let index = self.index(sequence);
        self.slots[index] = slot;
        self.occupied += 1;
    }

    /// What is there of a number, which is forgotten: `None` if it is missing, `Some(None)` if it was
    /// handed on.
    #[inline]
    pub(crate) fn take(&mut self, sequence: u64) -> Option<Option<F>> {
        if self.occupied == 0 {
            return None;
        }
        let index = self.index(sequence);
        match std::mem::replace(&mut self.slots[index], Slot::Missing) {
            Slot::Missing => None,
            Slot::Seen => {
                self.occupied -= 1;
                Some(None)
            }
            Slot::Held(frame) => {
                self.occupied -= 1;
                self.cells -= frame.cells();
                self.bytes -= u64::from(frame.bytes());
                Some(Some(frame))
            }
        }
    }

    /// Forgets all. How many frames waited.
    pub(crate) fn clear(&mut self) -> u64 {
        if self.occupied == 0 {
            return 0;
        }
        let held = self.slots.iter().filter(|s| matches!(s, Slot::Held(_))).count() as u64;
        self.slots.fill_with(|| Slot::Missing);
        (self.occupied, self.cells, self.bytes) = (0, 0, 0);
        held
    }
}
