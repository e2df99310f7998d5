//! How long the prover takes for each rewrite of a program, with parts of its memory model switched off:
//! `questions [--without LIST] [--from N] [--prog NAME] FILE.o`. The rewrites are those that optimizing for slots, as K2 does,
//! applies with everything switched on, so they are the same for every LIST (of memory-regions, map-tables, offsets, windows). Prints
//! one JSON object for each; whoever waits sets the time limit. Questions have no limit of their own.

use karakoram_elf::Object;
use karakoram_optimize::cost::Goal;
use karakoram_optimize::{Options, optimize};
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Applied, Proven, Prover};
use karakoram_proof::solver::Backend;
use std::io::Write;
use std::time::{Duration, Instant};

/// Quick questions are asked so often, and the median is printed.
const TIMES: usize = 5;
/// A question is quick below that.
const QUICK: Duration = Duration::from_millis(200);

struct Request {
    without: Vec<String>,
    from: usize,
    prog: Option<String>,
    file: String,
}

fn request() -> Result<Request, Box<dyn std::error::Error>> {
    let mut request = Request { without: Vec::new(), from: 0, prog: None, file: String::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--without" => request.without = value()?.split(',').map(str::to_string).collect(),
            "--from" => request.from = value()?.parse()?,
            "--prog" => request.prog = Some(value()?),
            _ => request.file = argument,
        }
    }
    Ok(request)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let request = request()?;
    let object = Object::parse(std::fs::read(&request.file)?)?;
    let program = object.program();
    let only = request.prog.map(|name| [name].into_iter().collect());
    let found = optimize(program.clone(), &Options { only, goal: Goal::Slots, ..Options::default() }, &mut |_| {});
    let has = |part: &str| !request.without.iter().any(|w| w == part);
    let options = ProverOptions {
        memory_regions: has("memory-regions"),
        map_tables: has("map-tables"),
        offsets: has("offsets"),
        windows: has("windows"),
    };
    let mut measured = Prover::new(program, options);
    measured.backend = Backend::Cadical { conflicts: i32::MAX };
    let keeper = Prover::new(program, ProverOptions::default());
    let mut proven = Proven::input(program.clone());
    let steps = found.proven.applied();
    let mut at = 0;
    while at < steps.len() {
        let same = |s: &&Applied| s.round == steps[at].round && s.rewrite.function == steps[at].rewrite.function;
        let round: Vec<&Applied> = steps[at..].iter().take_while(same).collect();
        let function = steps[at].rewrite.function;
        let facts = keeper.facts(proven.program(), function);
        for (number, step) in round.iter().enumerate().filter(|(n, _)| at + n >= request.from) {
            let (time, verdict) = ask(&|| measured.judge(proven.program(), &facts, &step.rewrite));
            let (answer, queries) = match &verdict {
                Ok(effort) => ("holds".to_string(), effort.queries),
                Err(refusal) => (refusal.to_string(), 0),
            };
            let window: usize = step.rewrite.window.iter().map(|r| r.len()).sum();
            println!(
                "{{\"question\":{},\"of\":{},\"rule\":{:?},\"window_insns\":{window},\"micros\":{:.1},\"queries\":{queries},\"answer\":{answer:?}}}",
                at + number,
                steps.len(),
                step.rewrite.rule,
                time.as_secs_f64() * 1e6
            );
            std::io::stdout().flush()?;
        }
        let batch = round.iter().map(|s| s.rewrite.clone()).collect();
        keeper.apply(&mut proven, function, &facts, batch, &mut || true);
        at += round.len();
    }
    Ok(())
}

/// The median time of a question, and its answer.
fn ask<T>(question: &dyn Fn() -> T) -> (Duration, T) {
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        let answer = question();
        times.push(start.elapsed());
        if times.len() == TIMES || times[0] > QUICK {
            times.sort_unstable();
            return (times[times.len() / 2], answer);
        }
    }
}
