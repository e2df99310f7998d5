//! `kara link protect`: one end of a protected link.

use super::SocketOption;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::{interrupt, output};
use karakoram_link::config::{MOST_WINDOW, Protection};
use karakoram_link::monitor::MonitorConfig;
use karakoram_link::wire::Profile;
use karakoram_link::{LossTrace, Mode, Probability};
use karakoram_tunnel::{End, LossModel, Place, Settings, Status, TunnelError};
use serde_json::json;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

const AFTER_HELP: &str = "\
Examples:
  kara link protect --line eth1 --inside tap:kara0
      makes kara0; what goes in there comes out of the other host's
  kara link protect --line eth1 --inside eth0 --against 1e-3
      between two interfaces, with the copies that a loss of 1e-3 calls for
  kara link protect --line eth1 --inside tap:kara0 --rate 1G --loss 1e-3 --seed 7
      loses one of a thousand frames that it sends, on purpose
  kara link protect --line eth1 --inside tap:kara0 --mode off --loss 1e-3
      the same without protection, to compare with

Run it on both hosts, the second one's line being the other end of the first one's. Frames are longer
on the line, so the MTU of a TAP device is set 10 bytes below the line's. It runs until Ctrl-C and
leaves nothing behind: a TAP device goes with it, offloads that it switched off come back.

Exit status: 0 ended as asked, 2 wrong request, 3 not possible on this machine.";

/// Options of `kara link protect`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Interface that leads to the other end
    #[arg(long, value_name = "INTERFACE")]
    line: Place,
    /// Interface that hosts use; tap:NAME makes one
    #[arg(long, value_name = "INTERFACE|tap:NAME")]
    inside: Place,
    /// Whether order is kept
    #[arg(long, value_enum, default_value_t = ModeOption::Ordered)]
    mode: ModeOption,
    /// Protect from the start, or when the other end finds that the line loses frames
    #[arg(long, value_enum, default_value_t = WhenOption::Always)]
    when: WhenOption,
    /// Send as many copies as this loss rate calls for, to bring it below 1e-8
    #[arg(long, value_name = "RATE", default_value = "1e-3")]
    against: Probability,
    /// Send so many copies of each lost frame
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15), conflicts_with = "against")]
    copies: Option<u8>,
    /// Layout of frames on the line; the same at both ends
    #[arg(long, value_enum, default_value_t = ProfileOption::Native)]
    profile: ProfileOption,
    /// Speed of the line in bits a second (k, M, G); as fast as can be, if not given
    #[arg(long, value_name = "BITS", value_parser = bits)]
    rate: Option<u64>,
    /// How long it takes to get a lost frame again; all time-outs follow it
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = duration)]
    round_trip: Duration,
    /// Frames that may wait for a lost one, and copies that are kept
    #[arg(long, value_name = "N", default_value_t = 8192)]
    window: usize,
    /// Room for frames that wait for the line, in KB
    #[arg(long, value_name = "KB", default_value_t = 560)]
    queue: u32,
    /// Mark frames for congestion (ECN) from so many KB in the queue on
    #[arg(long, value_name = "KB")]
    mark: Option<u32>,
    #[command(flatten)]
    socket: SocketOption,
    /// Write every event as a line to a file
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    #[command(flatten)]
    weather: Weather,
}

