//! Flow completion times over a link, unprotected or protected.

use crate::flow::{Content, Frame, Host, Kind, Path, Station, Transport, World};
use crate::link::{Buffers, ProtectedLink, Setup};
use crate::loss::{LossModel, LossStream};
use crate::random::Random;
use crate::rdma;
use crate::tcp::{self, Jiffies, congestion::Algorithm};
use karakoram_link::config::{LineRate, Mode, Protection};

const MILLISECOND: u64 = 1_000_000_000;
/// Flows begin so long after the one before, so that nothing is under way.
const BETWEEN: u64 = 100_000_000;

/// What is done about corrupted frames: the parts of the protocol, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Nothing is corrupted.
    Lossless,
    /// Nothing.
    Unprotected,
    /// Frames are sent again.
    Resend,
    /// And kept in order.
    ResendOrder,
    /// Frames are sent again, and dummies show losses at the end of a burst: the non-blocking mode.
    NonBlocking,
    /// All of it: the ordered mode.
    Ordered,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 6] = [
        Variant::Lossless,
        Variant::Unprotected,
        Variant::Resend,
        Variant::ResendOrder,
        Variant::NonBlocking,
        Variant::Ordered,
    ];

    /// Its name, as the publication writes it.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Lossless => "no loss",
            Variant::Unprotected => "loss",
            Variant::Resend => "ReTx",
            Variant::ResendOrder => "ReTx+Order",
            Variant::NonBlocking => "LG_NB",
            Variant::Ordered => "LG",
        }
    }

    fn mode(self) -> Option<Mode> {
        match self {
            Variant::Lossless | Variant::Unprotected => None,
            Variant::Resend | Variant::NonBlocking => Some(Mode::NonBlocking),
            Variant::ResendOrder | Variant::Ordered => Some(Mode::Ordered),
        }
    }

    /// The link with it.
    pub fn setup(self, line: LineRate, copies: u8, buffers: Buffers) -> Setup {
        let protection = self.mode().map(|mode| Protection { mode, copies });
        let mut setup = Setup::published(line, protection, buffers);
        if matches!(self, Variant::Resend | Variant::ResendOrder) {
            setup.sender.dummies = 0;
        }
        setup
    }
}

/// Flows of one kind over one link, one after the other.
#[derive(Clone, Debug)]
pub struct Flows {
    /// Their transport.
    pub kind: Kind,
    /// Bytes of each.
    pub bytes: u64,
    /// How many.
    pub count: u32,
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
    /// The seed.
    pub seed: u64,
}

/// What came of the flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// How long each took, picoseconds, ascending.
    pub times: Vec<u64>,
    /// Flows some of whose data frames were corrupted.
    pub hit: u32,
    /// Flows whose transport sent something again.
    pub repaired: u32,
    /// Flows with a timeout or a probe of the tail.
    pub timed_out: u32,
}

impl Completions {
    /// A quantile, picoseconds.
    pub fn quantile(&self, share: f64) -> u64 {
        let last = self.times.len().saturating_sub(1);
        self.times.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
    }

    /// Mean and standard deviation, picoseconds.
    pub fn moments(&self) -> (f64, f64) {
        let n = self.times.len().max(1) as f64;
        let mean = self.times.iter().map(|t| *t as f64).sum::<f64>() / n;
        let variance = self.times.iter().map(|t| (*t as f64 - mean).powi(2)).sum::<f64>() / n;
        (mean, variance.sqrt())
    }
}

impl Path for ProtectedLink<Frame> {
    fn enqueue(&mut self, now: u64, frame: Frame) -> bool {
        ProtectedLink::enqueue(self, now, frame)
    }

    fn next_time(&self) -> u64 {
        ProtectedLink::next_time(self)
    }

    fn step(&mut self, now: u64, mut sink: &mut dyn FnMut(u64, Frame)) {
        ProtectedLink::step(self, now, &mut sink);
    }
}

