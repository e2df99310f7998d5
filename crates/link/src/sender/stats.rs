//! Counters of a sender: those of the original's `check_sender_state`, and what mending its defects
//! adds.

/// Numbers of things since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderStats {
    /// Numbered frames sent.
    pub frames: u64,
    /// Frames sent without protection.
    pub plain_frames: u64,
    /// Frames that found the queue full.
    pub queue_drops: u64,
    /// Lost frames that were sent again.
    pub retransmitted_frames: u64,
    /// Copies that went out for them.
    pub retransmitted_copies: u64,
    /// Retransmitted frames by their place in the notification, 1 to 5; the last counts all beyond.
    pub retransmitted_by_place: [u64; 6],
    /// Copies freed by acknowledgements.
    pub freed_copies: u64,
    /// Copies that had to make room while they could still have been asked for.
    pub evicted_copies: u64,
    /// Looks at copies that came round and stayed ("ingress debug counter"; ring only).
    pub revolutions: u64,
    /// Dummies sent ("egress debug counter").
    pub dummies: u64,
    /// Acknowledgements that said something new.
    pub acknowledgements: u64,
    /// Notifications.
    pub notifications: u64,
    /// Frames asked for that were not kept any more.
    pub missed_frames: u64,
    /// Control messages that cannot be true: about frames that were never sent.
    pub refused_controls: u64,
    /// Pauses asked for.
    pub pauses: u64,
    /// Beginnings, and new beginnings after the other end fell silent.
    pub handshakes: u64,
    /// Most bytes that were kept in copies.
    pub peak_copy_bytes: u64,
}

impl SenderStats {
    /// Grows `times` by what has grown since `before`, while nothing was lost.
    pub(crate) fn repeat(&mut self, before: &SenderStats, times: u64) {
        self.frames += (self.frames - before.frames) * times;
        self.freed_copies += (self.freed_copies - before.freed_copies) * times;
        self.revolutions += (self.revolutions - before.revolutions) * times;
        self.acknowledgements += (self.acknowledgements - before.acknowledgements) * times;
        self.queue_drops += (self.queue_drops - before.queue_drops) * times;
        self.dummies += (self.dummies - before.dummies) * times;
    }
}

/// What `check_sender_state` shows besides counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenderState {
    /// The number that comes next, as on the wire.
    pub next: u16,
    /// Its era.
    pub next_era: bool,
    /// The leading acknowledgement, as on the wire.
    pub leading: u16,
    /// Its era.
    pub leading_era: bool,
    /// Copies for each lost frame.
    pub copies: u8,
    /// Cells in the queue.
    pub queue_cells: u32,
    /// Bytes in copies.
    pub copy_bytes: u64,
    /// Whether frames are numbered.
    pub is_protecting: bool,
    /// Whether the receiver asked to stop, as of the last call.
    pub is_paused: bool,
}
