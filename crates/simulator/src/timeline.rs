//! A flow without end over a link that is good, begins to lose frames, and is then protected (Figures 9
//! and 21), looked at again and again.

use crate::bulk::{sent, stations, without_back_pressure};
use crate::fct::{Variant, transport};
use crate::flow::{Frame, Kind, World};
use crate::link::{Buffers, ProtectedLink, Setup};
use crate::loss::{LossModel, LossStream};
use crate::random::Random;
use crate::tcp::congestion::Algorithm;
use karakoram_link::config::{LineRate, Mode, Protection};
use karakoram_link::frame::CELL_BYTES;

/// What happens when. Times in picoseconds.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The transport.
    pub algorithm: Algorithm,
    /// The line.
    pub line: LineRate,
    /// What share of frames it loses, later on.
    pub loss: f64,
    /// Copies of lost frames, once it is protected; in order.
    pub copies: u8,
    /// Whether the receiver's switch may stop the sender's.
    pub has_back_pressure: bool,
    /// See [`crate::bulk::Bulk::moderation`].
    pub moderation: u64,
    /// When frames begin to be lost.
    pub lossy_at: u64,
    /// When the link is protected.
    pub protected_at: u64,
    /// When it ends.
    pub end: u64,
    /// How often it is looked at.
    pub step: u64,
    /// The seed.
    pub seed: u64,
}

/// One look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When.
    pub at: u64,
    /// Payload acknowledged since the look before, bits per second.
    pub goodput: f64,
    /// Segments sent again since then.
    pub retransmissions: u64,
    /// Bytes in the sender's queue now.
    pub queue_bytes: u64,
    /// Bytes that wait at the receiver for a lost frame now.
    pub waiting_bytes: u64,
}

/// Runs it.
pub fn run(timeline: &Timeline) -> Vec<Sample> {
    let mut setup =
        Setup { protection: None, ..Variant::Ordered.setup(timeline.line, timeline.copies, Buffers::Rings) };
    if !timeline.has_back_pressure {
        setup = without_back_pressure(setup);
    }
    let never = LossStream::new(LossModel::Never, Random::new(timeline.seed));
    let mut link = ProtectedLink::<Frame>::new(&setup, never);
    let mut random = Random::named(timeline.seed, "hosts");
    let transport = transport(Kind::Tcp(timeline.algorithm), None, &mut random);
    let mut world = World::new(&mut link, transport, stations(timeline.moderation), &mut random, 0);
    let mut samples = Vec::new();
    let mut before = (0, 0);
    for at in (0..=timeline.end).step_by(timeline.step as usize).skip(1) {
        let start = at - timeline.step;
        if (start..at).contains(&timeline.lossy_at) {
            world.path().lose(|from| losses(timeline, from));
        }
        if (start..at).contains(&timeline.protected_at) {
            world.path().protect(start, Protection { mode: Mode::Ordered, copies: timeline.copies });
        }
        world.run_until(at);
        samples.push(look(&mut world, at, timeline.step, &mut before));
    }
    samples
}

fn losses(timeline: &Timeline, from: u64) -> LossStream {
    let random = Random::named(timeline.seed, "link losses");
    LossStream::starting(LossModel::Independent(timeline.loss), random, from)
}

fn look(world: &mut World<ProtectedLink<Frame>>, at: u64, step: u64, before: &mut (u64, u64)) -> Sample {
    let (acknowledged, statistics, _) = sent(&world.transport);
    let (first, again) = std::mem::replace(before, (acknowledged, statistics.retransmissions));
    let link = world.path();
    Sample {
        at,
        goodput: (acknowledged - first) as f64 * 1460.0 * 8.0 / (step as f64 / 1e12),
        retransmissions: statistics.retransmissions - again,
        queue_bytes: u64::from(link.queue_cells()) * u64::from(CELL_BYTES),
        waiting_bytes: link.occupancies()[1].bytes(),
    }
}