/// The hosts of a transport.
pub fn host(kind: Kind) -> Host {
    match kind {
        Kind::Tcp(_) => Host::tcp(),
        Kind::Rdma(_) => Host::rdma(),
    }
}

/// The two ends of a new flow, as the published hosts are set up: MTU 1500, timestamps off, least
/// timeout 1 ms, a clock of 1000 Hz, buffers of 8 MB; RDMA with an MTU of 1024 and the timeout
/// exponent 8.
pub fn transport(kind: Kind, bytes: Option<u64>, random: &mut Random) -> Transport {
    match kind {
        Kind::Tcp(algorithm) => {
            let config = tcp::Config {
                algorithm,
                bytes,
                segment_bytes: 1460,
                first_window: 10,
                largest_window: 8_000_000 / 1460,
                least_timeout: MILLISECOND,
                jiffies: Jiffies { length: MILLISECOND, phase: random.below(MILLISECOND) },
                handshake_rtt: 33_000_000,
                seed: random.bits(),
            };
            Transport::Tcp(tcp::Sender::new(config), tcp::Receiver::new(algorithm == Algorithm::Dctcp))
        }
        Kind::Rdma(repair) => {
            let config = rdma::Config {
                repair,
                bytes: bytes.unwrap_or(1 << 30),
                packet_bytes: 1024,
                window: if repair == rdma::Repair::Selective { 128 } else { u32::MAX },
                // 4.096 us * 2^8, which adapters exceed by up to a quarter.
                timeout: (1_048_576_000.0 * random.between(1.0, 1.25)) as u64,
                reaction: 3_000_000,
            };
            Transport::Rdma(rdma::Sender::new(config), rdma::Receiver::new(repair))
        }
    }
}

/// Runs the flows.
pub fn run(flows: &Flows) -> Completions {
    let loss = if flows.variant == Variant::Lossless { LossModel::Never } else { flows.loss.clone() };
    let setup = flows.variant.setup(flows.line, flows.copies, flows.buffers);
    let mut link = ProtectedLink::new(&setup, LossStream::new(loss, Random::named(flows.seed, "link losses")));
    let mut random = Random::named(flows.seed, "hosts");
    let mut result = Completions::default();
    let mut now = 0;
    for _ in 0..flows.count {
        now = run_one(flows, &mut link, &mut random, now, &mut result);
    }
    result.times.sort_unstable();
    result
}

fn run_one(
    flows: &Flows,
    link: &mut ProtectedLink<Frame>,
    random: &mut Random,
    now: u64,
    result: &mut Completions,
) -> u64 {
    let lost_before = link.counters().lost;
    let hosts = stations(flows.kind, random);
    let transport = transport(flows.kind, Some(flows.bytes), random);
    let mut world = World::new(link, transport, hosts, random, now);
    let end = world.run_to_end();
    let (has_retransmitted, has_timed_out) = (world.transport.retransmissions() > 0, world.transport.timeouts() > 0);
    result.times.push(end - now);
    result.repaired += u32::from(has_retransmitted);
    result.timed_out += u32::from(has_timed_out);
    result.hit += u32::from(link.counters().lost > lost_before);
    drain(link, end + BETWEEN)
}

/// What is left on the link goes by. Returns when the next flow may begin. Without dummies, a lost frame
/// that nothing follows would be kept forever: a frame of somebody else shows that it is missing.
fn drain(link: &mut ProtectedLink<Frame>, mut until: u64) -> u64 {
    loop {
        match link.next_time() {
            u64::MAX => return until,
            at if at > until => {
                link.enqueue(until, Frame::new(Content::Ack(tcp::Ack::default()), false));
                until += BETWEEN;
            }
            at => link.step(at, &mut |_, _| {}),
        }
    }
}

fn stations(kind: Kind, random: &mut Random) -> [Station; 2] {
    let host = host(kind);
    let factor = random.log_normal(1.0, host.latency.spread);
    [Station::new(host, factor), Station::new(host, factor)]
}
