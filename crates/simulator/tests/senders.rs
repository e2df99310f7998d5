//! What drivers of a TCP sender rely on: when it has nothing to send, it names a later time to be asked
//! again. A sender that names a moment that has passed keeps its driver busy without moving on.

use karakoram_simulator::random::Random;
use karakoram_simulator::tcp::congestion::Algorithm;
use karakoram_simulator::tcp::{Ack, Config, Jiffies, Receiver, Segment, Sender};
use std::collections::VecDeque;

const MILLISECOND: u64 = 1_000_000_000;
/// One way.
const DISTANCE: u64 = 15_000_000;
/// A flow of this size takes milliseconds, timeouts included.
const MOST_TURNS: u32 = 10_000;

fn config(algorithm: Algorithm, seed: u64) -> Config {
    Config {
        algorithm,
        bytes: Some(24_387),
        segment_bytes: 1460,
        first_window: 10,
        largest_window: 1000,
        least_timeout: MILLISECOND,
        jiffies: Jiffies { length: MILLISECOND, phase: seed * 1_000_003 % MILLISECOND },
        handshake_rtt: 2 * DISTANCE,
        seed,
    }
}

fn due<T>(line: &mut VecDeque<(u64, T)>, now: u64) -> Option<T> {
    line.front().filter(|(at, _)| *at <= now)?;
    line.pop_front().map(|(_, item)| item)
}

/// A path of constant length that loses segments, but no acknowledgements.
struct Exchange {
    sender: Sender,
    receiver: Receiver,
    segments: VecDeque<(u64, Segment)>,
    acks: VecDeque<(u64, Ack)>,
    random: Random,
    loss: f64,
    now: u64,
}

impl Exchange {
    fn new(algorithm: Algorithm, loss: f64, seed: u64) -> Exchange {
        Exchange {
            sender: Sender::new(config(algorithm, seed)),
            receiver: Receiver::new(algorithm == Algorithm::Dctcp),
            segments: VecDeque::new(),
            acks: VecDeque::new(),
            random: Random::named(seed, "losses"),
            loss,
            now: 0,
        }
    }

    fn send(&mut self, segment: Segment) {
        if !self.random.chance(self.loss) {
            self.segments.push_back((self.now + DISTANCE, segment));
        }
    }

    fn fill(&mut self) {
        while let Some(segment) = self.sender.poll(self.now) {
            self.send(segment);
        }
    }

    fn next(&self) -> u64 {
        let arrival = self.segments.front().map(|(at, _)| *at);
        let answer = self.acks.front().map(|(at, _)| *at);
        [arrival, answer, self.sender.next_deadline()].into_iter().flatten().min().expect("something happens next")
    }

    fn turn(&mut self) {
        while let Some(segment) = due(&mut self.segments, self.now) {
            let acks = self.receiver.on_segment(segment, false).into_iter().flatten();
            self.acks.extend(acks.map(|ack| (self.now + DISTANCE, ack)));
        }
        while let Some(ack) = due(&mut self.acks, self.now) {
            self.sender.on_ack(self.now, &ack);
        }
        if let Some(segment) = self.sender.on_timer(self.now) {
            self.send(segment);
        }
        self.fill();
    }
}

/// Short BBR flows once named the past while copies of all that was lost were under way.
#[test]
fn a_sender_with_nothing_to_send_waits_for_what_is_to_come() {
    for algorithm in Algorithm::ALL {
        for seed in 0..300 {
            let mut exchange = Exchange::new(algorithm, 0.15, seed);
            exchange.fill();
            let mut turns = 0;
            while !exchange.sender.is_done() {
                let next = exchange.next();
                let name = algorithm.name();
                assert!(next > exchange.now, "{name}, seed {seed}: asks at {} for {next}", exchange.now);
                exchange.now = next;
                exchange.turn();
                turns += 1;
                assert!(turns < MOST_TURNS, "{name}, seed {seed}: does not end");
            }
            assert_eq!(exchange.receiver.next(), 17);
        }
    }
}
