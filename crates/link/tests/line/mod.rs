//! Two nodes, a line each way, and an adversary between them. Time goes in slots of one frame; all
//! chance comes from one seed.
#![allow(dead_code)] // Each test uses its part.

use karakoram_link::config::Protection;
use karakoram_link::{
    Ack, Arrival, Control, Event, Frame, LinkFrame, LinkReceiver, LinkSender, Receiver, ReceiverConfig, Sender,
    SenderConfig, Slot,
};
use std::collections::VecDeque;

/// Slot of a full frame at 100 Gb/s.
pub const SLOT_PS: u64 = 123_280;

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn chance(&mut self, per_million: u64) -> bool {
        self.below(1_000_000) < per_million
    }
}

/// What is carried: a name and a length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parcel {
    pub id: u64,
    pub bytes: u32,
}

impl Frame for Parcel {
    fn bytes(&self) -> u32 {
        self.bytes
    }
}

/// What travels on a line at once.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub frame: Option<LinkFrame<Parcel>>,
    pub ack: Option<Ack>,
    pub control: Option<Control>,
}

/// How a line treats what it carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub loss_per_million: u64,
    /// A loss is followed by more, this often.
    pub burst_per_million: u64,
    pub delay_slots: u64,
    pub jitter_slots: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Line {
    pub weather: Weather,
    pub in_flight: VecDeque<(u64, Packet)>,
    pub lost: u64,
    is_bursting: bool,
}

impl Line {
    fn put(&mut self, slot: u64, packet: Packet, random: &mut Random) {
        let chance = if self.is_bursting { self.weather.burst_per_million } else { self.weather.loss_per_million };
        self.is_bursting = random.chance(chance);
        if self.is_bursting {
            self.lost += 1;
            return;
        }
        let jitter = random.below(self.weather.jitter_slots + 1);
        let last = self.in_flight.back().map_or(0, |(at, _)| *at);
        self.in_flight.push_back((last.max(slot + 1 + self.weather.delay_slots + jitter), packet));
    }

    fn take(&mut self, slot: u64) -> Option<Packet> {
        self.in_flight.front().filter(|(at, _)| *at <= slot)?;
        self.in_flight.pop_front().map(|(_, packet)| packet)
    }
}

pub type EventLog = Vec<(u64, Event)>;

pub struct Node {
    pub sender: Sender<Parcel, EventLog>,
    pub receiver: Receiver<Parcel, EventLog>,
    pub delivered: Vec<u64>,
    pub accepted: u64,
    pub peak_waiting_bytes: u64,
    next_id: u64,
}

impl Node {
    fn new(sender: SenderConfig, receiver: ReceiverConfig, protection: Option<Protection>) -> Node {
        let mut sender = Sender::with_log(sender, Vec::new());
        if let Some(protection) = protection {
            sender.enable(0, protection);
        }
        Node {
            sender,
            receiver: Receiver::with_log(receiver, Vec::new()),
            delivered: Vec::new(),
            accepted: 0,
            peak_waiting_bytes: 0,
            next_id: 0,
        }
    }

    pub fn offer(&mut self, now_ps: u64, bytes: u32) {
        let parcel = Parcel { id: self.next_id, bytes };
        if self.sender.enqueue(now_ps, parcel).is_ok() {
            self.next_id += 1;
            self.accepted += 1;
        }
    }

    fn transmit(&mut self, now_ps: u64) -> Option<Packet> {
        if let Some(control) = self.receiver.poll_control(now_ps, Slot::Urgent) {
            return Some(Packet { frame: None, ack: None, control: Some(control) });
        }
        if let Some(frame) = self.sender.poll_transmit(now_ps) {
            let ack = match self.receiver.poll_control(now_ps, Slot::Piggyback) {
                Some(Control::Ack(ack)) => Some(ack),
                _ => None,
            };
            return Some(Packet { frame: Some(frame), ack, control: None });
        }
        let control = self.receiver.poll_control(now_ps, Slot::Idle)?;
        Some(Packet { frame: None, ack: None, control: Some(control) })
    }

