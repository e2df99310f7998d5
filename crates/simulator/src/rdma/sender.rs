//! The requester.

use super::{Answer, Packet, Repair};

/// How a queue pair is set up. Times in picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How losses are repaired.
    pub repair: Repair,
    /// Bytes of the message.
    pub bytes: u64,
    /// Bytes of payload in a packet.
    pub packet_bytes: u32,
    /// Packets that may be unacknowledged (IRN bounds them by the path's bandwidth times its delay).
    pub window: u32,
    /// From the last progress to a timeout.
    pub timeout: u64,
    /// How long the adapter takes to act on a negative acknowledgement.
    pub reaction: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets sent again.
    pub retransmissions: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Negative acknowledgements.
    pub naks: u64,
}

/// Sends one message.
#[derive(Clone, Debug)]
pub struct Sender {
    config: Config,
    packets: u32,
    acknowledged: u32,
    next: u32,
    highest_sent: u32,
    /// Selective: what has arrived out of order, and what was sent again in this repair.
    arrived: Vec<bool>,
    repaired: Vec<bool>,
    to_repair: Vec<u32>,
    highest_arrived: u32,
    waits_until: u64,
    timeout_at: Option<u64>,
    statistics: Statistics,
}

impl Sender {
    /// A message that is to be sent.
    pub fn new(config: Config) -> Sender {
        let packets = config.bytes.div_ceil(u64::from(config.packet_bytes)) as u32;
        Sender {
            config,
            packets,
            acknowledged: 0,
            next: 0,
            highest_sent: 0,
            arrived: vec![false; packets as usize],
            repaired: vec![false; packets as usize],
            to_repair: Vec::new(),
            highest_arrived: 0,
            waits_until: 0,
            timeout_at: None,
            statistics: Statistics::default(),
        }
    }

    /// Whether all is acknowledged.
    pub fn is_done(&self) -> bool {
        self.acknowledged == self.packets
    }

    /// What happened so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// When [`Sender::on_timer`] or [`Sender::poll`] wants to be called.
    pub fn next_deadline(&self) -> Option<u64> {
        let waiting = (self.waits_until > 0).then_some(self.waits_until);
        [waiting, self.timeout_at].into_iter().flatten().min()
    }

    /// The next packet to send now.
    pub fn poll(&mut self, now: u64) -> Option<Packet> {
        if now < self.waits_until {
            return None;
        }
        self.waits_until = 0;
        let number = self.to_repair.pop().or_else(|| self.next_in_order())?;
        self.statistics.retransmissions += u64::from(number < self.highest_sent);
        self.highest_sent = self.highest_sent.max(number + 1);
        self.timeout_at.get_or_insert(now + self.config.timeout);
        Some(self.packet(number))
    }

    fn next_in_order(&mut self) -> Option<u32> {
        if self.next == self.packets || self.next - self.acknowledged >= self.config.window {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    fn packet(&self, number: u32) -> Packet {
        let is_last = number + 1 == self.packets;
        let full = self.config.packet_bytes;
        let rest = self.config.bytes - u64::from(full) * u64::from(self.packets - 1);
        Packet { number, payload: if is_last { rest as u32 } else { full }, is_last }
    }

    /// The receiver answers.
    pub fn on_answer(&mut self, now: u64, answer: Answer) {
        match answer {
            Answer::Ack(number) => self.advance(now, number),
            Answer::Nak { missing, arrived } => {
                self.statistics.naks += 1;
                self.advance(now, missing);
                match self.config.repair {
                    Repair::GoBackN => self.go_back(now),
                    Repair::Selective => self.repair(now, arrived),
                }
            }
        }
    }

    fn advance(&mut self, now: u64, number: u32) {
        if number > self.acknowledged {
            self.acknowledged = number;
            self.next = self.next.max(number);
            self.timeout_at = (!self.is_done()).then_some(now + self.config.timeout);
        }
    }

    fn go_back(&mut self, now: u64) {
        self.next = self.acknowledged;
        self.waits_until = now + self.config.reaction;
    }

    /// Sends again what is missing below the highest packet that has arrived, each once.
    fn repair(&mut self, now: u64, arrived: Option<u32>) {
        if let Some(number) = arrived {
            self.arrived[number as usize] = true;
            self.highest_arrived = self.highest_arrived.max(number);
        }
        for number in (self.acknowledged..self.highest_arrived).rev() {
            let at = number as usize;
            if !self.arrived[at] && !self.repaired[at] {
                self.repaired[at] = true;
                self.to_repair.push(number);
                self.waits_until = now + self.config.reaction;
            }
        }
    }

    /// A deadline was reached.
    pub fn on_timer(&mut self, now: u64) {
        if self.timeout_at.is_none_or(|at| now < at) {
            return;
        }
        self.statistics.timeouts += 1;
        self.timeout_at = Some(now + self.config.timeout);
        self.repaired.iter_mut().for_each(|r| *r = false);
        self.to_repair.clear();
        match self.config.repair {
            Repair::GoBackN => self.next = self.acknowledged,
            Repair::Selective => self.to_repair.push(self.acknowledged),
        }
    }
}
