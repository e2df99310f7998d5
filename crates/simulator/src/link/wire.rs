//! The port and the wire: frames one after the other, some of them corrupted.

use crate::loss::LossStream;
use std::collections::VecDeque;

/// A port with its wire.
#[derive(Clone, Debug)]
pub struct Wire {
    committed: usize,
    /// When committed frames will have left.
    ends: VecDeque<u64>,
    free_at: u64,
    /// Frames so far, of any kind: what losses are counted by.
    pub position: u64,
    /// How long the wire was busy.
    pub busy: u64,
    pub losses: LossStream,
    /// How many copies there were, and which of them are lost; without it, copies are frames like others.
    pub copy_losses: Option<(u64, LossStream)>,
}

impl Wire {
    /// A free port.
    pub fn new(committed: usize, losses: LossStream) -> Wire {
        let ends = VecDeque::with_capacity(committed + 1);
        Wire { committed, ends, free_at: 0, position: 0, busy: 0, losses, copy_losses: None }
    }

    /// When the port takes another frame.
    #[inline]
    pub fn ready_at(&self) -> u64 {
        if self.ends.len() < self.committed { 0 } else { self.ends[self.ends.len() - self.committed] }
    }

    /// Commits a frame that takes so long, for the first time or as a copy. Returns when its first bit leaves,
    /// when its last one does, and whether it will be corrupted.
    #[inline]
    pub fn commit(&mut self, now: u64, time: u64, is_copy: bool) -> (u64, u64, bool) {
        let start = self.free_at.max(now);
        self.free_at = start + time;
        self.busy += time;
        if self.ends.len() == self.committed {
            self.ends.pop_front();
        }
        self.ends.push_back(self.free_at);
        let is_lost = self.losses.is_lost(self.position);
        self.position += 1;
        match &mut self.copy_losses {
            Some((copies, losses)) if is_copy => {
                *copies += 1;
                (start, self.free_at, losses.is_lost(*copies - 1))
            }
            _ => (start, self.free_at, is_lost),
        }
    }

    /// Position of the next frame that will be corrupted.
    pub fn next_loss(&self) -> u64 {
        self.losses.next()
    }

    /// Moves on in time, and by so many frames.
    pub fn skip(&mut self, elapsed: u64, frames: u64, busy: u64) {
        self.ends.iter_mut().for_each(|end| *end += elapsed);
        self.free_at += elapsed;
        self.position += frames;
        self.busy += busy;
    }

    /// What two moments must share to be alike, relative to now.
    pub fn phase(&self, now: u64) -> impl Iterator<Item = u64> + '_ {
        self.ends.iter().chain([&self.free_at]).map(move |at| at.saturating_sub(now))
    }
}
