//! What happens in the protocol, one line for each event. A simulator and a real link that lose the
//! same frames write the same lines, at other times.

use crate::sequence::FIRST;
use std::fmt;

/// One event. Numbers are of 64 bits, from [`FIRST`] on; as text they count from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // `sequence` and `first` are frame numbers, `count` is a number of frames.
pub enum Event {
    /// Sender: a frame got its number and went out.
    Sent { sequence: u64 },
    /// Sender: a copy went out again, the `copy`-th, from 1.
    Retransmitted { sequence: u64, copy: u8 },
    /// Sender: a dummy showed the number that comes next.
    Probed { next: u64 },
    /// Sender: a notification asked for frames.
    Asked { first: u64, count: u32 },
    /// Sender: a copy was wanted that is not kept any more.
    Missed { sequence: u64 },
    /// Sender: the receiver asked to stop.
    Stopped,
    /// Sender: the receiver asked to go on.
    Resumed,
    /// Sender: asks the receiver to begin at this number.
    Began { next: u64, epoch: u64 },
    /// Sender: the receiver has agreed.
    Agreed { epoch: u64 },
    /// Receiver: frames are missing.
    Lost { first: u64, count: u64 },
    /// Receiver: told the sender so.
    Notified { first: u64, count: u8 },
    /// Receiver: handed a frame on.
    Delivered { sequence: u64 },
    /// Receiver: a frame that had come before, or too late.
    Duplicate { sequence: u64 },
    /// Receiver: gave a frame up.
    Skipped { sequence: u64 },
    /// Receiver: no room for a frame.
    Overflow { sequence: u64 },
    /// Receiver: asked the sender to stop.
    Paused,
    /// Receiver: asked the sender to go on.
    Unpaused,
    /// Receiver: begins at this number.
    Adopted { next: u64, epoch: u64 },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let plain = |sequence: u64| sequence.wrapping_sub(FIRST) as i64;
        match *self {
            Event::Sent { sequence } => write!(f, "sent {}", plain(sequence)),
            Event::Retransmitted { sequence, copy } => write!(f, "retransmitted {} copy {copy}", plain(sequence)),
            Event::Probed { next } => write!(f, "probed {}", plain(next)),
            Event::Asked { first, count } => write!(f, "asked {} count {count}", plain(first)),
            Event::Missed { sequence } => write!(f, "missed {}", plain(sequence)),
            Event::Stopped => f.write_str("stopped"),
            Event::Resumed => f.write_str("resumed"),
            Event::Began { next, epoch } => write!(f, "began {} epoch {epoch}", plain(next)),
            Event::Agreed { epoch } => write!(f, "agreed epoch {epoch}"),
            Event::Lost { first, count } => write!(f, "lost {} count {count}", plain(first)),
            Event::Notified { first, count } => write!(f, "notified {} count {count}", plain(first)),
            Event::Delivered { sequence } => write!(f, "delivered {}", plain(sequence)),
            Event::Duplicate { sequence } => write!(f, "duplicate {}", plain(sequence)),
            Event::Skipped { sequence } => write!(f, "skipped {}", plain(sequence)),
            Event::Overflow { sequence } => write!(f, "overflow {}", plain(sequence)),
            Event::Paused => f.write_str("paused"),
            Event::Unpaused => f.write_str("unpaused"),
            Event::Adopted { next, epoch } => write!(f, "adopted {} epoch {epoch}", plain(next)),
        }
    }
}

/// Who wants to know of events. `()` does not, and costs nothing.
pub trait Log {
    /// Something happened.
    fn event(&mut self, now_ps: u64, event: Event);
}

impl Log for () {
    #[inline]
    fn event(&mut self, _now_ps: u64, _event: Event) {}
}

/// Keeps all, with their times.
impl Log for Vec<(u64, Event)> {
    fn event(&mut self, now_ps: u64, event: Event) {
        self.push((now_ps, event));
    }
}
