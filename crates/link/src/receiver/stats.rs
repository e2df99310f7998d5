//! Counters of a receiver: those of the original's `check_receiver_state`, and what mending its
//! defects adds.

/// Numbers of things since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverStats {
    /// Numbered frames that arrived, retransmitted ones included.
    pub frames: u64,
    /// Of these, in ordered mode.
    pub ordered_frames: u64,
    /// Frames that arrived without a number.
    pub plain_frames: u64,
    /// Dummies that arrived.
    pub dummies: u64,
    /// Frames handed on that had a number.
    pub delivered_frames: u64,
    /// Gaps found ("ingress debug counter").
    pub gaps: u64,
    /// Gaps by length, 1 to 9; the last counts all longer ones.
    pub gaps_by_length: [u64; 10],
    /// Frames missing in them.
    pub lost_frames: u64,
    /// Notifications sent, repeated ones included.
    pub notifications: u64,
    /// Notifications left out because too many waited.
    pub dropped_notifications: u64,
    /// Missing frames that came.
    pub recovered_frames: u64,
    /// Frames that came twice, or after they were given up.
    pub duplicates: u64,
    /// Time-outs ("timer packets with timeout trigger").
    pub timeouts: u64,
    /// Frames given up.
    pub skipped_frames: u64,
    /// Frames there was no room for.
    pub overflows: u64,
    /// Frames that cannot be: retransmissions of what was never missed.
    pub refused_frames: u64,
    /// Acknowledgements sent in front of other frames.
    pub piggybacked_acknowledgements: u64,
    /// Acknowledgements sent on their own.
    pub courier_acknowledgements: u64,
    /// Pauses and resumptions asked for.
    pub pauses: u64,
    /// Resumptions asked for.
    pub resumptions: u64,
    /// Beginnings of a sender that were followed.
    pub handshakes: u64,
    /// Looks at frames in the ring that had to go round again ("egress debug counter").
    pub revolutions: u64,
    /// Most bytes that waited.
    pub peak_waiting_bytes: u64,
}

impl ReceiverStats {
    /// Grows `times` by what has grown since `before`, while nothing was lost.
    pub(crate) fn repeat(&mut self, before: &ReceiverStats, times: u64) {
        self.frames += (self.frames - before.frames) * times;
        self.ordered_frames += (self.ordered_frames - before.ordered_frames) * times;
        self.delivered_frames += (self.delivered_frames - before.delivered_frames) * times;
        self.dummies += (self.dummies - before.dummies) * times;
        self.courier_acknowledgements += (self.courier_acknowledgements - before.courier_acknowledgements) * times;
    }
}

/// What `check_receiver_state` shows besides counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverState {
    /// The next new number, as on the wire (expected_seq_no).
    pub expected: u16,
    /// The next number to hand on, as on the wire (ack).
    pub due: u16,
    /// Its era (ack_era).
    pub due_era: bool,
    /// How long the gap may still last (time_remaining); `None` without a gap.
    pub remaining_ps: Option<u64>,
    /// What acknowledgements say, as on the wire (leading_ack).
    pub leading: u16,
    /// Its era.
    pub leading_era: bool,
    /// How often it will still be said (leading_ack_notify_count).
    pub acknowledgements_left: u8,
    /// Bytes that wait.
    pub waiting_bytes: u64,
    /// Whether the sender was asked to stop.
    pub is_paused: bool,
}
