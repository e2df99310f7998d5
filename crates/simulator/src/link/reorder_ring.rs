//! The receiver's ring: frames wait in a queue for a port of the ring's rate, go round, and are
//! looked at. Which frames these are, the protocol's receiver knows; the order is the same.

use std::collections::VecDeque;

/// Frames going round.
#[derive(Clone, Debug)]
pub struct ReorderRing {
    /// Waiting for the port: bytes and cells.
    queue: VecDeque<(u64, u32)>,
    /// Beyond the port: when they are looked at, and their bytes and cells.
    round: VecDeque<(u64, (u64, u32))>,
    free_at: u64,
    cells: u32,
    bytes: u64,
    /// Looks.
    pub passes: u64,
}

impl ReorderRing {
    /// An empty ring.
    pub fn new() -> ReorderRing {
        ReorderRing {
            queue: VecDeque::with_capacity(256),
            round: VecDeque::with_capacity(64),
            free_at: 0,
            cells: 0,
            bytes: 0,
            passes: 0,
        }
    }

    /// When the port takes the next frame; `u64::MAX` when none waits.
    #[inline]
    pub fn next_departure(&self) -> u64 {
        if self.queue.is_empty() { u64::MAX } else { self.free_at }
    }

    /// When the next frame is looked at.
    #[inline]
    pub fn next_look(&self) -> u64 {
        self.round.front().map_or(u64::MAX, |(at, _)| *at)
    }

    /// A frame joins the queue.
    pub fn enter(&mut self, now: u64, bytes: u64, cells: u32) {
        if self.queue.is_empty() {
            self.free_at = self.free_at.max(now);
        }
        self.queue.push_back((bytes, cells));
        self.cells += cells;
        self.bytes += bytes;
    }

    /// The first frame of the queue takes the port for `time` and is looked at after `round`. Returns
    /// the depth of the queue as it leaves, itself included.
    pub fn depart(&mut self, now: u64, time: u64, round: u64) -> u32 {
        let depth = self.cells;
        if let Some(frame) = self.queue.pop_front() {
            self.bytes -= frame.0;
            self.cells -= frame.1;
            self.free_at = now + time;
            self.round.push_back((now + round, frame));
        }
        depth
    }

    /// The frame that is looked at now: its bytes and cells.
    pub fn look(&mut self) -> Option<(u64, u32)> {
        self.passes += 1;
        self.round.pop_front().map(|(_, frame)| frame)
    }

    /// Bytes of the first frame of the queue.
    pub fn head_bytes(&self) -> u64 {
        self.queue.front().map_or(0, |(bytes, _)| *bytes)
    }

    /// Bytes in the queue.
    pub fn queued_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing goes round.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.round.is_empty()
    }
}
