//! The stress test: full frames at the line's rate over a protected link, to see what is still lost,
//! what the link still carries, and what its buffers hold.

use crate::link::{Buffers, Counters, Moment, Occupancy, ProtectedLink, Rate, Setup};
use crate::loss::{LossModel, LossStream};
use crate::random::Random;
use karakoram_link::Log;
use karakoram_link::config::{LineRate, Protection};
use karakoram_link::receiver::ReceiverStats;
use karakoram_link::sender::SenderStats;

/// When frames come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// One every so many picoseconds; when the queue is full, it is dropped.
    Paced(u64),
    /// The queue is never empty.
    Backlogged,
}

/// A stress test.
#[derive(Clone, Debug)]
pub struct Stress {
    /// The link.
    pub setup: Setup,
    /// What it loses.
    pub loss: LossModel,
    /// When frames come.
    pub source: Source,
    /// Bytes of a frame, without its check sequence.
    pub frame_bytes: u32,
    /// Frames that come, at least.
    pub frames: u64,
    /// The seed of the losses.
    pub seed: u64,
    /// With it, copies are lost at this rate and not like other frames: what makes rare events frequent. A
    /// frame that stays lost then counts (loss / copy_loss)^copies frames.
    pub copy_loss: Option<f64>,
    /// Whether stretches without loss are leapt over. It changes nothing but the time it takes.
    pub is_leaping: bool,
}

/// The published generator's period at 100G: 98.756 Gb/s of full frames.
pub const PUBLISHED_PERIOD: u64 = 124_590;
/// A full frame, without its check sequence.
pub const FULL_FRAME: u32 = 1514;

impl Stress {
    /// The published test: paced at 100G, backlogged below.
    pub fn published(line: LineRate, protection: Protection, buffers: Buffers, rate: f64) -> Stress {
        Stress {
            setup: Setup::published(line, Some(protection), buffers).stressed(),
            loss: LossModel::Independent(rate),
            source: if line == LineRate::G100 { Source::Paced(PUBLISHED_PERIOD) } else { Source::Backlogged },
            frame_bytes: FULL_FRAME,
            frames: 1_000_000,
            seed: 1,
            copy_loss: None,
            is_leaping: true,
        }
    }
}

/// What a stress test shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What happened on the wire.
    pub counters: Counters,
    /// Frames that never arrived.
    pub residual: u64,
    /// When the last frame was handed on, picoseconds.
    pub duration: u64,
    /// Frames of any kind on the wire.
    pub wire_frames: u64,
    /// Frames that were simulated one by one.
    pub stepped_frames: u64,
    /// From the notice of a loss to the first copy: how often it took so many nanoseconds.
    pub recovery_ns: Vec<u64>,
    /// Bytes of copies.
    pub copy_bytes: Occupancy,
    /// Bytes of frames that wait for others.
    pub waiting_bytes: Occupancy,
    /// Looks at copies and at frames that wait.
    pub ring_passes: [u64; 2],
    /// The sending machine's counters.
    pub sender: SenderStats,
    /// The receiving machine's counters.
    pub receiver: ReceiverStats,
}

impl Outcome {
    /// The share of frames that the bare link lost.
    pub fn actual_loss(&self) -> f64 {
        self.counters.lost as f64 / self.counters.sent as f64
    }

    /// The quantile of the times from the notice of a loss to the first copy, nanoseconds; none when
    /// nothing was recovered.
    pub fn recovery_quantile_ns(&self, share: f64) -> Option<u64> {
        let total: u64 = self.recovery_ns.iter().sum();
        let mut left = ((total.max(1) - 1) as f64 * share) as u64;
        let position = self.recovery_ns.iter().position(|count| {
            let is_here = left < *count;
            left = left.saturating_sub(*count);
            is_here
        });
        position.map(|ns| ns as u64)
    }

    /// The share that was lost all the same.
    pub fn effective_loss(&self) -> f64 {
        self.residual as f64 / self.counters.sent as f64
    }

    /// What arrived, in bits per second, as it would be on a wire without protection.
    pub fn carried(&self, frame_bytes: u32) -> f64 {
        let bits = Rate(1_000_000_000_000).frame(frame_bytes.into(), 0) as f64;
        self.counters.delivered as f64 * bits / self.duration as f64 * 1e12
    }
}

