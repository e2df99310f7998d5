//! The sender's ring of copies: each is looked at as it comes round, one after the other through a
//! port of the ring's rate.

use super::line::Line;

/// Copies going round: their numbers, and how long they take through the port.
#[derive(Clone, Debug)]
pub struct CopyRing {
    /// Mirrored as their frames leave.
    fresh: Line<(u64, u64)>,
    /// Round again.
    again: Line<(u64, u64)>,
    free_at: u64,
    /// When the next look is; kept, as it is asked for at every event.
    next: u64,
    /// How many of each line wait for the port.
    waiting: [usize; 2],
    /// Looks.
    pub passes: u64,
}

impl CopyRing {
    /// No copies.
    pub fn new() -> CopyRing {
        CopyRing { fresh: Line::new(), again: Line::new(), free_at: 0, next: u64::MAX, waiting: [0; 2], passes: 0 }
    }

    /// When the next look is.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A copy comes to the port at this time for the first time.
    #[inline]
    pub fn enter(&mut self, at: u64, sequence: u64, time: u64) {
        self.fresh.push(at, (sequence, time));
        self.update();
    }

    /// A copy that stays comes to the port again at this time.
    #[inline]
    pub fn stay(&mut self, at: u64, sequence: u64, time: u64) {
        self.again.push(at, (sequence, time));
        self.update();
    }

    #[inline]
    fn update(&mut self) {
        let (line, at) = match self.fresh.next() < self.again.next() {
            true => (&self.fresh, self.fresh.next()),
            false => (&self.again, self.again.next()),
        };
        self.next = line.iter().next().map_or(u64::MAX, |(_, (_, time))| at.max(self.free_at) + time);
    }

    /// The copy that is looked at next: its number and its time through the port.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, u64)> {
        let is_fresh = self.fresh.next() < self.again.next();
        let line = if is_fresh { &mut self.fresh } else { &mut self.again };
        let (_, (sequence, time)) = line.pop()?;
        let waiting = &mut self.waiting[usize::from(!is_fresh)];
        *waiting = waiting.saturating_sub(1);
        self.free_at = self.next;
        self.passes += 1;
        self.update();
        Some((sequence, time))
    }

    /// How many copies wait for the port now. Not to be asked about the past.
    #[inline]
    pub fn waiting(&mut self, now: u64) -> u64 {
        let lines = [&self.fresh, &self.again];
        for (waiting, line) in self.waiting.iter_mut().zip(lines) {
            while line.get(*waiting).is_some_and(|(at, _)| *at <= now) {
                *waiting += 1;
            }
        }
        (self.waiting[0] + self.waiting[1]) as u64
    }

    /// Moves on in time and in numbers.
    pub fn skip(&mut self, elapsed: u64, frames: u64, passes: u64) {
        for (at, (sequence, _)) in self.fresh.iter_mut().chain(self.again.iter_mut()) {
            *at += elapsed;
            *sequence += frames;
        }
        self.free_at += elapsed;
        self.passes += passes;
        self.update();
    }

    /// What two moments must share to be alike, relative to now and to the next number.
    pub fn phase(&self, now: u64, next: u64) -> impl Iterator<Item = u64> + '_ {
        let lines = self.fresh.iter().map(|c| (0, c)).chain(self.again.iter().map(|c| (1, c)));
        let all =
            lines.flat_map(move |(line, (at, (sequence, time)))| [line, at.wrapping_sub(now), next - sequence, *time]);
        all.chain([if self.next == u64::MAX { u64::MAX } else { self.next - now }])
    }
}
