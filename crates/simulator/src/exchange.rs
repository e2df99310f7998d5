//! Any protocol behind the traits of `karakoram-link` under full load: a wire that corrupts frames, and
//! answers that take their time. Random-access buffers, no switches around them; [`crate::stress`] has
//! those, for the protocol they were built for. Every frame is simulated one by one.

use crate::link::{Line, Rate, Wire};
use crate::loss::LossStream;
use crate::stress::FULL_FRAME;
use karakoram_link::config::{Protection, ReceiverConfig, SenderConfig};
use karakoram_link::{
    Arrival, Control, Frame, LinkFrame, LinkProtocol, LinkReceiver, LinkSender, Mode, Selective, Slot,
};

/// A link and its load.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// The line.
    pub rate: Rate,
    /// Bytes that the protocol adds to a frame.
    pub header_bytes: u64,
    /// From the last bit of a frame to the receiver, picoseconds.
    pub propagation: u64,
    /// From the receiver's answer to its effect at the sender, picoseconds.
    pub answer: u64,
    /// Bytes of a frame, without its check sequence.
    pub frame_bytes: u32,
    /// Frames to carry.
    pub frames: u64,
}

/// From an answer to its effect where both are in the port itself: the sample replay buffers of link-level
/// retry, 31,184 bytes at 200 Gb/s over 5 m (SONiC LLR design), are a round trip of 1.25 us, of which this
/// is what remains without the frame and the cable.
const ANSWER: u64 = 1_135_000;
/// Cable and transceivers, as [`crate::link::Timing::published`] has them.
const PROPAGATION: u64 = 50_000;

impl Exchange {
    /// Full frames over a line with the protocol in its ports.
    pub fn in_ports(rate: Rate, header_bytes: u64, frames: u64) -> Exchange {
        let (propagation, answer) = (PROPAGATION, ANSWER);
        Exchange { rate, header_bytes, propagation, answer, frame_bytes: FULL_FRAME, frames }
    }

    /// From a frame to the first copy of the one before it, when that was lost.
    pub fn round_trip(&self) -> u64 {
        self.answer + 2 * self.propagation + 2 * self.rate.frame(self.frame_bytes.into(), self.header_bytes)
    }

    /// Selective repeat in the same ports, in order, with so many copies.
    pub fn selective(&self, copies: u8) -> Selective {
        let byte = self.rate.time(1);
        Selective {
            sender: SenderConfig { handshake: None, ..SenderConfig::corrected(byte, self.round_trip(), 1) },
            receiver: ReceiverConfig::corrected(self.round_trip()),
            protection: Protection { mode: Mode::Ordered, copies },
        }
    }
}

/// What it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Frames of any kind on the wire.
    pub wire_frames: u64,
    /// Of these, corrupted.
    pub lost: u64,
    /// Frames that left for the first time.
    pub sent: u64,
    /// Frames handed on.
    pub delivered: u64,
    /// When the last one was, picoseconds.
    pub duration: u64,
    /// From the first bit of a frame to the moment it was handed on: how often it took so many nanoseconds,
    /// the last one with all that took longer.
    pub latency_ns: Vec<u64>,
    /// Most bytes of frames that were sent and not acknowledged.
    pub copy_peak: u64,
    /// Most bytes of frames that waited for others.
    pub waiting_peak: u64,
}

impl Outcome {
    /// What arrived, in bits per second, as it would be on a wire without a protocol.
    pub fn carried(&self, frame_bytes: u32) -> f64 {
        let bits = Rate(1_000_000_000_000).frame(frame_bytes.into(), 0) as f64;
        self.delivered as f64 * bits / self.duration.max(1) as f64 * 1e12
    }

    /// A quantile of the latency, nanoseconds.
    pub fn latency_quantile_ns(&self, share: f64) -> u64 {
        let total: u64 = self.latency_ns.iter().sum();
        let mut left = (total as f64 * share) as u64;
        let position = self.latency_ns.iter().position(|count| {
            let is_here = left < *count;
            left = left.saturating_sub(*count);
            is_here
        });
        position.unwrap_or(self.latency_ns.len()) as u64
    }
}

/// Nanoseconds up to which latencies are told apart.
const LONGEST_NS: usize = 1 << 16;
/// Frames whose departures are remembered: more than any protocol has under way.
const REMEMBERED: u64 = 1 << 16;

/// A frame that knows its place among all.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    number: u64,
    bytes: u32,
}

impl Frame for Numbered {
    fn bytes(&self) -> u32 {
        self.bytes
    }
}

/// Runs a protocol that keeps order.
pub fn run<P: LinkProtocol<Numbered>>(exchange: &Exchange, protocol: &P, losses: LossStream) -> Outcome {
    let (sender, receiver) = protocol.start();
    let mut run = Run {
        exchange: *exchange,
        sender,
        receiver,
        wire: Wire::new(1, losses),
        arrivals: Line::new(),
        answers: Line::new(),
        transmit_at: 0,
        refused: None,
        offered: 0,
        departures: vec![0; REMEMBERED as usize],
        acknowledged: 0,
        waiting: 0,
        outcome: Outcome {
            wire_frames: 0,
            lost: 0,
            sent: 0,
            delivered: 0,
            duration: 0,
            latency_ns: vec![0; LONGEST_NS],
            copy_peak: 0,
            waiting_peak: 0,
        },
    };
    run.go();
    run.outcome
}

