//! The `kara` command: parse, call, print, exit. One file per subcommand in `commands/`, with its
//! options and its `run`; everything that prints, colours, reads the environment or exits is here.

mod arguments;
mod bytes;
mod changes;
mod commands;
mod counterexample;
mod coverage;
mod engine;
mod failure;
mod figures;
mod frame;
mod input;
mod interrupt;
mod judge;
mod latencies;
mod output;
mod packets;
mod pcap;
mod progress;
mod replay;
mod report;
mod scenario;
mod table;
mod takeback;
mod terminal;
mod timing;
mod tracer;

use arguments::{Arguments, Common};
use clap::Parser;
use clap::error::ErrorKind;
use failure::{Answer, Failure};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let wants_json = std::env::args_os().skip(1).take_while(|a| a != "--").any(|a| a == "--json");
    failure::install_panic_hook(wants_json);
    interrupt::install();
    let started = Instant::now();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse_arguments(&error, wants_json, started),
    };
    let Common { json, .. } = arguments.common;
    let name = arguments.command.name();
    // A panic below has printed its message already; it must not look like an answer.
    let result = std::panic::catch_unwind(|| arguments.command.run(&arguments.common));
    match result {
        Ok(Ok(Answer::Yes)) => ExitCode::SUCCESS,
        Ok(Ok(Answer::No)) => ExitCode::from(1),
        Ok(Err(failure)) => {
            failure.print(name, json, started.elapsed().as_secs_f64());
            ExitCode::from(failure.exit_code())
        }
        Err(_) => ExitCode::from(failure::BUG),
    }
}

/// Help and version are answers; everything else that clap stops at is a wrong request.
fn refuse_arguments(error: &clap::Error, json: bool, started: Instant) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if json {
        let name = std::env::args().skip(1).find_map(|a| arguments::known_name(&a)).unwrap_or("kara");
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let first = text.split("\n\n").next().unwrap_or("").trim();
        let failure = Failure::usage(first.to_string());
        failure.print(name, true, started.elapsed().as_secs_f64());
    } else {
        let _ = error.print();
    }
    ExitCode::from(2)
}
