//! Leaping over stretches without loss changes nothing: not a counter, not a buffer's histogram, not
//! a line of the log, not its time.

use karakoram_link::config::{LineRate, Mode, Protection};
use karakoram_link::event::{Event, Log};
use karakoram_simulator::link::Buffers;
use karakoram_simulator::loss::{Bursty, LossModel};
use karakoram_simulator::stress::{Outcome, Source, Stress, run};

/// Keeps all but what happens without losses too, and is left out in a leap.
#[derive(Clone, Default, PartialEq, Debug)]
struct Unusual(Vec<(u64, Event)>);

impl Log for Unusual {
    fn event(&mut self, now_ps: u64, event: Event) {
        if !matches!(event, Event::Sent { .. } | Event::Delivered { .. } | Event::Probed { .. }) {
            self.0.push((now_ps, event));
        }
    }
}

fn both_ways(stress: &Stress) -> ((Outcome, [Unusual; 2]), u64) {
    let slow = run::<Unusual>(&Stress { is_leaping: false, ..stress.clone() });
    let (mut fast, logs) = run::<Unusual>(&Stress { is_leaping: true, ..stress.clone() });
    assert_eq!(slow.0.stepped_frames, stress.frames);
    let stepped = std::mem::replace(&mut fast.stepped_frames, stress.frames);
    let which = format!("seed {}, {:?}", stress.seed, stress.loss);
    assert_eq!(slow.0.counters, fast.counters, "{which}");
    assert_eq!(slow.0.sender, fast.sender, "{which}");
    assert_eq!(slow.0.receiver, fast.receiver, "{which}");
    assert!(slow.0.copy_bytes == fast.copy_bytes && slow.0.waiting_bytes == fast.waiting_bytes, "{which}");
    assert!(slow.0 == fast, "{which}");
    assert_eq!(slow.1, logs, "{which}");
    (slow, stepped)
}

/// Every line rate, order, buffer and kind of loss. Returns how many frames were left out.
fn sweep(buffers: Buffers, seeds: std::ops::Range<u64>) -> u64 {
    let mut left_out = 0;
    let mut losses = 0;
    for (line, mode) in [LineRate::G10, LineRate::G25, LineRate::G100]
        .into_iter()
        .flat_map(|line| [Mode::Ordered, Mode::NonBlocking].map(|mode| (line, mode)))
    {
        for seed in seeds.clone() {
            for loss in [LossModel::Independent(3e-4), LossModel::Bursty(Bursty::of(3e-4, 3.0))] {
                let protection = Protection { mode, copies: 1 + (seed % 2) as u8 };
                let published = Stress::published(line, protection, buffers, 0.0);
                let stress = Stress { loss, seed, frames: 60_000, ..published };
                let ((outcome, _), stepped) = both_ways(&stress);
                left_out += stress.frames - stepped;
                losses += outcome.counters.lost;
            }
        }
    }
    assert!(losses > 100, "only {losses} losses");
    left_out
}

#[test]
fn with_sorted_buffers() {
    let left_out = sweep(Buffers::Sorted, 0..4);
    assert!(left_out > 1_000_000, "only {left_out} frames were left out");
}

#[test]
fn with_rings() {
    let left_out = sweep(Buffers::Rings, 0..2);
    assert!(left_out > 200_000, "only {left_out} frames were left out");
}

#[test]
fn with_a_period_that_is_no_multiple_of_anything() {
    let protection = Protection { mode: Mode::Ordered, copies: 2 };
    let published = Stress::published(LineRate::G100, protection, Buffers::Sorted, 1e-4);
    for period in [131_071, 200_003, 1_000_003] {
        both_ways(&Stress { source: Source::Paced(period), frames: 100_000, seed: period, ..published.clone() });
    }
}
