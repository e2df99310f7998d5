//! Both protocols in one world: a line with a delay and losses, driven through the traits alone.

use karakoram_link::config::{Protection, ReceiverConfig, SenderConfig};
use karakoram_link::go_back_n::GoBackConfig;
use karakoram_link::{Arrival, LinkProtocol, LinkReceiver, LinkSender, Mode, Selective, Slot};
use std::collections::VecDeque;

const SLOT_PS: u64 = 123_280;
const DELAY: u64 = 10;

/// What came of sending so many frames, one offered in each slot.
struct Outcome {
    delivered: Vec<u32>,
    slots: u64,
}

/// `is_lost` says whether the n-th frame on the line is lost, and whether the n-th control message is.
fn run<P: LinkProtocol<u32>>(
    protocol: &P,
    frames: u32,
    is_lost: impl Fn(u64) -> bool,
    is_deaf: impl Fn(u64) -> bool,
) -> Outcome {
    let (mut sender, mut receiver) = protocol.start();
    let (mut forward, mut back) = (VecDeque::new(), VecDeque::new());
    let (mut sent, mut told, mut next, mut slot) = (0, 0, 0, 0);
    let mut delivered = Vec::new();
    while delivered.len() < frames as usize && slot < 100_000 {
        slot += 1;
        let now_ps = slot * SLOT_PS;
        while back.front().is_some_and(|(at, _)| *at <= slot) {
            back.pop_front().into_iter().for_each(|(_, c)| sender.on_control(now_ps, c));
        }
        while forward.front().is_some_and(|(at, _)| *at <= slot) {
            let Some((_, frame)) = forward.pop_front() else { break };
            if let Arrival::Deliver(name) = receiver.on_frame(now_ps, frame) {
                delivered.push(name);
            }
            delivered.extend(std::iter::from_fn(|| receiver.poll_deliver(now_ps)));
        }
        if sender.next_deadline().is_some_and(|at| at <= now_ps) {
            sender.on_timer(now_ps);
        }
        if receiver.next_deadline().is_some_and(|at| at <= now_ps) {
            receiver.on_timer(now_ps);
            delivered.extend(std::iter::from_fn(|| receiver.poll_deliver(now_ps)));
        }
        // Lengths are names here; none is 0. The handshake comes first.
        if slot > 100 && next < frames && sender.enqueue(now_ps, next + 1).is_ok() {
            next += 1;
        }
        if let Some(frame) = sender.poll_transmit(now_ps) {
            sent += 1;
            if !is_lost(sent) {
                forward.push_back((slot + DELAY, frame));
            }
        }
        let control = [Slot::Urgent, Slot::Idle].into_iter().find_map(|s| receiver.poll_control(now_ps, s));
        if let Some(control) = control {
            told += 1;
            if !is_deaf(told) {
                back.push_back((slot + DELAY, control));
            }
        }
    }
    Outcome { delivered, slots: slot - 100 }
}

fn selective() -> Selective {
    let round_trip_ps = 30 * SLOT_PS;
    Selective {
        sender: SenderConfig::corrected(80, round_trip_ps, 1),
        receiver: ReceiverConfig::corrected(round_trip_ps),
        protection: Protection { mode: Mode::Ordered, copies: 1 },
    }
}

fn go_back() -> GoBackConfig {
    let replay_timer_ps = 60 * SLOT_PS;
    GoBackConfig { replay_frames: 64, replay_bytes: 1 << 20, replay_timer_ps, ..GoBackConfig::sample_200g() }
}

fn in_order(frames: u32) -> Vec<u32> {
    (1..=frames).collect()
}

#[test]
fn both_deliver_everything_in_order() {
    let periodic = |n: u64| n.is_multiple_of(97);
    let never = |_| false;
    assert!(run(&selective(), 2000, periodic, never).delivered == in_order(2000));
    assert!(run(&go_back(), 2000, periodic, never).delivered == in_order(2000));
}

#[test]
fn both_survive_deaf_senders() {
    let (periodic, deaf) = (
        |n: u64| n.is_multiple_of(97),
        |n: u64| n > 10 && (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40).is_multiple_of(3),
    );
    assert!(run(&selective(), 2000, periodic, deaf).delivered == in_order(2000));
    assert!(run(&go_back(), 2000, periodic, deaf).delivered == in_order(2000));
}

#[test]
fn a_loss_costs_go_back_n_a_round_trip_and_selective_repeat_a_frame() {
    let once = |n: u64| n == 1001;
    let never = |_| false;
    let [a, b] = [run(&selective(), 2000, never, never).slots, run(&selective(), 2000, once, never).slots];
    assert!(b - a <= 2, "{a} {b}");
    let [a, b] = [run(&go_back(), 2000, never, never).slots, run(&go_back(), 2000, once, never).slots];
    assert!((2 * DELAY..2 * DELAY + 4).contains(&(b - a)), "{a} {b}");
}

#[test]
fn a_replay_that_is_lost_is_begun_again() {
    // The lost frame, and the first two replays of it.
    let lost = |n: u64| n > 1000 && n <= 1060;
    assert!(run(&go_back(), 2000, lost, |_| false).delivered == in_order(2000));
}

#[test]
fn after_too_many_replays_go_back_n_gives_frames_up_and_goes_on() {
    let cut = |n: u64| (500..900).contains(&n);
    let outcome = run(&go_back(), 2000, cut, |_| false);
    assert!(outcome.delivered.is_sorted_by(|a, b| a < b));
    assert_eq!(outcome.delivered.last(), Some(&2000));
    assert!(outcome.delivered.len() < 2000);
}
