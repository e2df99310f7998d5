//! The same load on a link with go-back-N.

use crate::arguments::Common;
use crate::output;
use karakoram_link::go_back_n::GoBackConfig;
use karakoram_simulator::exchange::{Exchange, Outcome, run};
use karakoram_simulator::link::Rate;
use karakoram_simulator::loss::LossStream;
use karakoram_simulator::stress::FULL_FRAME;
use serde_json::{Value, json};

/// Simulates, and says what came of it.
pub(super) fn simulate(rate: Rate, frames: u64, losses: LossStream, common: &Common) {
    let outcome = run(&Exchange::in_ports(rate, 0, frames), &GoBackConfig::sample_200g(), losses);
    match common.json {
        true => output::print_json(&to_json(&outcome)),
        false => output::print_text(&to_text(&outcome)),
    }
}

/// Frames that went over the wire again because of a loss.
fn replayed(outcome: &Outcome) -> u64 {
    outcome.wire_frames - outcome.sent
}

fn to_text(outcome: &Outcome) -> String {
    let latency = |share| format!("{} ns", outcome.latency_quantile_ns(share));
    let lines = [
        ("frames sent", outcome.sent.to_string()),
        ("lost by the link", format!("{} ({:.3e})", outcome.lost, outcome.lost as f64 / outcome.wire_frames as f64)),
        ("still lost", (outcome.sent - outcome.delivered).to_string()),
        ("carried", format!("{:.3} Gb/s", outcome.carried(FULL_FRAME) / 1e9)),
        ("replayed", replayed(outcome).to_string()),
        ("latency, median", latency(0.5)),
        ("latency, 99.99 %", latency(0.9999)),
        ("copies kept", format!("at most {} bytes", outcome.copy_peak)),
    ];
    lines.iter().map(|(name, value)| format!("{name:26}{value}\n")).collect()
}

fn to_json(outcome: &Outcome) -> Value {
    json!({
        "schema": "kara/link/simulate/1", "ok": true, "exit_code": 0, "protocol": "go-back-n",
        "frame_bytes": FULL_FRAME, "duration_ps": outcome.duration,
        "frames": outcome.sent, "lost": outcome.lost, "residual": outcome.sent - outcome.delivered,
        "carried_bps": outcome.carried(FULL_FRAME), "replayed_frames": replayed(outcome),
        "latency_ns": { "p50": outcome.latency_quantile_ns(0.5), "p9999": outcome.latency_quantile_ns(0.9999) },
        "copy_bytes": { "max": outcome.copy_peak }, "wire_frames": outcome.wire_frames,
    })
}
