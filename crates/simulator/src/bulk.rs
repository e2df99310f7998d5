//! Flows without end: what they achieve.

use crate::fct::{Variant, transport};
use crate::flow::{Host, Kind, Path, Station, Transport, World};
use crate::link::{Buffers, ProtectedLink, Rate, Setup};
use crate::loss::{LossModel, LossStream};
use crate::random::Random;
use crate::tcp::{self, congestion::Algorithm};
use karakoram_link::config::LineRate;
use karakoram_link::fec::Code;

/// Frames that the receiver's ring holds without back-pressure (200 KB).
const UNCHECKED_FRAMES: usize = 128;

/// A flow without end.
#[derive(Clone, Debug)]
pub struct Bulk {
    /// Its transport.
    pub algorithm: Algorithm,
    /// What is done about losses.
    pub variant: Variant,
    /// The line.
    pub line: LineRate,
    /// What it loses.
    pub loss: LossModel,
    /// Copies of lost frames.
    pub copies: u8,
    /// The switches' buffers.
    pub buffers: Buffers,
    /// Whether the receiver's switch may stop the sender's.
    pub has_back_pressure: bool,
    /// How long interrupts wait for more frames, picoseconds: adapters moderate them more under load than
    /// [`Host::tcp`] does for single flows.
    pub moderation: u64,
    /// How long it runs before it is measured, picoseconds.
    pub warm_up: u64,
    /// How long it is measured.
    pub time: u64,
    /// The seed.
    pub seed: u64,
}

/// What a flow without end achieved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Payload acknowledged, bits per second.
    pub goodput: f64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Frames that found the queue full.
    pub dropped: u64,
    /// Smoothed round trip at the end, picoseconds.
    pub rtt: u64,
    /// Times the transport repaired losses, and of them taken back.
    pub recoveries: u64,
    /// Most bytes of frames that waited for others.
    pub waiting_peak: u64,
}

/// Runs a flow without end.
pub fn run_bulk(bulk: &Bulk) -> Throughput {
    let loss = if bulk.variant == Variant::Lossless { LossModel::Never } else { bulk.loss.clone() };
    let mut setup = bulk.variant.setup(bulk.line, bulk.copies, bulk.buffers);
    if !bulk.has_back_pressure {
        setup = without_back_pressure(setup);
    }
    let mut link = ProtectedLink::new(&setup, LossStream::new(loss, Random::named(bulk.seed, "link losses")));
    measure(bulk, &mut link, |link| link.occupancies()[1].peak())
}

/// The switches of the published run without back-pressure.
pub(crate) fn without_back_pressure(mut setup: Setup) -> Setup {
    setup.receiver.thresholds = None;
    setup.receiver.window_frames = UNCHECKED_FRAMES;
    setup
}

/// Runs a flow without end over link FEC, after Wharf: the line at the rate that the code leaves, with
/// the losses it cannot mend.
pub fn run_coded(bulk: &Bulk, rate: f64, code: Code) -> Throughput {
    let mut setup = Variant::Unprotected.setup(bulk.line, 1, bulk.buffers);
    let whole = u64::from(code.data + code.parity);
    setup.timing.rate = Rate(setup.timing.rate.0 * u64::from(code.data) / whole);
    let losses = LossStream::new(LossModel::Coded { rate, code }, Random::named(bulk.seed, "link losses"));
    measure(bulk, &mut ProtectedLink::new(&setup, losses), |_| 0)
}

/// Runs a flow without end over any path.
fn measure<P: Path>(bulk: &Bulk, path: &mut P, waiting_peak: impl Fn(&P) -> u64) -> Throughput {
    let mut random = Random::named(bulk.seed, "hosts");
    let transport = transport(Kind::Tcp(bulk.algorithm), None, &mut random);
    let hosts = stations(bulk.moderation);
    let mut world = World::new(path, transport, hosts, &mut random, 0);
    world.run_until(bulk.warm_up);
    let before = sent(&world.transport);
    world.run_until(bulk.warm_up + bulk.time);
    let after = sent(&world.transport);
    let dropped = world.dropped;
    Throughput {
        goodput: (after.0 - before.0) as f64 * 1460.0 * 8.0 / (bulk.time as f64 / 1e12),
        retransmissions: after.1.retransmissions - before.1.retransmissions,
        dropped,
        rtt: after.2,
        recoveries: after.1.recoveries - before.1.recoveries,
        waiting_peak: waiting_peak(path),
    }
}

/// Two hosts under load.
pub(crate) fn stations(moderation: u64) -> [Station; 2] {
    let mut host = Host::tcp();
    host.latency.moderation = moderation;
    [Station::new(host, 1.0), Station::new(host, 1.0)]
}

/// Segments acknowledged, what the sender has counted, and its round trip.
pub(crate) fn sent(transport: &Transport) -> (u64, tcp::Statistics, u64) {
    match transport {
        Transport::Tcp(sender, _) => (sender.acknowledged().into(), sender.statistics(), sender.smoothed_rtt()),
        Transport::Rdma(..) => (0, tcp::Statistics::default(), 0),
    }
}
