//! A host: how long its stack takes, how fast its adapter is, when it interrupts.
//!
//! The latencies are fitted to the published flow completion times over links without loss (p99 and
//! p99.9 of 143 bytes and of 24,387 bytes), once for TCP and once for RDMA; all others are predicted.

use crate::link::Rate;
use crate::random::Random;

const MICROSECOND: u64 = 1_000_000;

/// How long things take, picoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Once through the stack, either way.
    pub stack: u64,
    /// Work for each frame that arrives.
    pub per_frame: u64,
    /// How long interrupts wait for more frames while frames keep coming.
    pub moderation: u64,
    /// Before the first frame and after the last answer (posting and polling).
    pub around: u64,
    /// Deviation of the logarithm of all this from flow to flow.
    pub spread: f64,
    /// The same from frame to frame.
    pub jitter: f64,
}

/// A host's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// The adapter's rate.
    pub rate: Rate,
    /// Latencies.
    pub latency: Latency,
}

impl Host {
    /// The published hosts, with TCP.
    pub fn tcp() -> Host {
        let latency = Latency {
            stack: 7_300_000,
            per_frame: 400_000,
            moderation: 12 * MICROSECOND,
            around: 0,
            spread: 0.115,
            jitter: 0.05,
        };
        Host { rate: Rate::gigabits(100), latency }
    }

    /// The published hosts, with RDMA.
    pub fn rdma() -> Host {
        let latency =
            Latency { stack: 700_000, per_frame: 0, moderation: 0, around: 5_700_000, spread: 0.065, jitter: 0.05 };
        Host { rate: Rate::gigabits(100), latency }
    }
}

/// Without traffic for so long, the next frame interrupts at once.
const IDLE: u64 = 50 * MICROSECOND;

/// A host at work: frames leave and arrive in order.
#[derive(Clone, Debug)]
pub struct Station {
    host: Host,
    /// This flow's factor of all latencies.
    factor: f64,
    sends_at: u64,
    adapter_free_at: u64,
    last_interrupt: Option<u64>,
    interrupt_at: u64,
    processed_at: u64,
}

impl Station {
    /// A host that has done nothing.
    pub fn new(host: Host, factor: f64) -> Station {
        Station {
            host,
            factor,
            sends_at: 0,
            adapter_free_at: 0,
            last_interrupt: None,
            interrupt_at: 0,
            processed_at: 0,
        }
    }

    fn latency(&self, random: &mut Random) -> u64 {
        let latency = &self.host.latency;
        random.log_normal(latency.stack as f64 * self.factor, latency.jitter) as u64
    }

    /// Before the first frame, and after the last answer.
    pub fn around(&self) -> u64 {
        (self.host.latency.around as f64 * self.factor) as u64
    }

    /// A frame is handed to the stack; returns when its last bit has left the adapter.
    pub fn send(&mut self, now: u64, bytes: u32, random: &mut Random) -> u64 {
        self.sends_at = (now + self.latency(random)).max(self.sends_at);
        let start = self.sends_at.max(self.adapter_free_at);
        self.adapter_free_at = start + self.host.rate.frame(bytes.into(), 0);
        self.adapter_free_at
    }

    /// A frame has arrived at the adapter; returns when the transport has it.
    pub fn receive(&mut self, now: u64, random: &mut Random) -> u64 {
        if now > self.interrupt_at {
            let is_busy = self.last_interrupt.is_some_and(|last| now < last + IDLE);
            let moderation = (self.host.latency.moderation as f64 * self.factor) as u64;
            self.interrupt_at = if is_busy { now + moderation } else { now };
            self.last_interrupt = Some(self.interrupt_at);
        }
        let ready = self.interrupt_at.max(now) + self.latency(random);
        self.processed_at = ready.max(self.processed_at) + self.host.latency.per_frame;
        self.processed_at
    }
}
