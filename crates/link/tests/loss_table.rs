//! What is left of losses, what it costs, by loss rate, mode, copies and room: a table that shows
//! every change of the protocol. `BLESS=1` writes it anew.

mod line;

use karakoram_link::config::{LineRate, Protection, Reorder};
use karakoram_link::{Fidelity, Mode, ReceiverConfig, SenderConfig};
use line::{SLOT_PS, Weather, World};
use std::fmt::Write;
use std::path::Path;

const FRAMES: u64 = 100_000;
const DELAY_SLOTS: u64 = 12;

const HEAD: &str = "\
100,000 frames of 1,514 bytes, one in each slot at 100 Gb/s, 12 slots of delay each way, independent losses.
lost: numbered frames the line lost; residual: frames that never came; late: slots until all had come, beyond
one for each frame; peak: most bytes that waited.

protocol   mode          loss  copies  window    lost  residual  duplicates  notified  late     peak
";

fn receiver(fidelity: Fidelity, window_frames: usize) -> ReceiverConfig {
    let round_trip_ps = 2 * (DELAY_SLOTS + 4) * SLOT_PS;
    match fidelity {
        Fidelity::Original => {
            ReceiverConfig { reorder: Reorder::Sorted, window_frames, ..ReceiverConfig::original(LineRate::G100) }
        }
        Fidelity::Corrected => ReceiverConfig { window_frames, ..ReceiverConfig::corrected(round_trip_ps) },
    }
}

fn sender(fidelity: Fidelity, copy_frames: usize) -> SenderConfig {
    let round_trip_ps = 2 * (DELAY_SLOTS + 4) * SLOT_PS;
    match fidelity {
        Fidelity::Original => SenderConfig::original(LineRate::G100),
        Fidelity::Corrected => {
            SenderConfig { handshake: None, copy_frames, ..SenderConfig::corrected(80, round_trip_ps, 1) }
        }
    }
}

fn row(fidelity: Fidelity, protection: Protection, per_million: u64, window: usize) -> String {
    let mut world = World::new(1, sender(fidelity, window), receiver(fidelity, window), Some(protection));
    world.lines[0].weather = Weather {
        loss_per_million: per_million,
        burst_per_million: per_million,
        delay_slots: DELAY_SLOTS,
        jitter_slots: 0,
    };
    world.lines[1].weather.delay_slots = DELAY_SLOTS;
    world.run(FRAMES, [true, false]);
    world.settle(100_000);
    let (to, stats) = (&world.nodes[1], world.nodes[1].receiver.stats());
    let mut unique = to.delivered.clone();
    unique.sort_unstable();
    unique.dedup();
    let residual = world.nodes[0].accepted - unique.len() as u64;
    let duplicates = stats.duplicates + (to.delivered.len() - unique.len()) as u64;
    format!(
        "{:<10} {:<11} {:>6} {:>7} {:>7} {:>7} {:>9} {:>11} {:>9} {:>5} {:>8}\n",
        format!("{fidelity:?}").to_lowercase(),
        format!("{:?}", protection.mode).to_lowercase(),
        per_million as f64 / 1e6,
        protection.copies,
        window,
        stats.lost_frames,
        residual,
        duplicates,
        stats.notifications,
        world.slot - FRAMES,
        to.peak_waiting_bytes,
    )
}

#[test]
fn the_loss_table() {
    let mut table = HEAD.to_string();
    for fidelity in [Fidelity::Original, Fidelity::Corrected] {
        for mode in [Mode::Ordered, Mode::NonBlocking] {
            for per_million in [100, 1_000, 10_000, 50_000] {
                for (copies, window) in [(1, 16), (1, 512), (2, 512), (3, 512)] {
                    let _ = write!(table, "{}", row(fidelity, Protection { mode, copies }, per_million, window));
                }
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/loss_table.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &table).expect("the table is written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let changed = table.lines().zip(expected.lines()).find(|(now, then)| now != then);
    assert!(table == expected, "the table has changed (BLESS=1 accepts it), first at:\n{changed:#?}");
}