    pub fn receive(&mut self, now_ps: u64, packet: Packet) {
        let Packet { frame, ack, control } = packet;
        ack.map(Control::Ack).into_iter().chain(control).for_each(|c| self.sender.on_control(now_ps, c));
        if let Some(Arrival::Deliver(parcel)) = frame.map(|f| self.receiver.on_frame(now_ps, f)) {
            self.delivered.push(parcel.id);
        }
        self.drain(now_ps);
    }

    fn drain(&mut self, now_ps: u64) {
        while let Some(parcel) = self.receiver.poll_deliver(now_ps) {
            self.delivered.push(parcel.id);
        }
        self.peak_waiting_bytes = self.peak_waiting_bytes.max(self.receiver.waiting_bytes());
    }

    fn timers(&mut self, now_ps: u64) {
        if self.sender.next_deadline().is_some_and(|at| at <= now_ps) {
            self.sender.on_timer(now_ps);
        }
        while self.receiver.next_deadline().is_some_and(|at| at <= now_ps) {
            self.receiver.on_timer(now_ps);
            self.drain(now_ps);
        }
    }
}

pub struct World {
    pub nodes: [Node; 2],
    /// `lines[i]` leads away from node i.
    pub lines: [Line; 2],
    pub slot: u64,
    pub random: Random,
}

impl World {
    /// Both directions alike.
    pub fn new(seed: u64, sender: SenderConfig, receiver: ReceiverConfig, protection: Option<Protection>) -> World {
        let node = || Node::new(sender, receiver, protection);
        World { nodes: [node(), node()], lines: [Line::default(), Line::default()], slot: 0, random: Random::new(seed) }
    }

    pub fn now_ps(&self) -> u64 {
        self.slot * SLOT_PS
    }

    /// One slot: what has arrived is received, timers run, each node sends one packet.
    pub fn step(&mut self) {
        self.slot += 1;
        let now_ps = self.now_ps();
        for i in 0..2 {
            while let Some(packet) = self.lines[1 - i].take(self.slot) {
                self.nodes[i].receive(now_ps, packet);
            }
            self.nodes[i].timers(now_ps);
            if let Some(packet) = self.nodes[i].transmit(now_ps) {
                self.lines[i].put(self.slot, packet, &mut self.random);
            }
        }
    }

    /// So many slots; node 0 is offered a frame in each, and node 1 too if asked for.
    pub fn run(&mut self, slots: u64, is_offered: [bool; 2]) {
        for _ in 0..slots {
            let now_ps = self.now_ps();
            for (node, _) in self.nodes.iter_mut().zip(is_offered).filter(|(_, offered)| *offered) {
                node.offer(now_ps, 1514);
            }
            self.step();
        }
    }

    /// Until nothing more happens, at most so many slots.
    pub fn settle(&mut self, most_slots: u64) {
        for _ in 0..most_slots {
            self.step();
            let is_idle = self.lines.iter().all(|l| l.in_flight.is_empty())
                && self
                    .nodes
                    .iter()
                    .all(|n| n.sender.next_deadline().is_none() && n.receiver.next_deadline().is_none())
                && self.nodes.iter().all(|n| n.sender.queue_cells() == 0);
            if is_idle {
                return;
            }
        }
    }

    /// The event logs as text, the last lines only.
    pub fn tail(&mut self, lines: usize) -> String {
        let mut all: Vec<(u64, String)> = Vec::new();
        for (i, node) in self.nodes.iter_mut().enumerate() {
            all.extend(node.sender.log().iter().map(|(t, e)| (*t, format!("{t} node {i} {e}"))));
            all.extend(node.receiver.log().iter().map(|(t, e)| (*t, format!("{t} node {i} {e}"))));
        }
        all.sort_by_key(|(t, _)| *t);
        let from = all.len().saturating_sub(lines);
        all[from..].iter().map(|(_, line)| format!("{line}\n")).collect()
    }
}