struct Run<S, R> {
    exchange: Exchange,
    sender: S,
    receiver: R,
    wire: Wire,
    arrivals: Line<LinkFrame<Numbered>>,
    /// With how many frames had been handed on by then.
    answers: Line<(Control, u64)>,
    transmit_at: u64,
    /// A frame that found the queue full.
    refused: Option<Numbered>,
    offered: u64,
    /// When frames left first, by number.
    departures: Vec<u64>,
    /// Frames that the sender knows to have been handed on.
    acknowledged: u64,
    waiting: u64,
    outcome: Outcome,
}

impl<S: LinkSender<Numbered>, R: LinkReceiver<Numbered>> Run<S, R> {
    fn go(&mut self) {
        loop {
            self.offer();
            match self.next_time() {
                u64::MAX => return,
                now => self.step(now),
            }
        }
    }

    /// The queue is never empty, as long as there are frames.
    fn offer(&mut self) {
        while self.refused.is_some() || self.offered < self.exchange.frames {
            let next = Numbered { number: self.offered, bytes: self.exchange.frame_bytes };
            let frame = self.refused.take().unwrap_or(next);
            self.offered = self.offered.max(frame.number + 1);
            if let Err(frame) = self.sender.enqueue(self.outcome.duration, frame) {
                self.refused = Some(frame);
                return;
            }
        }
    }

    fn next_time(&self) -> u64 {
        let deadline = self.receiver.next_deadline().unwrap_or(u64::MAX);
        self.arrivals.next().min(self.answers.next()).min(self.transmit_at).min(deadline)
    }

    fn step(&mut self, now: u64) {
        if self.arrivals.next() <= now {
            self.arrive(now);
        } else if self.answers.next() <= now {
            let Some((_, (control, delivered))) = self.answers.pop() else { return };
            self.acknowledged = self.acknowledged.max(delivered);
            self.sender.on_control(now, control);
        } else if self.transmit_at > now {
            self.receiver.on_timer(now);
            self.after_receiver(now);
        }
        self.transmit(now);
    }

    /// Puts a frame on the line, if it is free and there is one.
    fn transmit(&mut self, now: u64) {
        if self.wire.ready_at() > now {
            self.transmit_at = self.wire.ready_at();
            return;
        }
        if self.sender.next_deadline().is_some_and(|at| at <= now) {
            self.sender.on_timer(now);
        }
        match self.sender.poll_transmit(now) {
            Some(frame) => self.commit(now, frame),
            None => self.transmit_at = self.sender.next_deadline().map_or(u64::MAX, |at| at.max(now + 1)),
        }
    }

    fn commit(&mut self, now: u64, frame: LinkFrame<Numbered>) {
        let (is_copy, time) = self.weigh(now, &frame);
        let (_, end, is_lost) = self.wire.commit(now, time, is_copy);
        self.outcome.wire_frames += 1;
        self.outcome.lost += u64::from(is_lost);
        if !is_lost {
            self.arrivals.push(end + self.exchange.propagation, frame);
        }
        self.transmit_at = self.wire.ready_at();
    }

    /// Whether a frame is a copy, and how long it takes.
    fn weigh(&mut self, now: u64, frame: &LinkFrame<Numbered>) -> (bool, u64) {
        let rate = self.exchange.rate;
        let LinkFrame::Data { header, frame } = frame else { return (false, rate.frame(0, 0)) };
        if !header.is_retransmission {
            self.departures[(frame.number % REMEMBERED) as usize] = now;
            self.outcome.sent += 1;
            let copies = (self.outcome.sent - self.acknowledged) * u64::from(frame.bytes);
            self.outcome.copy_peak = self.outcome.copy_peak.max(copies);
        }
        (header.is_retransmission, rate.frame(frame.bytes.into(), self.exchange.header_bytes))
    }

    fn arrive(&mut self, now: u64) {
        let Some((_, frame)) = self.arrivals.pop() else { return };
        match self.receiver.on_frame(now, frame) {
            Arrival::Deliver(frame) => self.hand_on(now, frame),
            Arrival::Held => self.hold(),
            Arrival::Consumed | Arrival::Dropped(_) => {}
        }
        self.after_receiver(now);
    }

    fn hold(&mut self) {
        self.waiting += u64::from(self.exchange.frame_bytes);
        self.outcome.waiting_peak = self.outcome.waiting_peak.max(self.waiting);
    }

    fn after_receiver(&mut self, now: u64) {
        while let Some(frame) = self.receiver.poll_deliver(now) {
            self.waiting -= u64::from(frame.bytes);
            self.hand_on(now, frame);
        }
        for slot in [Slot::Urgent, Slot::Idle] {
            while let Some(control) = self.receiver.poll_control(now, slot) {
                self.answers.push(now + self.exchange.answer, (control, self.outcome.delivered));
            }
        }
    }

    fn hand_on(&mut self, now: u64, frame: Numbered) {
        self.outcome.delivered += 1;
        self.outcome.duration = now;
        let took = (now - self.departures[(frame.number % REMEMBERED) as usize]) / 1000;
        self.outcome.latency_ns[(took as usize).min(LONGEST_NS - 1)] += 1;
    }
}
