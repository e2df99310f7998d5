//! What became of each frame that the wire corrupted, seen from outside the protocol.

use super::protected::cells;
use karakoram_link::frame::{Frame, LinkFrame, Loss};
use karakoram_link::sequence::last_with_low;

/// Nanoseconds that delays are told apart up to.
const LONGEST_NS: usize = 1 << 15;
/// A loss that is so many frames old is final.
const FINAL: u64 = 1 << 13;

/// A corrupted frame.
#[derive(Clone, Copy, Debug)]
struct Missing {
    sequence: u64,
    noticed_at: Option<u64>,
}

/// The corrupted frames that are still missing.
pub struct Losses {
    missing: Vec<Missing>,
    unnoticed: usize,
    /// Numbers that the sender was asked for and has not sent again.
    wanted: Vec<u64>,
    most_wanted: u8,
    delays_ns: Vec<u64>,
    /// Bytes and cells of the frame that arrived last.
    pub held: (u64, u32),
}

impl Losses {
    /// Nothing is missing. Of a burst, the sender sends at most so many again.
    pub fn new(most_wanted: Option<u8>) -> Losses {
        Losses {
            missing: Vec::new(),
            unnoticed: 0,
            wanted: Vec::new(),
            most_wanted: most_wanted.unwrap_or(u8::MAX),
            delays_ns: vec![0; LONGEST_NS],
            held: (0, 0),
        }
    }

    /// How often recovery took so many nanoseconds.
    pub fn delays_ns(&self) -> &[u64] {
        &self.delays_ns
    }

    /// Whether nothing is under way because of a loss.
    pub fn is_quiet(&self) -> bool {
        self.wanted.is_empty() && self.unnoticed == 0
    }

    /// Moves on in numbers: what is missing stays as far behind.
    pub fn skip(&mut self, frames: u64) {
        self.missing.iter_mut().for_each(|m| m.sequence += frames);
    }

    /// A frame was corrupted.
    pub fn lose(&mut self, sequence: u64) {
        self.missing.retain(|m| m.sequence + FINAL > sequence);
        self.missing.push(Missing { sequence, noticed_at: None });
        self.unnoticed += 1;
    }

    /// A frame arrives. Whether it is a copy of one that had arrived before.
    #[inline]
    pub fn arrive<F: Frame>(&mut self, now: u64, frame: &LinkFrame<F>, base: u64) -> bool {
        let header = match frame {
            LinkFrame::Data { header, frame } => {
                let bytes = u64::from(frame.bytes());
                self.held = (bytes, cells(bytes));
                header
            }
            LinkFrame::Dummy(header) => header,
            _ => return false,
        };
        if header.is_retransmission {
            return self.recover(now, header.sequence.near(base));
        }
        if self.unnoticed > 0 {
            self.notice(now, header.sequence.near(base));
        }
        false
    }

    fn notice(&mut self, now: u64, next: u64) {
        let noticed = self.missing.iter_mut().filter(|m| m.noticed_at.is_none() && m.sequence < next);
        for missing in noticed {
            missing.noticed_at = Some(now);
            self.unnoticed -= 1;
        }
    }

    fn recover(&mut self, now: u64, sequence: u64) -> bool {
        let Some(at) = self.missing.iter().position(|m| m.sequence == sequence) else { return true };
        let missing = self.missing.swap_remove(at);
        match missing.noticed_at {
            Some(noticed) => {
                let delay = ((now - noticed) / 1000) as usize;
                self.delays_ns[delay.min(LONGEST_NS - 1)] += 1;
            }
            None => self.unnoticed -= 1,
        }
        false
    }

    /// The sender is asked for frames.
    pub fn want(&mut self, loss: Loss, next: u64) {
        let first = last_with_low(loss.first, loss.leading.near(next));
        self.wanted.retain(|s| *s + FINAL > next);
        self.wanted.extend((first..).take(loss.count.min(self.most_wanted).into()));
    }

    /// Whether the sender was asked for this frame.
    #[inline]
    pub fn is_wanted(&self, sequence: u64) -> bool {
        !self.wanted.is_empty() && self.wanted.contains(&sequence)
    }

    /// A wanted frame is sent again.
    pub fn forget_wanted(&mut self, sequence: u64) {
        self.wanted.retain(|s| *s != sequence);
    }
}
