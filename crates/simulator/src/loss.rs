//! Which frames a link corrupts. A [`LossStream`] names the position of the next corrupted frame in
//! the order of the wire, so that asking about a frame costs one comparison, and a simulator knows
//! how far it may look ahead.

use crate::random::Random;
use karakoram_link::fec::{Code, Fec};

/// How a link corrupts frames.
#[derive(Clone, Debug, PartialEq)]
pub enum LossModel {
    /// It does not.
    Never,
    /// Each frame with this probability, independently.
    Independent(f64),
    /// Gilbert and Elliott's channel of two states.
    Bursty(Bursty),
    /// The frames at these positions, ascending.
    Trace(Vec<u64>),
    /// Independent losses behind link FEC: what its code cannot mend. Positions are of data frames;
    /// the parity's share of the line is the rate's matter.
    Coded {
        /// Probability of losing a frame, data or parity.
        rate: f64,
        /// The code.
        code: Code,
    },
}

/// A channel that is good or bad (Gilbert 1960, Elliott 1963). Probabilities are per frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursty {
    /// From good to bad.
    pub worsen: f64,
    /// From bad to good.
    pub recover: f64,
    /// Of losing a frame while good.
    pub loss_good: f64,
    /// Of losing a frame while bad.
    pub loss_bad: f64,
}

impl Bursty {
    /// A channel that loses this share of frames, in bursts of this mean length (at least 1).
    pub fn of(rate: f64, burst: f64) -> Bursty {
        let recover = 1.0 / burst.max(1.0);
        Bursty { worsen: recover * rate / (1.0 - rate), recover, loss_good: 0.0, loss_bad: 1.0 }
    }

    /// The share of frames lost in the long run.
    pub fn rate(&self) -> f64 {
        let bad = self.worsen / (self.worsen + self.recover);
        bad * self.loss_bad + (1.0 - bad) * self.loss_good
    }
}

impl LossModel {
    /// The prototype's emulated loss: a 20-bit random number is looked up in a table with
    /// floor(p * 2^20) entries.
    pub fn table_of_20_bits(probability: f64) -> LossModel {
        let scale = f64::from(1 << 20);
        LossModel::Independent((probability * scale).floor() / scale)
    }

    /// The share of frames lost in the long run; of a trace, nothing is known.
    pub fn rate(&self) -> Option<f64> {
        match self {
            LossModel::Never => Some(0.0),
            LossModel::Independent(p) => Some(*p),
            LossModel::Bursty(channel) => Some(channel.rate()),
            LossModel::Trace(_) | LossModel::Coded { .. } => None,
        }
    }

    /// Reads a trace: one position in each line, ascending; empty lines and `#` comments are skipped.
    pub fn parse_trace(text: &str) -> Result<LossModel, String> {
        let mut positions = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let entry = line.split('#').next().unwrap_or_default().trim();
            if entry.is_empty() {
                continue;
            }
            let at = entry.parse::<u64>().map_err(|_| format!("line {}: `{entry}` is no position", number + 1))?;
            if positions.last().is_some_and(|last| *last >= at) {
                return Err(format!("line {}: position {at} is not above the one before it", number + 1));
            }
            positions.push(at);
        }
        Ok(LossModel::Trace(positions))
    }
}

/// The corrupted frames of one run, in order.
#[derive(Clone, Debug)]
pub struct LossStream {
    model: LossModel,
    random: Random,
    next: u64,
    /// Where in the trace `next` stands, plus one.
    taken: usize,
    is_bad: bool,
    /// Lost data frames of the last block that could not be mended, latest first.
    unmended: Vec<u64>,
    /// The next frame of the coded line, parity included, that is lost.
    next_raw: Option<u64>,
}

impl LossStream {
    /// The stream of a model and a source of random numbers.
    pub fn new(model: LossModel, random: Random) -> LossStream {
        LossStream::starting(model, random, 0)
    }

    /// The same for frames from a position on.
    pub fn starting(model: LossModel, random: Random, from: u64) -> LossStream {
        let mut stream =
            LossStream { model, random, next: 0, taken: 0, is_bad: false, unmended: Vec::new(), next_raw: None };
        stream.next = stream.following(from);
        stream
    }

    /// Position of the next frame that will be corrupted; `u64::MAX` for never.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether the frame at this position is corrupted. Positions are asked for in ascending order.
    #[inline]
    pub fn is_lost(&mut self, position: u64) -> bool {
        if position < self.next {
            return false;
        }
        self.next = self.following(position + 1);
        true
    }

    /// The first corrupted position that is at least `from`.
    fn following(&mut self, from: u64) -> u64 {
        match &self.model {
            LossModel::Never => u64::MAX,
            LossModel::Independent(p) => from.saturating_add(self.random.failures_before_success(*p)),
            LossModel::Bursty(channel) => self.following_burst(*channel, from),
            LossModel::Trace(positions) => {
                self.taken += positions[self.taken..].partition_point(|at| *at < from);
                positions.get(self.taken).copied().unwrap_or(u64::MAX)
            }
            LossModel::Coded { rate, code } => self.following_coded(*rate, *code),
        }
    }

