//! What a flow shows while its link goes bad and is protected (Figures 9 and 21).

use karakoram_link::config::LineRate;
use karakoram_simulator::tcp::congestion::Algorithm;
use karakoram_simulator::timeline::{Sample, Timeline, run};

const MILLISECOND: u64 = 1_000_000_000;

fn mean(samples: &[Sample], from: u64, to: u64) -> f64 {
    let chosen: Vec<f64> = samples.iter().filter(|s| s.at > from && s.at <= to).map(|s| s.goodput).collect();
    chosen.iter().sum::<f64>() / chosen.len() as f64
}

#[test]
fn loss_slows_a_flow_down_and_protection_brings_it_back() {
    let timeline = Timeline {
        algorithm: Algorithm::Dctcp,
        line: LineRate::G25,
        loss: 1e-3,
        copies: 2,
        has_back_pressure: true,
        moderation: 48_000_000,
        lossy_at: 100 * MILLISECOND,
        protected_at: 200 * MILLISECOND,
        end: 300 * MILLISECOND,
        step: MILLISECOND,
        seed: 1,
    };
    let samples = run(&timeline);
    let third = |n: u64| mean(&samples, (n * 100 + 20) * MILLISECOND, (n * 100 + 100) * MILLISECOND);
    assert!(third(1) < third(0) / 3.0, "{} {}", third(0), third(1));
    assert!(third(2) > third(0) * 0.95, "{} {}", third(0), third(2));
    let sent_again = |from: u64| samples.iter().filter(|s| s.at > from).map(|s| s.retransmissions).sum::<u64>();
    assert!(sent_again(100 * MILLISECOND) > 0);
    assert_eq!(sent_again(220 * MILLISECOND), 0);
    assert_eq!(samples, run(&timeline));
}
