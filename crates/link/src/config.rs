//! What can be set, and the values of the original at its three line rates.

use crate::rate::Probability;

/// Whether order is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Later frames wait until the gap is closed ("blocking").
    Ordered,
    /// Frames pass at once; recovered ones come late.
    NonBlocking,
}

/// Whether the machines do what the original does where that is a defect. Numbers are of 64 bits
/// and stale acknowledgements are ignored in both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fidelity {
    /// As the original: acknowledgements cover what was reported lost, a lost notification is never
    /// repeated, each missing frame has its own time-out, no handshake, duplicates pass in
    /// non-blocking mode.
    Original,
    /// With these mended.
    Corrected,
}

/// What an acknowledgement says of its number and all before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Acknowledgement {
    /// Received or reported lost. A lost notification then loses the frames for good.
    Reported,
    /// Received or given up. Copies stay until they are of no use.
    Received,
}

impl Fidelity {
    /// What acknowledgements mean.
    pub fn acknowledgement(self) -> Acknowledgement {
        match self {
            Fidelity::Original => Acknowledgement::Reported,
            Fidelity::Corrected => Acknowledgement::Received,
        }
    }
}

/// When copies are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CopyStore {
    /// At once, when a control message comes.
    Immediate,
    /// When they come round: the driver keeps the time and calls [`crate::Sender::visit`].
    Ring,
}

/// How frames wait for those before them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reorder {
    /// In place by number; what is due leaves at once.
    Sorted,
    /// In a queue in order of arrival, looked at one by one as they come round: the driver keeps the
    /// time and calls [`crate::Receiver::visit`]. Only with [`Fidelity::Original`].
    Ring,
}

/// Agreement of both ends on a number to begin with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handshake {
    /// Larger than with any earlier beginning on this link, such as the time of day.
    pub epoch: u64,
    /// How long to wait for an answer.
    pub retry_ps: u64,
}

/// Settings of a sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenderConfig {
    /// See [`Fidelity`].
    pub fidelity: Fidelity,
    /// Dummies after the last frame of a burst.
    pub dummies: u8,
    /// How long the link is idle before a dummy.
    pub dummy_delay_ps: u64,
    /// Room in the queue for frames without a number, in cells.
    pub queue_cells: u32,
    /// Room for copies, in frames; rounded up to a power of two. Unless it is the original, the sender
    /// waits when it is full, so that with no more of it than the receiver has room
    /// ([`ReceiverConfig::window_frames`]) nothing ever overflows.
    pub copy_frames: usize,
    /// Losses after so many in one notification are not retransmitted.
    pub max_burst: Option<u8>,
    /// When copies are looked at.
    pub copy_store: CopyStore,
    /// Ask again, by a dummy, when nothing was acknowledged for so long.
    pub probe_ps: Option<u64>,
    /// A frame that was retransmitted is not retransmitted again for so long.
    pub resend_guard_ps: u64,
    /// Begin with a handshake; frames go unprotected until it is done.
    pub handshake: Option<Handshake>,
    /// A quantum of pauses: 512 bit times.
    pub quantum_ps: u64,
}

/// When to ask the sender to stop and to go on, in cells that wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Thresholds {
    /// Stop from here on.
    pub pause_cells: u32,
    /// Go on down from here.
    pub resume_cells: u32,
    /// Say so again this often while stopped; never, in the original.
    pub refresh_ps: Option<u64>,
}

/// Settings of a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// See [`Fidelity`].
    pub fidelity: Fidelity,
    /// How frames wait.
    pub reorder: Reorder,
    /// Frames that can wait at most; rounded up to a power of two, at most [`MOST_WINDOW`].
    pub window_frames: usize,
    /// How long a gap may last before the frame is given up (ackNoTimeout).
    pub timeout_ps: u64,
    /// The clock that time-outs are counted with; 0 is exact.
    pub tick_ps: u64,
    /// How often a new acknowledgement is sent.
    pub acknowledgements: u8,
    /// How often a notification is sent.
    pub notifications: u8,
    /// Notify again when a gap has lasted so long.
    pub renotify_ps: Option<u64>,
    /// Drop duplicates in non-blocking mode.
    pub drops_duplicates: bool,
    /// Back-pressure.
    pub thresholds: Option<Thresholds>,
}