    /// Looks for a block that cannot be mended, and gives its lost data frames one by one.
    fn following_coded(&mut self, rate: f64, code: Code) -> u64 {
        let length = u64::from(code.data + code.parity);
        while self.unmended.is_empty() {
            let first = match self.next_raw {
                Some(raw) => raw,
                None => self.random.failures_before_success(rate),
            };
            if first == u64::MAX {
                return u64::MAX;
            }
            let block = first / length;
            let mut lost = Vec::new();
            let mut raw = first;
            while raw / length == block {
                lost.push(raw % length);
                raw = (raw + 1).saturating_add(self.random.failures_before_success(rate));
            }
            self.next_raw = Some(raw);
            let mut fec = Fec::new(code);
            let result = (0..length).find_map(|place| fec.on_frame(lost.contains(&place)));
            if result.is_some_and(|r| r.residual > 0) {
                let data = u64::from(code.data);
                let places = lost.iter().rev().filter(|place| **place < data);
                self.unmended = places.map(|place| block * data + place).collect();
            }
        }
        self.unmended.pop().unwrap_or(u64::MAX)
    }

    /// Leaps from change of state to change of state: both times to wait are memoryless.
    fn following_burst(&mut self, channel: Bursty, mut from: u64) -> u64 {
        loop {
            let (loss, change) = match self.is_bad {
                true => (channel.loss_bad, channel.recover),
                false => (channel.loss_good, channel.worsen),
            };
            let lost = self.random.failures_before_success(loss);
            let changed = self.random.failures_before_success(change);
            if lost == u64::MAX && changed == u64::MAX {
                return u64::MAX;
            }
            // A frame meets the state it finds; the state may change after it.
            let is_first = lost <= changed;
            self.is_bad ^= changed <= lost;
            if is_first {
                return from.saturating_add(lost);
            }
            from = from.saturating_add(changed).saturating_add(1);
        }
    }
}

/// How long the bursts of lost frames are that a model makes of so many frames: how many there are of each
/// length, the last one with all that are longer.
pub fn burst_lengths<const N: usize>(model: LossModel, frames: u64, random: Random) -> [u64; N] {
    let mut stream = LossStream::new(model, random);
    let mut lengths = [0; N];
    let mut burst = 0;
    while stream.next() < frames {
        let at = stream.next();
        stream.is_lost(at);
        burst += 1;
        if stream.next() != at + 1 {
            lengths[burst.min(N) - 1] += 1;
            burst = 0;
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(model: LossModel, frames: u64) -> Vec<u64> {
        let mut stream = LossStream::new(model, Random::new(3));
        (0..frames).filter(|at| stream.is_lost(*at)).collect()
    }

    #[test]
    fn rates_are_met() {
        let n = 2_000_000;
        for model in [LossModel::Independent(1e-3), LossModel::Bursty(Bursty::of(1e-3, 4.0))] {
            let share = lost(model.clone(), n).len() as f64 / n as f64;
            assert!((share / 1e-3 - 1.0).abs() < 0.1, "{model:?}: {share}");
        }
        assert!(lost(LossModel::Never, 1000).is_empty());
    }

    #[test]
    fn bursts_have_their_length() {
        let lost = lost(LossModel::Bursty(Bursty::of(1e-2, 4.0)), 2_000_000);
        let bursts = 1 + lost.windows(2).filter(|w| w[1] != w[0] + 1).count();
        let mean = lost.len() as f64 / bursts as f64;
        assert!((mean - 4.0).abs() < 0.2, "{mean}");
    }

    #[test]
    fn bursts_are_counted() {
        let model = LossModel::Trace(vec![0, 1, 2, 5, 9, 10, 20, 21, 22, 23]);
        assert_eq!(burst_lengths(model.clone(), 100, Random::new(1)), [1, 1, 2]);
        assert_eq!(burst_lengths(model, 7, Random::new(1)), [1, 0, 1]);
        // Independent losses: each burst goes on with the probability of a loss.
        let [one, more] = burst_lengths(LossModel::Independent(5e-2), 10_000_000, Random::new(1));
        assert!((more as f64 / (one + more) as f64 / 5e-2 - 1.0).abs() < 0.03, "{one} {more}");
    }

    #[test]
    fn a_trace_is_what_it_says() {
        let model = LossModel::parse_trace("# positions\n3\n4\n\n100 # late\n").expect("a trace");
        assert_eq!(lost(model, 1000), [3, 4, 100]);
        assert!(LossModel::parse_trace("4\n4\n").is_err());
        assert!(LossModel::parse_trace("x").is_err());
    }

    #[test]
    fn a_code_mends_what_it_can() {
        let code = Code { data: 25, parity: 1 };
        let n = 4_000_000;
        let share = lost(LossModel::Coded { rate: 1e-2, code }, n).len() as f64 / n as f64;
        // A frame is lost when it is, and another one of its 25 companions.
        let expected = 1e-2 * (1.0 - 0.99f64.powi(25));
        assert!((share / expected - 1.0).abs() < 0.05, "{share}, not {expected}");
    }

    #[test]
    fn the_prototypes_table_rounds_down() {
        assert_eq!(LossModel::table_of_20_bits(1e-3).rate(), Some(1048.0 / 1048576.0));
    }
}
