//! `kara link simulate`: a protected link under full load.

mod go_back;

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::output;
use clap::ValueEnum;
use karakoram_link::Mode;
use karakoram_link::config::{LineRate, Protection};
use karakoram_link::rate::Probability;
use karakoram_simulator::link::{Buffers, Occupancy, rate};
use karakoram_simulator::loss::{Bursty, LossModel, LossStream};
use karakoram_simulator::random::Random;
use karakoram_simulator::stress::{FULL_FRAME, Outcome, Stress, run};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

const AFTER_HELP: &str = "\
Examples:
  kara link simulate --loss 1e-3                                100G, in order, buffers with random access
  kara link simulate --loss 1e-3 --line 25G --buffers ring      as the switches of the publication have it
  kara link simulate --loss 1e-5 --frames 10000000000           ten billion frames, in seconds
  kara link simulate --loss 1e-2 --burst 3 --mode non-blocking
  kara link simulate --trace lost.txt --frames 100000           positions on the wire, one in each line
  kara link simulate --protocol go-back-n --loss 1e-3           Ultra Ethernet's link-level retry instead

The same options and seed give the same figures. Stretches without loss are leapt over, which changes
nothing but the time it takes (--step does not). How fast it was is said on standard error.

Exit status: 0 simulated, 2 wrong request or input.";

/// Options of `kara link simulate`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Line rate
    #[arg(long, value_enum, default_value_t = Line::G100)]
    line: Line,
    /// How lost frames come back
    #[arg(long, value_enum, default_value_t = Protocol::Selective)]
    protocol: Protocol,
    /// Share of frames that the link corrupts
    #[arg(long, value_name = "P", default_value = "1e-3")]
    loss: Probability,
    /// Mean length of bursts of losses; without, losses are independent
    #[arg(long, value_name = "FRAMES")]
    burst: Option<f64>,
    /// File with the positions of the frames that are lost, instead of --loss
    #[arg(long, value_name = "FILE", conflicts_with = "burst")]
    trace: Option<PathBuf>,
    /// Whether order is kept
    #[arg(long, value_enum, default_value_t = Order::Ordered)]
    mode: Order,
    /// Copies of a lost frame (default: what the loss calls for)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    copies: Option<u8>,
    /// Where copies and frames out of order are kept
    #[arg(long, value_enum, default_value_t = Store::Sorted)]
    buffers: Store,
    /// Frames of 1514 bytes that come at the line's rate
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    frames: u64,
    /// Seed of the losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Simulate every frame, also where nothing is lost
    #[arg(long)]
    step: bool,
}

/// Line rates that the publication has constants for.
#[derive(Clone, Copy, ValueEnum, Debug)]
enum Line {
    #[value(name = "10G")]
    G10,
    #[value(name = "25G")]
    G25,
    #[value(name = "100G")]
    G100,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Protocol {
    /// Each lost frame is sent again (LinkGuardian)
    Selective,
    /// Everything from the lost frame on is sent again (Ultra Ethernet's link-level retry); in order, no rings,
    /// an answer within a microsecond. --mode, --copies, --buffers and --step do not apply
    GoBackN,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum Order {
    Ordered,
    NonBlocking,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum Store {
    /// In memory with random access
    Sorted,
    /// In rings that frames rotate in, as in the publication
    Ring,
}

impl Options {
    /// Simulates.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        if self.protocol == Protocol::GoBackN {
            let losses = LossStream::new(self.loss()?, Random::named(self.seed, "link losses"));
            go_back::simulate(rate(self.line()), self.frames, losses, common);
            return Ok(Answer::Yes);
        }
        let stress = self.stress()?;
        let started = Instant::now();
        let (outcome, _) = run::<()>(&stress);
        let seconds = started.elapsed().as_secs_f64();
        if !common.quiet {
            let (all, stepped) = (outcome.wire_frames as f64 / 1e6, outcome.stepped_frames as f64 / 1e6);
            eprintln!(
                "{all:.1} million frames on the wire in {seconds:.2} s: {:.1} million a second, {stepped:.3} million one by one",
                all / seconds
            );
        }
        match common.json {
            true => output::print_json(&to_json(&stress, &outcome)),
            false => output::print_text(&to_text(&stress, &outcome)),
        }
        Ok(Answer::Yes)
    }

    fn line(&self) -> LineRate {
        match self.line {
            Line::G10 => LineRate::G10,
            Line::G25 => LineRate::G25,
            Line::G100 => LineRate::G100,
        }
    }

    fn stress(&self) -> Result<Stress, Failure> {
        let line = self.line();
        let mode = match self.mode {
            Order::Ordered => Mode::Ordered,
            Order::NonBlocking => Mode::NonBlocking,
        };
        let buffers = match self.buffers {
            Store::Sorted => Buffers::Sorted,
            Store::Ring => Buffers::Rings,
        };
        let copies = self.copies.unwrap_or_else(|| self.loss.copies_for(Probability::HEALTHY));
        let published = Stress::published(line, Protection { mode, copies }, buffers, 0.0);
        Ok(Stress { loss: self.loss()?, frames: self.frames, seed: self.seed, is_leaping: !self.step, ..published })
    }

    fn loss(&self) -> Result<LossModel, Failure> {
        if let Some(path) = &self.trace {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|e| Failure::input(format!("could not be read: {e}")).of_file(&name))?;
            return LossModel::parse_trace(&text).map_err(|e| Failure::input(e).of_file(&name));
        }
        let rate = self.loss.to_f64();
        match self.burst {
            None => Ok(LossModel::Independent(rate)),
            Some(burst) if burst >= 1.0 && rate < 1.0 => Ok(LossModel::Bursty(Bursty::of(rate, burst))),
            Some(_) => Err(Failure::usage("bursts have a mean length of at least 1, and not everything is lost")),
        }
    }
}

