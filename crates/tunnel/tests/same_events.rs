//! The same losses in the simulator and on the real link: the same events, at other times.

mod bench;

use bench::{Link, settings, testbed};
use karakoram_link::config::{Protection, ReceiverConfig, SenderConfig};
use karakoram_link::{Event, LossTrace, Mode};
use karakoram_simulator::link::{ProtectedLink, Rate, Setup, Timing};
use karakoram_simulator::loss::{LossModel, LossStream};
use karakoram_simulator::random::Random;
use karakoram_tunnel::{LossModel as RealLoss, Settings};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs;

const FRAMES: u32 = 3000;
const SIMULATED_ROUND_TRIP_PS: u64 = 8_000_000;
/// A little less than a frame takes: the line is never idle, so that no dummy comes between.
const SLOT_PS: u64 = 83_000;

type Log = Vec<(u64, Event)>;

/// What the two ends tell when the frames at these places on the wire are lost.
fn simulate(positions: &[u64]) -> (Log, Log) {
    let setup = Setup {
        sender: SenderConfig { handshake: None, ..SenderConfig::corrected(80, SIMULATED_ROUND_TRIP_PS, 1) },
        receiver: ReceiverConfig::corrected(SIMULATED_ROUND_TRIP_PS),
        protection: Some(Protection { mode: Mode::Ordered, copies: 2 }),
        timing: Timing::published(Rate::gigabits(100)),
        mark_cells: None,
    };
    let losses = LossStream::new(LossModel::Trace(positions.to_vec()), Random::new(1));
    let mut link: ProtectedLink<u32, Log> = ProtectedLink::new(&setup, losses);
    let (mut offered, mut offer_at) = (0, 0);
    loop {
        let now = link.next_time().min(if offered < FRAMES { offer_at } else { u64::MAX });
        if offered == FRAMES && now > offer_at + 1_000_000_000 {
            break;
        }
        if now == offer_at && offered < FRAMES {
            link.enqueue(now, 1014);
            offered += 1;
            offer_at += SLOT_PS;
        } else {
            link.step(now, &mut |_, _| {});
        }
    }
    let (sender, receiver) = link.logs();
    (std::mem::take(sender), std::mem::take(receiver))
}

/// The trace that loses on any link what these places on the wire are in the simulator.
fn trace_of(sender: &Log, positions: &[u64]) -> String {
    let mut attempts: HashMap<u64, u32> = HashMap::new();
    let sent = sender.iter().filter_map(|(_, e)| match e {
        Event::Sent { sequence } | Event::Retransmitted { sequence, .. } => Some(Some(*sequence)),
        Event::Probed { .. } => Some(None),
        _ => None,
    });
    let mut trace = String::new();
    for (position, sequence) in sent.enumerate() {
        let Some(sequence) = sequence else { continue };
        let attempt = attempts.entry(sequence).or_default();
        if positions.contains(&(position as u64)) {
            let _ = writeln!(trace, "{} {attempt}", sequence - karakoram_link::sequence::FIRST);
        }
        *attempt += 1;
    }
    trace
}

/// Events of these kinds, in order. Those that come with every frame are left out, but for whether
/// frames were delivered in order.
fn story<'a>(events: impl Iterator<Item = &'a str>, kinds: &[&str]) -> Vec<String> {
    events.filter(|e| kinds.iter().any(|k| e.starts_with(k))).map(str::to_string).collect()
}

fn real(trace: &str) -> Option<[String; 2]> {
    let bed = testbed()?;
    let link = Link::new(&bed, "same");
    let losses = RealLoss::Trace(LossTrace::parse(trace).expect("a trace"));
    // Slower than datagrams come, for the same reason; and patient, because the machine may be busy.
    let patient = |name, line: &str| Settings {
        rate_bits: Some(100_000_000),
        round_trip_ps: 50_000_000_000,
        ..settings(name, line, Some(Mode::Ordered))
    };
    let ends = [
        Settings { loss: losses, ..patient("kl0", &bed.generator.device.name) },
        patient("kl1", &bed.tested.device.name),
    ];
    link.around(ends, || link.datagrams(FRAMES as usize + 50));
    let read = |side| {
        let text = fs::read_to_string(link.events(side)).expect("events");
        text.lines().filter_map(|l| l.split_once(' ')).map(|(_, e)| format!("{e}\n")).collect()
    };
    Some([read(0), read(1)])
}

#[test]
fn the_same_losses_make_the_same_events() {
    // One frame; a frame and its first copy; a burst; one with all its copies, which is asked for again.
    let mut positions = vec![500, 1000, 1500, 1501, 1502, 2000];
    let copies_of = |sequence: u64, positions: &[u64]| -> Vec<u64> {
        let (sender, _) = simulate(positions);
        let on_wire = sender
            .iter()
            .filter(|(_, e)| matches!(e, Event::Sent { .. } | Event::Retransmitted { .. } | Event::Probed { .. }));
        let number = karakoram_link::sequence::FIRST + sequence;
        let is_copy = |e: &Event| matches!(e, Event::Retransmitted { sequence, .. } if *sequence == number);
        on_wire.enumerate().filter(|(_, (_, e))| is_copy(e)).map(|(i, _)| i as u64).collect()
    };
    let lost_numbers = |positions: &[u64]| -> Vec<u64> {
        let (_, receiver) = simulate(positions);
        let lost = receiver.iter().filter_map(|(_, e)| match e {
            Event::Lost { first, .. } => Some(first - karakoram_link::sequence::FIRST),
            _ => None,
        });
        lost.collect()
    };
    let numbers = lost_numbers(&positions);
    positions.extend(copies_of(numbers[1], &positions).first());
    positions.sort_unstable();
    let numbers = lost_numbers(&positions);
    positions.extend(copies_of(*numbers.last().expect("a loss"), &positions).iter().take(2));
    positions.sort_unstable();
    positions.dedup();

    let (sender, receiver) = simulate(&positions);
    let trace = trace_of(&sender, &positions);
    let Some([real_sender, real_receiver]) = real(&trace) else { return };
    let text = |log: &Log| log.iter().map(|(_, e)| format!("{e}\n")).collect::<String>();
    let (sender, receiver) = (text(&sender), text(&receiver));

    let kinds = ["retransmitted", "missed"];
    let expected = story(sender.lines(), &kinds);
    assert!(expected.len() == 14, "{expected:?}");
    assert_eq!(story(real_sender.lines(), &kinds), expected, "trace:\n{trace}");
    let kinds = ["lost", "notified", "duplicate", "skipped", "overflow"];
    assert_eq!(story(real_receiver.lines(), &kinds), story(receiver.lines(), &kinds), "trace:\n{trace}");
    let delivered = story(real_receiver.lines(), &["delivered"]);
    assert_eq!(delivered[..FRAMES as usize], story(receiver.lines(), &["delivered"])[..]);
}
