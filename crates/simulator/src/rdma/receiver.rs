//! The responder.

use super::{Answer, Packet, Repair};
use std::collections::BTreeSet;

/// Receives one message.
#[derive(Clone, Debug)]
pub struct Receiver {
    repair: Repair,
    expected: u32,
    early: BTreeSet<u32>,
    /// Go-back-N: the missing packet was asked for already.
    has_asked: bool,
    last: Option<u32>,
}

impl Receiver {
    /// A receiver that has nothing.
    pub fn new(repair: Repair) -> Receiver {
        Receiver { repair, expected: 0, early: BTreeSet::new(), has_asked: false, last: None }
    }

    /// All below this number has arrived.
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// A packet arrives.
    pub fn on_packet(&mut self, packet: Packet) -> Option<Answer> {
        if packet.is_last {
            self.last = Some(packet.number);
        }
        if packet.number == self.expected {
            return self.accept(packet);
        }
        if packet.number < self.expected {
            // A repeated request is answered, so that a lost answer is made good.
            return Some(Answer::Ack(self.expected));
        }
        match self.repair {
            Repair::GoBackN if self.has_asked => None,
            Repair::GoBackN => {
                self.has_asked = true;
                Some(Answer::Nak { missing: self.expected, arrived: None })
            }
            Repair::Selective => {
                self.early.insert(packet.number);
                Some(Answer::Nak { missing: self.expected, arrived: Some(packet.number) })
            }
        }
    }

    fn accept(&mut self, packet: Packet) -> Option<Answer> {
        self.expected = packet.number + 1;
        self.has_asked = false;
        let was_waiting = !self.early.is_empty();
        while self.early.remove(&self.expected) {
            self.expected += 1;
        }
        let is_complete = self.last.is_some_and(|last| self.expected > last);
        (is_complete || was_waiting).then_some(Answer::Ack(self.expected))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Sender};
    use super::*;

    /// Sends a message of `packets`, losing the first copy of each packet in `lost`; what went out.
    fn exchange(repair: Repair, packets: u32, lost: &[u32]) -> Vec<u32> {
        let config = Config {
            repair,
            bytes: u64::from(packets) * 1024,
            packet_bytes: 1024,
            window: 100,
            timeout: 1000,
            reaction: 0,
        };
        let (mut sender, mut receiver) = (Sender::new(config), Receiver::new(repair));
        let mut lost = lost.to_vec();
        let mut sent = Vec::new();
        let mut now = 0;
        while !sender.is_done() {
            now += 1;
            assert!(now < 10_000, "no progress: {sent:?}");
            sender.on_timer(now);
            let Some(packet) = sender.poll(now) else { continue };
            sent.push(packet.number);
            if let Some(at) = lost.iter().position(|n| *n == packet.number) {
                lost.remove(at);
                continue;
            }
            if let Some(answer) = receiver.on_packet(packet) {
                sender.on_answer(now, answer);
            }
        }
        assert_eq!(receiver.expected(), packets);
        sent
    }

    #[test]
    fn go_back_n_goes_back() {
        assert_eq!(exchange(Repair::GoBackN, 5, &[2]), [0, 1, 2, 3, 2, 3, 4]);
        assert_eq!(exchange(Repair::GoBackN, 3, &[2]), [0, 1, 2, 0, 2], "a lost tail waits for the timeout");
    }

    #[test]
    fn selective_repeat_sends_what_is_missing() {
        assert_eq!(exchange(Repair::Selective, 5, &[1, 2]), [0, 1, 2, 3, 1, 2, 4]);
        assert_eq!(exchange(Repair::Selective, 3, &[2]), [0, 1, 2, 0, 2]);
    }
}
