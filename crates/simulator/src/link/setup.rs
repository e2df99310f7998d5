//! The links of the publication, and what the same protocol does with better buffers.

use super::protected::Setup;
use super::timing::{Rate, Timing};
use karakoram_link::config::{CopyStore, LineRate, Protection, ReceiverConfig, Reorder, SenderConfig};

/// Where copies and frames out of order are kept. Results of the two are never compared as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// In rings that frames rotate in, as the switches of the publication have to.
    Rings,
    /// In memory with random access: copies leave at once, and frames in order as soon as they may.
    Sorted,
}

impl Buffers {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Buffers::Rings => "ring",
            Buffers::Sorted => "sorted",
        }
    }
}

/// The sender's queue in stress tests, cells.
pub const STRESS_QUEUE_CELLS: u32 = 200;
/// From which depth on congestion is marked, cells (100 KB).
pub const MARK_CELLS: u32 = 1250;
/// A round of the packet that shows the end of a burst.
const DUMMY_DELAY: u64 = 600_000;

/// The rate of a line in bits per second.
pub fn rate(line: LineRate) -> Rate {
    match line {
        LineRate::G10 => Rate::gigabits(10),
        LineRate::G25 => Rate::gigabits(25),
        LineRate::G100 => Rate::gigabits(100),
    }
}

impl Setup {
    /// The publication's link.
    pub fn published(line: LineRate, protection: Option<Protection>, buffers: Buffers) -> Setup {
        let (copy_store, reorder) = match buffers {
            Buffers::Rings => (CopyStore::Ring, Reorder::Ring),
            Buffers::Sorted => (CopyStore::Immediate, Reorder::Sorted),
        };
        Setup {
            sender: SenderConfig { copy_store, dummy_delay_ps: DUMMY_DELAY, ..SenderConfig::original(line) },
            receiver: ReceiverConfig { reorder, ..ReceiverConfig::original(line) },
            protection,
            timing: Timing::published(rate(line)),
            mark_cells: Some(MARK_CELLS),
        }
    }

    /// The same with the small queue of the stress tests.
    #[must_use]
    pub fn stressed(mut self) -> Setup {
        self.sender.queue_cells = STRESS_QUEUE_CELLS;
        self.mark_cells = None;
        self
    }
}
