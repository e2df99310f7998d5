//! What is lost, what is carried and what is buffered, over rate, mode, copies and buffers: a change
//! of the protocol or of the simulator shows as a change of `loss_table.txt`. `BLESS=1` writes it anew.

use karakoram_link::config::{LineRate, Mode, Protection};
use karakoram_simulator::link::Buffers;
use karakoram_simulator::stress::{FULL_FRAME, Stress, run};
use std::fmt::Write;
use std::path::Path;

const FRAMES: u64 = 100_000;

fn row(line: LineRate, rate: f64, mode: Mode, copies: u8, buffers: Buffers) -> String {
    let published = Stress::published(line, Protection { mode, copies }, buffers, rate);
    let (outcome, _) = run::<()>(&Stress { frames: FRAMES, seed: 7, ..published });
    let recovery = outcome.recovery_quantile_ns(0.5).unwrap_or(0);
    format!(
        "{:4} {rate:7} {:13} {copies:6} {:7} {:6} {:9} {:9} {:10.3} {recovery:9} {:8} {:8}",
        format!("{line:?}"),
        format!("{mode:?}"),
        buffers.name(),
        outcome.counters.lost,
        outcome.residual,
        outcome.receiver.timeouts,
        outcome.carried(FULL_FRAME) / 1e9,
        outcome.copy_bytes.peak(),
        outcome.waiting_bytes.peak(),
    )
}

fn table() -> String {
    let mut text = String::from(
        "line    loss mode          copies buffers   lost  residual  timeouts       Gb/s  median ns  tx peak  rx peak\n",
    );
    for line in [LineRate::G25, LineRate::G100] {
        for rate in [1e-3, 1e-2, 5e-2] {
            for mode in [Mode::Ordered, Mode::NonBlocking] {
                for copies in 1..=3 {
                    for buffers in [Buffers::Sorted, Buffers::Rings] {
                        writeln!(text, "{}", row(line, rate, mode, copies, buffers)).expect("text takes text");
                    }
                }
            }
        }
    }
    text
}

#[test]
fn the_loss_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loss_table.txt");
    let found = table();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &found).expect("the table is written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = found.lines().zip(expected.lines()).find(|(f, e)| f != e);
    assert!(found == expected, "the first line that differs, found and expected: {differing:#?}");
}