/// For tests: a worse link than there is.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Trying it out")]
struct Weather {
    /// Lose frames that are sent, with this probability
    #[arg(long, value_name = "RATE")]
    loss: Option<Probability>,
    /// Lose the frames that a file names: number and attempts, counted from 0
    #[arg(long, value_name = "FILE", conflicts_with = "loss")]
    loss_trace: Option<PathBuf>,
    /// Start of the random numbers for --loss
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Hand on what arrives so much later, as if a longer path followed
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    delay: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum ModeOption {
    /// Later frames wait until a lost one is there
    Ordered,
    /// Frames pass at once; recovered ones come late
    NonBlocking,
    /// No protection
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum WhenOption {
    /// From the start
    Always,
    /// When at least 1e-5 of the last million frames are lost, with the copies that calls for, until it is
    /// less than 1e-6
    Lossy,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum ProfileOption {
    /// 5 bytes more, carries frames of any type
    Native,
    /// 3 bytes more, as LinkGuardian's: IPv4 only
    Authors,
}

/// A number of bits a second.
fn bits(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.chars().last() {
        Some('k') => (&text[..text.len() - 1], 1e3),
        Some('M') => (&text[..text.len() - 1], 1e6),
        Some('G') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let number: f64 = digits.parse().map_err(|_| "expected a number of bits a second, such as 500M or 1G")?;
    let rate = number * factor;
    (1e3..=1e12).contains(&rate).then_some(rate as u64).ok_or("expected 1k to 1000G bits a second".to_string())
}

/// A length of time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or("expected a time with its unit, such as 2ms")?;
    let unit = match &text[at..] {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        other => return Err(format!("`{other}` is no unit of time; expected s, ms or us")),
    };
    let number: f64 = text[..at].parse().map_err(|_| format!("`{}` is no number", &text[..at]))?;
    let seconds = number * unit;
    (0.0..=100.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds)).ok_or("expected 0 to 100s".to_string())
}

fn ps(time: Duration) -> u64 {
    time.as_nanos() as u64 * 1000
}

impl Options {
    /// Carries frames.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let settings = self.settings()?;
        let mut end = End::open(settings).map_err(machine)?;
        end.listen(&self.socket.socket).map_err(machine)?;
        if let Some(path) = &self.events {
            let file = File::create(path).map_err(|e| Failure::file(&path.to_string_lossy(), "write", &e))?;
            end.log_to(file);
        }
        if let Some(seconds) = self.seconds {
            interrupt::stop_after(Duration::try_from_secs_f64(seconds).map_err(|e| Failure::usage(e.to_string()))?);
        }
        if !common.quiet {
            let inside = end.inside();
            eprintln!("{} is up, MTU {}; Ctrl-C ends the link", inside.name(), inside.mtu());
        }
        let status = end.run(interrupt::flag()).map_err(machine)?;
        report(&status, common);
        Ok(Answer::Yes)
    }

    fn settings(&self) -> Result<Settings, Failure> {
        if let Place::Tap(_) = self.line {
            return Err(Failure::usage("the line is an interface that leads to the other end, not one to be made"));
        }
        if self.when == WhenOption::Lossy && self.profile == ProfileOption::Authors {
            return Err(Failure::usage("--when lossy needs --profile native: the other layout has no reports"));
        }
        if self.round_trip.is_zero() || !(16..=MOST_WINDOW).contains(&self.window) {
            return Err(Failure::usage(format!("--round-trip must be positive, --window from 16 to {MOST_WINDOW}")));
        }
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(Settings {
            inside: self.inside.clone(),
            line: self.line.clone(),
            protection: self.protection().filter(|_| self.when == WhenOption::Always),
            on_demand: self.protection().filter(|_| self.when == WhenOption::Lossy).map(|p| p.mode),
            monitor: monitor(),
            profile: match self.profile {
                ProfileOption::Native => Profile::Native,
                ProfileOption::Authors => Profile::Authors,
            },
            rate_bits: self.rate,
            round_trip_ps: ps(self.round_trip),
            loss: self.weather.model()?,
            delay_ps: ps(self.weather.delay),
            epoch: since_1970.as_micros() as u64,
            queue_cells: (self.queue * 1000).div_ceil(80).max(40),
            mark_cells: self.mark.map(|kb| (kb * 1000).div_ceil(80)),
            window_frames: self.window,
        })
    }

    fn protection(&self) -> Option<Protection> {
        let mode = match self.mode {
            ModeOption::Ordered => Mode::Ordered,
            ModeOption::NonBlocking => Mode::NonBlocking,
            ModeOption::Off => return None,
        };
        let fitting = Protection::against(self.against, mode);
        Some(Protection { copies: self.copies.unwrap_or(fitting.copies), ..fitting })
    }
}

/// A million frames tell a loss of 1e-5 to about a third of it.
fn monitor() -> MonitorConfig {
    MonitorConfig {
        window_frames: 1_000_000,
        activate: Probability::of(1, 100_000),
        deactivate: Probability::of(1, 1_000_000),
        least_losses: 3,
        ..MonitorConfig::published()
    }
}

impl Weather {
    fn model(&self) -> Result<LossModel, Failure> {
        if let Some(path) = &self.loss_trace {
            let name = path.to_string_lossy();
            let text = fs::read_to_string(path).map_err(|e| Failure::file(&name, "read", &e))?;
            let trace = LossTrace::parse(&text).map_err(|e| Failure::input(e).of_file(&name))?;
            return Ok(LossModel::Trace(trace));
        }
        Ok(self.loss.map_or(LossModel::None, |rate| LossModel::Random { rate, seed: self.seed }))
    }
}

/// What a link that cannot be is reported as.
pub(super) fn machine(error: TunnelError) -> Failure {
    let failure = Failure::machine(error.to_string());
    match error.why.contains("EPERM") || error.why.contains("EACCES") {
        true => failure.help("run as root, or with CAP_NET_ADMIN and CAP_NET_RAW"),
        false => failure,
    }
}

/// Figures of a link, as text or JSON.
pub(super) fn report(status: &Status, common: &Common) {
    if common.json {
        let figures: serde_json::Map<String, serde_json::Value> =
            status.figures().map(|(name, value)| (name.to_string(), value.into())).collect();
        output::print_json(&json!({ "schema": "kara/link/1", "ok": true, "exit_code": 0, "figures": figures }));
    } else {
        let width = status.figures().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines: String = status.figures().map(|(name, value)| format!("{name:width$} {value:>14}\n")).collect();
        output::print_text(&lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units() {
        assert_eq!(bits("500M"), Ok(500_000_000));
        assert_eq!(bits("2.5G"), Ok(2_500_000_000));
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1500)));
        for wrong in ["", "G", "1", "-1G", "1e9G"] {
            assert!(bits(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "1", "ms", "1h", "-1s", "1000s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
