//! How long things take in the switches and on the wire.
//!
//! The constants are fitted to the published retransmission delays (Figure 19) and flight times of
//! resumptions (Appendix B.1), once, for all line rates; everything else is predicted with them.

/// Bytes on the wire that are not in a frame: preamble, start, gap (20) and check sequence (4).
pub const WIRE_BYTES: u64 = 24;
/// Bytes the protocol adds to a frame.
pub const HEADER_BYTES: u64 = 3;
/// Bytes of the smallest frame, without its check sequence.
pub const LEAST_BYTES: u64 = 60;

/// A line rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

impl Rate {
    /// Of so many gigabits per second.
    pub const fn gigabits(gigabits: u64) -> Rate {
        Rate(gigabits * 1_000_000_000)
    }

    /// How long so many bytes take, in picoseconds.
    pub fn time(self, bytes: u64) -> u64 {
        // All rates that matter have whole picoseconds per byte.
        bytes * (8_000_000_000_000 / self.0)
    }

    /// How long a frame takes on the wire, with a protocol header of so many bytes.
    pub fn frame(self, bytes: u64, header: u64) -> u64 {
        self.time((bytes + header).max(LEAST_BYTES) + WIRE_BYTES)
    }
}

/// Delays of a protected link, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The line rate.
    pub rate: Rate,
    /// Frames that are committed to the port, the one on the wire among them, and cannot be overtaken.
    pub committed: usize,
    /// Cable and transceivers.
    pub propagation: u64,
    /// From a frame that shows a gap to the hole being known at the sender.
    pub notification: u64,
    /// From a frame to its acknowledgement at the sender.
    pub acknowledgement: u64,
    /// From the start of a frame on the wire to the first look at its copy.
    pub mirror: u64,
    /// A round of the sender's ring of copies, without queueing.
    pub copy_round: u64,
    /// From the look at a copy that is wanted to its place in the queue.
    pub requeue: u64,
    /// More of that when several copies are made.
    pub multicast: u64,
    /// A round of the receiver's ring, without queueing.
    pub reorder_round: u64,
    /// From a threshold to the sender's queue stopping or going on, after the next tick.
    pub pause: u64,
    /// The tick that carries pauses.
    pub tick: u64,
    /// The rate of the rings' ports.
    pub ring_rate: Rate,
}

const NANOSECOND: u64 = 1_000;

impl Timing {
    /// The switches of the publication, with a link of this rate.
    pub fn published(rate: Rate) -> Timing {
        Timing {
            rate,
            committed: 3,
            propagation: 50 * NANOSECOND,
            notification: 1300 * NANOSECOND,
            acknowledgement: 1450 * NANOSECOND,
            mirror: 600 * NANOSECOND,
            copy_round: 700 * NANOSECOND,
            requeue: 280 * NANOSECOND,
            multicast: 300 * NANOSECOND,
            reorder_round: 700 * NANOSECOND,
            pause: 1300 * NANOSECOND,
            tick: 100 * NANOSECOND,
            ring_rate: Rate::gigabits(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_frame_at_the_three_rates() {
        let slot = |gigabits| Rate::gigabits(gigabits).frame(1514, HEADER_BYTES);
        assert_eq!([slot(10), slot(25), slot(100)], [1_232_800, 493_120, 123_280]);
        assert_eq!(Rate::gigabits(100).frame(20, 0), 84 * 80);
    }
}