/// Runs a stress test, and returns what the machines logged beside what it shows.
pub fn run<L: Log + Default>(stress: &Stress) -> (Outcome, [L; 2]) {
    let losses = LossStream::new(stress.loss.clone(), Random::named(stress.seed, "link losses"));
    let mut link = ProtectedLink::<u32, L>::new(&stress.setup, losses);
    if let Some(rate) = stress.copy_loss {
        link.lose_copies(LossStream::new(LossModel::Independent(rate), Random::named(stress.seed, "copy losses")));
    }
    let mut run = Run {
        link,
        stress,
        arrives_at: 0,
        left: stress.frames,
        last: 0,
        end: 0,
        search: Search::default(),
        stepped: 0,
    };
    run.go();
    run.finish()
}

/// A test under way.
struct Run<'a, L> {
    link: ProtectedLink<u32, L>,
    stress: &'a Stress,
    /// When the next frame comes.
    arrives_at: u64,
    left: u64,
    last: u64,
    /// When the last thing happened.
    end: u64,
    search: Search,
    stepped: u64,
}

/// The search for a moment that repeats itself (Brent 1980): a moment is remembered, each later one
/// compared with it, and the distance doubled.
#[derive(Default)]
struct Search {
    moment: Option<(Moment, u64)>,
    steps: u64,
    limit: u64,
}

impl<L: Log> Run<'_, L> {
    fn go(&mut self) {
        match self.stress.source {
            Source::Paced(period) => self.go_paced(period),
            Source::Backlogged => self.go_backlogged(),
        }
        loop {
            let now = self.link.next_time();
            if now == u64::MAX {
                break;
            }
            self.end = now;
            self.step(now);
        }
    }

    fn go_paced(&mut self, period: u64) {
        while self.left > 0 {
            let now = self.link.next_time();
            if now < self.arrives_at {
                self.step(now);
                continue;
            }
            let now = self.arrives_at;
            if self.stress.is_leaping {
                self.leap(now);
            }
            let now = self.arrives_at.max(now);
            self.link.enqueue(now, self.stress.frame_bytes);
            self.stepped += 1;
            self.left -= 1;
            self.arrives_at = now + period;
        }
    }

    fn go_backlogged(&mut self) {
        let mut now = 0;
        let cells = self.stress.frame_bytes.div_ceil(80);
        let full = self.stress.setup.sender.queue_cells - cells;
        while self.left > 0 {
            if self.link.queue_cells() <= full {
                if self.stress.is_leaping {
                    now = self.leap(now);
                }
                self.link.enqueue(now, self.stress.frame_bytes);
                self.stepped += 1;
                self.left -= 1;
                continue;
            }
            now = self.link.next_time();
            self.step(now);
        }
    }

    #[inline]
    fn step(&mut self, now: u64) {
        let last = &mut self.last;
        self.link.step(now, &mut |at, _| *last = at);
    }

    /// Leaps as far as it may. Returns the time after it.
    fn leap(&mut self, now: u64) -> u64 {
        let search = &mut self.search;
        if !self.link.is_quiet() {
            search.moment = None;
            return now;
        }
        let Some((moment, left)) = &search.moment else {
            *search = Search { moment: Some((self.link.remember(now), self.left)), steps: 0, limit: 1 };
            return now;
        };
        search.steps += 1;
        if self.link.is_like(moment, now) {
            let frames = self.link.frames_since(moment).max(1);
            let taken = (left - self.left).max(1);
            let times = (self.link.frames_before_loss() / frames).min(self.left.saturating_sub(1) / taken);
            let elapsed = (now - moment.now()) * times;
            self.link.repeat(moment, now, times);
            self.left -= taken * times;
            self.last += elapsed;
            self.arrives_at += elapsed;
            search.moment = None;
            return now + elapsed;
        }
        if search.steps == search.limit {
            let limit = search.limit * 2;
            *search = Search { moment: Some((self.link.remember(now), self.left)), steps: 0, limit };
        }
        now
    }

    fn finish(mut self) -> (Outcome, [L; 2])
    where
        L: Default,
    {
        let counters = *self.link.counters();
        let end = self.end;
        let [copy_bytes, waiting_bytes] = self.link.occupancies().map(|o| o.closed(end));
        let outcome = Outcome {
            counters,
            residual: counters.sent - counters.delivered,
            duration: self.last,
            wire_frames: self.link.wire_frames(),
            stepped_frames: self.stepped,
            recovery_ns: self.link.recovery_ns().to_vec(),
            copy_bytes,
            waiting_bytes,
            ring_passes: self.link.ring_passes(),
            sender: *self.link.sender().stats(),
            receiver: *self.link.receiver().stats(),
        };
        let (sender, receiver) = self.link.logs();
        (outcome, [std::mem::take(sender), std::mem::take(receiver)])
    }
}
