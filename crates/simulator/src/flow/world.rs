//! Two hosts and what lies between them.

use super::frame::Frame;
use super::host::Station;
use super::transport::Transport;
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A link from the sender's switch to the receiver's.
pub trait Path {
    /// Takes a frame; false when its queue is full.
    fn enqueue(&mut self, now: u64, frame: Frame) -> bool;
    /// When something happens on it next; `u64::MAX` for never.
    fn next_time(&self) -> u64;
    /// Lets that happen; frames that leave it are handed to `sink` with their time.
    fn step(&mut self, now: u64, sink: &mut dyn FnMut(u64, Frame));
}

/// Cables and switches between a host and the link, one way.
const NEAR: u64 = 500_000;
/// The way back from the receiver to the sender, switches included: it has no queue.
const BACK: u64 = 1_500_000;

/// Where a frame is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// At the switch before the link.
    Switch,
    /// Through the receiver's stack.
    Receiver,
    /// Through the sender's stack.
    Sender,
}

struct Event {
    at: u64,
    order: u64,
    stage: Stage,
    frame: Frame,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A flow under way.
pub struct World<'a, P> {
    path: &'a mut P,
    /// The flow's two ends.
    pub transport: Transport,
    hosts: [Station; 2],
    random: &'a mut Random,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    wake_at: u64,
    /// The time now, picoseconds.
    pub now: u64,
    /// Frames that found the link's queue full.
    pub dropped: u64,
}

impl<'a, P: Path> World<'a, P> {
    /// A flow that begins at `now`.
    pub fn new(path: &'a mut P, transport: Transport, hosts: [Station; 2], random: &'a mut Random, now: u64) -> Self {
        let start = now + hosts[0].around();
        World { path, transport, hosts, random, events: BinaryHeap::new(), order: 0, wake_at: start, now, dropped: 0 }
    }

    /// The link.
    pub fn path(&mut self) -> &mut P {
        self.path
    }

    /// Runs until everything is acknowledged. Returns when the application knows.
    pub fn run_to_end(&mut self) -> u64 {
        while !self.transport.is_done() && self.advance(u64::MAX) {}
        self.now + self.hosts[0].around()
    }

    /// Runs until a time.
    pub fn run_until(&mut self, end: u64) {
        while self.advance(end) {}
        self.now = self.now.max(end);
    }

    /// Lets the next thing happen, if it happens before `end`.
    fn advance(&mut self, end: u64) -> bool {
        let event_at = self.events.peek().map_or(u64::MAX, |Reverse(event)| event.at);
        let path_at = self.path.next_time();
        let at = event_at.min(path_at).min(self.wake_at);
        if at >= end {
            return false;
        }
        self.now = at;
        if path_at == at {
            self.step_path();
        } else if event_at == at {
            self.step_event();
        } else {
            self.wake();
        }
        true
    }

    fn step_path(&mut self) {
        let mut out = [None, None, None, None];
        let mut more = Vec::new();
        let mut count = 0;
        self.path.step(self.now, &mut |at, frame| {
            match out.get_mut(count) {
                Some(slot) => *slot = Some((at, frame)),
                None => more.push((at, frame)),
            }
            count += 1;
        });
        for (at, frame) in out.into_iter().flatten().chain(more) {
            let received = self.hosts[1].receive(at + NEAR, self.random);
            self.push(received, Stage::Receiver, frame);
        }
    }

    fn push(&mut self, at: u64, stage: Stage, frame: Frame) {
        self.order += 1;
        self.events.push(Reverse(Event { at, order: self.order, stage, frame }));
    }

    fn step_event(&mut self) {
        let Some(Reverse(event)) = self.events.pop() else { return };
        match event.stage {
            Stage::Switch => self.dropped += u64::from(!self.path.enqueue(self.now, event.frame)),
            Stage::Receiver => self.answer(&event.frame),
            Stage::Sender => {
                self.transport.on_answer(self.now, &event.frame);
                self.send_what_may();
            }
        }
    }

    fn answer(&mut self, frame: &Frame) {
        for answer in self.transport.on_data(frame).into_iter().flatten() {
            let sent = self.hosts[1].send(self.now, answer.bytes, self.random);
            let received = self.hosts[0].receive(sent + BACK, self.random);
            self.push(received, Stage::Sender, answer);
        }
    }

    fn wake(&mut self) {
        if let Some(frame) = self.transport.on_timer(self.now) {
            self.send(frame);
        }
        self.send_what_may();
    }

    fn send_what_may(&mut self) {
        while let Some(frame) = self.transport.poll(self.now) {
            self.send(frame);
        }
        self.wake_at = self.transport.next_deadline().map_or(u64::MAX, |at| at.max(self.now + 1));
    }

    fn send(&mut self, frame: Frame) {
        let sent = self.hosts[0].send(self.now, frame.bytes, self.random);
        self.push(sent + NEAR, Stage::Switch, frame);
    }
}
