//! `kara link trace`: what happens on a running link.

use super::SocketOption;
use super::protect::machine;
use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::interrupt;
use crate::output::{self, Artefact};
use karakoram_tunnel::{Record, capture_header, capture_record, subscribe};
use serde_json::json;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  kara link trace                                one line for each event, until Ctrl-C
  kara link trace --pcap link.pcap --seconds 5   and the frames on the line, for Wireshark
  kara link trace --events 100 | grep lost
  kara link trace --json | jq .event             one object for each event

Each line is the time since the link started and the event. A capture has what was sent, before it
was lost on purpose, and what was received. A reader that is too slow is told how much it missed.

Exit status: 0 done, 2 the capture cannot be written, 3 no link answers there.";

/// Captures are kept in memory until they are written.
const MOST_CAPTURE_BYTES: usize = 1 << 30;

/// Options of `kara link trace`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    #[command(flatten)]
    socket: SocketOption,
    /// Write the frames on the line to a capture, at most 1 GB
    #[arg(long, value_name = "FILE")]
    pcap: Option<String>,
    /// End after so many events
    #[arg(long, value_name = "N")]
    events: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
}

impl Options {
    /// Listens.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        if let Some(path) = &self.pcap {
            output::check(path, true)?;
        }
        if let Some(seconds) = self.seconds {
            interrupt::stop_after(Duration::try_from_secs_f64(seconds).map_err(|e| Failure::usage(e.to_string()))?);
        }
        let records = subscribe(&self.socket.socket)
            .map_err(|e| machine(e).help("is `kara link protect` running, with the same --socket?"))?;
        let mut capture = capture_header().to_vec();
        let mut events_left = self.events.unwrap_or(u64::MAX);
        for record in records {
            match record {
                Record::Line(line) => {
                    if !print(&line, common.json) {
                        break;
                    }
                    events_left -= 1;
                }
                Record::Frame { at_ps, bytes } if self.pcap.is_some() && capture.len() < MOST_CAPTURE_BYTES => {
                    capture_record(at_ps, &bytes, &mut capture);
                }
                Record::Frame { .. } | Record::Nothing => {}
            }
            if events_left == 0 || interrupt::flag().load(Ordering::Relaxed) {
                break;
            }
        }
        self.pcap.as_ref().map_or(Ok(()), |path| output::write(path, &Artefact::Binary(capture)))?;
        Ok(Answer::Yes)
    }
}

/// Prints a line of the trace, as it is or as an object. Whether anybody still reads.
fn print(line: &str, as_json: bool) -> bool {
    let line = line.trim_end();
    let text = match line.split_once(' ') {
        Some((seconds, event)) if as_json => {
            json!({ "schema": "kara/link/trace/1", "seconds": seconds.parse::<f64>().ok(), "event": event }).to_string()
        }
        _ => line.to_string(),
    };
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).is_ok()
}