fn to_text(stress: &Stress, outcome: &Outcome) -> String {
    let counters = &outcome.counters;
    let quantile = |share| outcome.recovery_quantile_ns(share).map_or("-".to_string(), |ns| format!("{ns} ns"));
    let buffer = |occupancy: &Occupancy| {
        let median = occupancy.quantile(outcome.duration, 0.5);
        format!("median {median} bytes, at most {} bytes", occupancy.peak())
    };
    let lines = [
        ("frames sent", counters.sent.to_string()),
        ("lost by the link", format!("{} ({:.3e})", counters.lost, outcome.actual_loss())),
        ("still lost", format!("{} ({:.3e})", outcome.residual, outcome.effective_loss())),
        ("carried", format!("{:.3} Gb/s", outcome.carried(stress.frame_bytes) / 1e9)),
        ("recovery, median", quantile(0.5)),
        ("recovery, 99 %", quantile(0.99)),
        ("copies kept", buffer(&outcome.copy_bytes)),
        ("frames held back", buffer(&outcome.waiting_bytes)),
        ("given up after a timeout", outcome.receiver.timeouts.to_string()),
        ("pauses", outcome.receiver.pauses.to_string()),
    ];
    lines.iter().map(|(name, value)| format!("{name:26}{value}\n")).collect()
}

fn to_json(stress: &Stress, outcome: &Outcome) -> Value {
    let counters = &outcome.counters;
    let buffer = |occupancy: &Occupancy| {
        let quantile = |share| occupancy.quantile(outcome.duration, share);
        json!({ "q1": quantile(0.25), "median": quantile(0.5), "q3": quantile(0.75), "max": occupancy.peak() })
    };
    json!({
        "schema": "kara/link/simulate/1", "ok": true, "exit_code": 0,
        "seed": stress.seed, "frame_bytes": FULL_FRAME, "duration_ps": outcome.duration,
        "frames": counters.sent, "lost": counters.lost, "residual": outcome.residual,
        "actual_loss": outcome.actual_loss(), "effective_loss": outcome.effective_loss(),
        "carried_bps": outcome.carried(stress.frame_bytes),
        "recovery_ns": { "p50": outcome.recovery_quantile_ns(0.5), "p99": outcome.recovery_quantile_ns(0.99) },
        "copy_bytes": buffer(&outcome.copy_bytes), "waiting_bytes": buffer(&outcome.waiting_bytes),
        "timeouts": outcome.receiver.timeouts, "pauses": outcome.receiver.pauses,
        "wire_frames": outcome.wire_frames, "stepped_frames": outcome.stepped_frames,
    })
}
