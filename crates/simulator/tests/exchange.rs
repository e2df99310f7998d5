//! Both protocols over the same link, through the traits alone.

use karakoram_link::LinkProtocol;
use karakoram_link::go_back_n::GoBackConfig;
use karakoram_simulator::exchange::{Exchange, Numbered, Outcome, run};
use karakoram_simulator::link::Rate;
use karakoram_simulator::loss::{LossModel, LossStream};
use karakoram_simulator::random::Random;
use karakoram_simulator::stress::FULL_FRAME;

const FRAMES: u64 = 300_000;

fn go<P: LinkProtocol<Numbered>>(protocol: &P, exchange: &Exchange, loss: f64) -> Outcome {
    run(exchange, protocol, LossStream::new(LossModel::Independent(loss), Random::new(5)))
}

fn both(loss: f64) -> [Outcome; 2] {
    let [with_header, without] = [3, 0].map(|header| Exchange::in_ports(Rate::gigabits(100), header, FRAMES));
    let selective = with_header.selective(2);
    [go(&selective, &with_header, loss), go(&GoBackConfig::sample_200g(), &without, loss)]
}

#[test]
fn all_frames_arrive_with_either() {
    for loss in [0.0, 1e-3, 1e-2] {
        for outcome in both(loss) {
            // What leaves before both ends have agreed is not protected.
            assert!(FRAMES - outcome.delivered <= 2, "{loss}: {}", outcome.delivered);
            assert_eq!(outcome.latency_ns.iter().sum::<u64>(), outcome.delivered);
        }
    }
}

/// Selective repeat pays with copies and a buffer for what waits, going back with everything that is under
/// way at each loss.
#[test]
fn what_a_loss_costs() {
    let [selective, back] = both(1e-2);
    let per_loss = |o: &Outcome| (o.wire_frames - FRAMES) as f64 / (o.lost as f64);
    assert!((1.5..3.0).contains(&per_loss(&selective)), "{}", per_loss(&selective));
    // The round trip is 1.2 us, nearly ten frames.
    assert!((8.0..14.0).contains(&per_loss(&back)), "{}", per_loss(&back));
    assert!(selective.waiting_peak > 0 && back.waiting_peak == 0);
    assert!(selective.carried(FULL_FRAME) > back.carried(FULL_FRAME));
}