/// Largest window: with more, numbers on the wire would not say which frame is meant.
pub const MOST_WINDOW: usize = 1 << 15;

/// Line rates that the original has constants for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LineRate {
    /// 10 Gb/s.
    G10,
    /// 25 Gb/s.
    G25,
    /// 100 Gb/s.
    G100,
}

impl LineRate {
    /// Picoseconds for a byte.
    pub fn byte_ps(self) -> u64 {
        match self {
            LineRate::G10 => 800,
            LineRate::G25 => 320,
            LineRate::G100 => 80,
        }
    }

    /// ackNoTimeout, in ticks of 100 ns.
    fn timeout_ticks(self) -> u64 {
        match self {
            LineRate::G10 => 135,
            LineRate::G25 => 75,
            LineRate::G100 => 70,
        }
    }

    /// Resume and pause thresholds, in cells.
    fn thresholds(self) -> Thresholds {
        let (resume_cells, pause_cells) = match self {
            LineRate::G10 => (622, 662),
            LineRate::G25 => (497, 537),
            LineRate::G100 => (460, 500),
        };
        Thresholds { pause_cells, resume_cells, refresh_ps: None }
    }
}

/// The original's clock.
pub const TICK_PS: u64 = 100_000;

/// Bits of a pause quantum.
pub const QUANTUM_BITS: u64 = 512;

impl SenderConfig {
    /// The original, with as many dummies as its command line sets.
    pub fn original(rate: LineRate) -> SenderConfig {
        SenderConfig {
            fidelity: Fidelity::Original,
            dummies: 3,
            dummy_delay_ps: 0,
            queue_cells: 7000,
            copy_frames: 4096,
            max_burst: Some(5),
            copy_store: CopyStore::Immediate,
            probe_ps: None,
            resend_guard_ps: 0,
            handshake: None,
            quantum_ps: QUANTUM_BITS / 8 * rate.byte_ps(),
        }
    }

    /// The corrected protocol on a link with this round trip, from a lost frame to its copy.
    pub fn corrected(byte_ps: u64, round_trip_ps: u64, epoch: u64) -> SenderConfig {
        SenderConfig {
            fidelity: Fidelity::Corrected,
            max_burst: None,
            probe_ps: Some(4 * round_trip_ps),
            resend_guard_ps: round_trip_ps,
            handshake: Some(Handshake { epoch, retry_ps: 4 * round_trip_ps }),
            quantum_ps: QUANTUM_BITS / 8 * byte_ps,
            ..SenderConfig::original(LineRate::G100)
        }
    }
}

impl ReceiverConfig {
    /// The original.
    pub fn original(rate: LineRate) -> ReceiverConfig {
        ReceiverConfig {
            fidelity: Fidelity::Original,
            reorder: Reorder::Ring,
            window_frames: 4096,
            timeout_ps: rate.timeout_ticks() * TICK_PS,
            tick_ps: TICK_PS,
            acknowledgements: 2,
            notifications: 1,
            renotify_ps: None,
            drops_duplicates: false,
            thresholds: Some(rate.thresholds()),
        }
    }

    /// The corrected protocol on a link with this round trip, from a lost frame to its copy: a gap is
    /// asked for again after two round trips, and given up after ten.
    pub fn corrected(round_trip_ps: u64) -> ReceiverConfig {
        ReceiverConfig {
            fidelity: Fidelity::Corrected,
            reorder: Reorder::Sorted,
            timeout_ps: 10 * round_trip_ps,
            tick_ps: 0,
            renotify_ps: Some(2 * round_trip_ps),
            drops_duplicates: true,
            thresholds: None,
            ..ReceiverConfig::original(LineRate::G100)
        }
    }
}

/// What a port is protected with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Protection {
    /// Whether order is kept.
    pub mode: Mode,
    /// Copies for each lost frame.
    pub copies: u8,
}

impl Protection {
    /// As many copies as this loss rate calls for.
    pub fn against(loss: Probability, mode: Mode) -> Protection {
        Protection { mode, copies: loss.copies_for(Probability::HEALTHY) }
    }
}
