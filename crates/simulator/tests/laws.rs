//! Laws that follow from the protocol and not from the simulator's constants.

use karakoram_link::config::{LineRate, Mode, Protection};
use karakoram_simulator::bulk::{Bulk, run_bulk};
use karakoram_simulator::fct::{Flows, Variant, run as run_flows};
use karakoram_simulator::flow::Kind;
use karakoram_simulator::link::Buffers;
use karakoram_simulator::loss::LossModel;
use karakoram_simulator::rdma::Repair;
use karakoram_simulator::stress::{FULL_FRAME, Stress, run};
use karakoram_simulator::tcp::congestion::Algorithm;

/// A frame is lost for good when it and all its copies are: p^(N+1).
#[test]
fn what_is_still_lost_is_the_power_of_the_copies() {
    for (rate, copies, mode) in [(2e-2, 1, Mode::Ordered), (5e-2, 2, Mode::NonBlocking), (1e-2, 1, Mode::NonBlocking)] {
        let published = Stress::published(LineRate::G100, Protection { mode, copies }, Buffers::Sorted, rate);
        let frames = 3_000_000;
        let (outcome, _) = run::<()>(&Stress { frames, ..published });
        let expected = frames as f64 * rate.powi(i32::from(copies) + 1);
        let distance = (outcome.residual as f64 - expected).abs() / expected.sqrt();
        // Bursts of more than five frames are not recovered at all; at these rates there are few.
        assert!(distance < 4.0, "{rate} {copies}: {} of {expected}", outcome.residual);
    }
}

/// The same by making the rare event frequent: what stays lost with copies lost half the time, scaled back,
/// is what stays lost.
#[test]
fn rare_losses_can_be_made_frequent() {
    for buffers in [Buffers::Sorted, Buffers::Rings] {
        for (rate, copies, mode) in [(1e-3, 1, Mode::Ordered), (1e-3, 2, Mode::NonBlocking), (1e-4, 1, Mode::Ordered)] {
            let published = Stress::published(LineRate::G25, Protection { mode, copies }, buffers, rate);
            let (outcome, _) = run::<()>(&Stress { frames: 1_000_000, copy_loss: Some(0.5), ..published });
            let expected = outcome.counters.lost as f64 * 0.5f64.powi(copies.into());
            let distance = (outcome.residual as f64 - expected).abs() / expected.sqrt();
            assert!(distance < 4.0, "{buffers:?} {rate} {copies}: {} of {expected}", outcome.residual);
        }
    }
}

/// Copies take their share of the line, headers theirs.
#[test]
fn what_is_carried_without_order() {
    for (rate, copies) in [(1e-3, 1), (1e-2, 3)] {
        let protection = Protection { mode: Mode::NonBlocking, copies };
        let published = Stress::published(LineRate::G25, protection, Buffers::Rings, rate);
        let (outcome, _) = run::<()>(&Stress { frames: 500_000, ..published });
        let lost = outcome.actual_loss();
        let expected = 25e9 * 1538.0 / 1541.0 / (1.0 + f64::from(copies) * lost);
        let ratio = outcome.carried(FULL_FRAME) / expected;
        assert!((ratio - 1.0).abs() < 3e-4, "{rate} {copies}: {ratio}");
    }
}

fn bulk(algorithm: Algorithm, variant: Variant, rate: f64) -> f64 {
    let bulk = Bulk {
        algorithm,
        variant,
        line: LineRate::G10,
        loss: LossModel::Independent(rate),
        copies: 3,
        buffers: Buffers::Sorted,
        has_back_pressure: true,
        moderation: 12_000_000,
        warm_up: 100_000_000_000,
        time: 200_000_000_000,
        seed: 1,
    };
    run_bulk(&bulk).goodput
}

/// Behind a protected link every congestion control gets what the link carries.
#[test]
fn protection_gives_the_line_to_the_transport() {
    for algorithm in Algorithm::ALL {
        let expected = 10e9 * 1460.0 / 1541.0 / (1.0 + 3.0 * 1e-2);
        let ratio = bulk(algorithm, Variant::Ordered, 1e-2) / expected;
        let floor = if algorithm == Algorithm::Bbr { 0.9 } else { 0.97 };
        assert!((floor..1.01).contains(&ratio), "{}: {ratio}", algorithm.name());
    }
}

/// Reno's window is the root of 1.5 / p; what it takes is that per round trip.
#[test]
fn loss_without_protection_costs_what_the_root_law_says() {
    let [few, many] = [1e-3, 1e-2].map(|rate| bulk(Algorithm::Reno, Variant::Unprotected, rate));
    let ratio = few / many;
    assert!((2.4..4.0).contains(&ratio), "a tenth of the loss: {ratio} times the rate, not 3.16");
}

fn tail(kind: Kind, variant: Variant) -> u64 {
    let flows = Flows {
        kind,
        bytes: 143,
        count: 5_000,
        variant,
        line: LineRate::G100,
        loss: LossModel::Independent(5e-3),
        copies: 2,
        buffers: Buffers::Rings,
        seed: 1,
    };
    run_flows(&flows).quantile(0.999)
}

/// The loss of a message of one frame is a loss at the end of a burst: only dummies show it.
#[test]
fn dummies_save_lonely_frames() {
    for kind in [Kind::Tcp(Algorithm::Dctcp), Kind::Rdma(Repair::GoBackN), Kind::Rdma(Repair::Selective)] {
        let (lossless, protected) = (tail(kind, Variant::Lossless), tail(kind, Variant::Ordered));
        assert!(protected < lossless * 11 / 10, "{}: {protected} against {lossless}", kind.name());
        assert!(tail(kind, Variant::ResendOrder) > 10 * lossless, "{}: the dummies did nothing", kind.name());
    }
}

/// Without dummies, nobody notices that the last frame of a flow's last transmission was lost, and its copy
/// once went round forever.
#[test]
fn flows_without_dummies_end() {
    for kind in [Kind::Tcp(Algorithm::Dctcp), Kind::Rdma(Repair::GoBackN), Kind::Rdma(Repair::Selective)] {
        for variant in [Variant::Resend, Variant::ResendOrder] {
            let flows = Flows {
                kind,
                bytes: 24_387,
                count: 300,
                variant,
                line: LineRate::G100,
                loss: LossModel::Independent(0.1),
                copies: 1,
                buffers: Buffers::Rings,
                seed: 3,
            };
            assert_eq!(run_flows(&flows).times.len(), 300);
        }
    }
}
