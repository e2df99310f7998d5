//! What is known of each segment in flight, and the counts that follow from it.

use super::rate::Stamp;
use std::collections::VecDeque;

/// A segment between the first unacknowledged and the next one.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When it was sent last.
    pub at: u64,
    /// What was delivered by then.
    pub stamp: Stamp,
    /// It arrived, out of order.
    pub is_sacked: bool,
    /// It is taken for lost.
    pub is_lost: bool,
    /// It was sent more than once.
    pub is_retransmitted: bool,
    /// Its latest copy, which is not the first, may still be on its way.
    pub is_copy_in_flight: bool,
}

/// The segments in flight.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    /// The first unacknowledged segment.
    pub first: u32,
    /// The highest number known to have arrived out of order, plus one.
    pub highest: u32,
    sent: VecDeque<Sent>,
    sacked: u32,
    lost: u32,
    copies: u32,
    /// No lost segment without a copy in flight is below this one.
    next_lost: u32,
}

impl Scoreboard {
    /// The segment that will be sent next for the first time.
    pub fn next(&self) -> u32 {
        self.first + self.sent.len() as u32
    }

    /// Segments not acknowledged in order.
    pub fn outstanding(&self) -> u32 {
        self.sent.len() as u32
    }

    /// Segments that arrived out of order.
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Segments thought to be on their way (`tcp_packets_in_flight`).
    pub fn in_flight(&self) -> u32 {
        self.outstanding() - self.sacked - self.lost + self.copies
    }

    /// Whether everything goes by the book: nothing out of order, lost or sent again.
    pub fn is_plain(&self) -> bool {
        self.sacked == 0 && self.lost == 0 && self.copies == 0
    }

    /// All segments in flight, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Sent)> {
        (self.first..).zip(self.sent.iter())
    }

    /// A new segment is sent.
    pub fn push(&mut self, at: u64, stamp: Stamp) {
        self.sent.push_back(Sent {
            at,
            stamp,
            is_sacked: false,
            is_lost: false,
            is_retransmitted: false,
            is_copy_in_flight: false,
        });
    }

    /// A segment is sent again.
    pub fn resend(&mut self, number: u32, at: u64, stamp: Stamp) {
        let sent = &mut self.sent[(number - self.first) as usize];
        self.copies += u32::from(!sent.is_copy_in_flight);
        (sent.at, sent.stamp) = (at, stamp);
        (sent.is_retransmitted, sent.is_copy_in_flight) = (true, true);
    }

    /// The first unacknowledged segment is acknowledged in order.
    pub fn pop(&mut self) -> Option<Sent> {
        let sent = self.sent.pop_front()?;
        self.first += 1;
        self.sacked -= u32::from(sent.is_sacked);
        self.lost -= u32::from(sent.is_lost);
        self.copies -= u32::from(sent.is_copy_in_flight);
        Some(sent)
    }

    /// A segment arrived out of order. Returns what was known of it, if this is news.
    pub fn sack(&mut self, number: u32) -> Option<Sent> {
        let sent = self.sent.get_mut(number.checked_sub(self.first)? as usize)?;
        if sent.is_sacked {
            return None;
        }
        let before = *sent;
        self.lost -= u32::from(sent.is_lost);
        self.copies -= u32::from(sent.is_copy_in_flight);
        (sent.is_sacked, sent.is_lost, sent.is_copy_in_flight) = (true, false, false);
        self.sacked += 1;
        self.highest = self.highest.max(number + 1);
        Some(before)
    }

    /// A segment is taken for lost, its latest copy too.
    pub fn lose(&mut self, number: u32) {
        let sent = &mut self.sent[(number - self.first) as usize];
        self.copies -= u32::from(sent.is_copy_in_flight);
        self.lost += u32::from(!sent.is_lost);
        (sent.is_lost, sent.is_copy_in_flight) = (true, false);
        self.next_lost = self.next_lost.min(number);
    }

    /// Nothing is taken for lost any more.
    pub fn forgive(&mut self) {
        self.sent.iter_mut().for_each(|s| s.is_lost = false);
        self.lost = 0;
    }

    /// The first lost segment that was not sent again yet.
    pub fn first_to_resend(&mut self) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        let from = self.next_lost.max(self.first);
        let skip = (from - self.first) as usize;
        let waits = |s: &Sent| s.is_lost && !s.is_copy_in_flight;
        let found = self.sent.iter().skip(skip).position(waits).map(|i| from + i as u32);
        self.next_lost = found.unwrap_or(self.next());
        found
    }
}
