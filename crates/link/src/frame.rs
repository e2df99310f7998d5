//! What goes over the link, in both directions, as meaning; [`crate::wire`] has the bytes.

use crate::config::Mode;
use crate::sequence::WireSequence;

/// A frame that is carried: an owned packet, a counted reference to one, or in a simulator its
/// length. A copy must be cheap.
pub trait Frame: Clone {
    /// Length in bytes, from the destination address to the end of the payload, without the check sequence.
    fn bytes(&self) -> u32;

    /// Cells of 80 bytes it takes in the buffers of the switch that the thresholds are made for.
    #[inline]
    fn cells(&self) -> u32 {
        self.bytes().div_ceil(CELL_BYTES)
    }
}

/// Unit of the original's buffers and thresholds.
pub const CELL_BYTES: u32 = 80;

/// Simulators carry lengths.
impl Frame for u32 {
    #[inline]
    fn bytes(&self) -> u32 {
        *self
    }
}

/// The header of a numbered frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHeader {
    /// Its number; of a dummy, the number that comes next.
    pub sequence: WireSequence,
    /// One of the copies that were asked for.
    pub is_retransmission: bool,
    /// Whether the receiver holds later frames back. The sender decides.
    pub mode: Mode,
}

/// What a sender puts on the link and a receiver takes from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkFrame<F> {
    /// As it came: protection is off, or not agreed upon yet.
    Plain(F),
    /// A numbered frame.
    Data {
        /// Number and kind.
        header: DataHeader,
        /// What is carried.
        frame: F,
    },
    /// Carries nothing but the next number, so that a loss at the end of a burst is seen.
    Dummy(DataHeader),
    /// A sender begins anew: the number that comes next, and which beginning this is.
    Sync {
        /// The next number.
        header: DataHeader,
        /// Larger than that of any earlier beginning.
        epoch: u64,
    },
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The leading number: see [`crate::config::Acknowledgement`] for what is known of it and all before.
    pub leading: WireSequence,
    /// In front of a frame that goes there anyway.
    pub is_piggybacked: bool,
    /// Answers the [`LinkFrame::Sync`] with this tag ([`sync_tag`]); 0 answers none.
    pub sync: u8,
}

/// What fits into the four spare bits of an acknowledgement to say which beginning is meant.
pub fn sync_tag(epoch: u64) -> u8 {
    8 | (epoch & 7) as u8
}

/// A loss notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The last number known to have been sent: that of the frame that showed the gap.
    pub leading: WireSequence,
    /// The first missing number; its era is such that it is not after `leading`.
    pub first: u16,
    /// How many are missing.
    pub count: u8,
}

/// What a receiver tells the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// Copies may be freed.
    Ack(Ack),
    /// Copies are wanted.
    Loss(Loss),
    /// Stop sending numbered frames for so many quanta of 512 bit times; 0 goes on (PFC).
    Pause {
        /// How long.
        quanta: u16,
    },
    /// Go back: all from this number on is wanted again (go-back-N only).
    Replay(WireSequence),
}

/// A chance to send control information.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Before everything else: notifications and pauses.
    Urgent,
    /// A frame is about to leave and can carry an acknowledgement.
    Piggyback,
    /// There is nothing else to send.
    Idle,
}

/// What became of a frame that arrived. Frames that wait may have become due: ask
/// [`crate::LinkReceiver::poll_deliver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival<F> {
    /// To be handed on now.
    Deliver(F),
    /// Kept until what is missing has come.
    Held,
    /// It carried nothing.
    Consumed,
    /// Not wanted: a duplicate, or there is no room.
    Dropped(F),
}
