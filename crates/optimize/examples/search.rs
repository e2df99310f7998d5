//! Searches all functions of a program and says what was found and how fast:
//! `cargo run --release --example search -- FILE [FIRST:LAST]`. Nothing but the search is used.

use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::{self, Format, asm};
use karakoram_elf::Object;
use karakoram_optimize::search::{Budget, Search, SearchOptions, window::positions_of_slots};
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Proven, Prover};
use karakoram_proof::rewrite::Rewrite;
use std::time::Instant;

fn read(path: &str) -> Result<Program, Box<dyn std::error::Error>> {
    if path.ends_with(".o") {
        return Ok(Object::parse(std::fs::read(path)?)?.program().clone());
    }
    let beside = |ending| std::fs::read_to_string(std::path::Path::new(path).with_extension(ending)).ok();
    let format = Format::of_path(path).ok_or("unknown ending")?;
    let source = std::fs::read_to_string(path)?;
    Ok(text::read(format, &source, beside("desc").as_deref(), beside("maps").as_deref())?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let slots: Option<(usize, usize)> =
        arguments.next().and_then(|w| w.split_once(':').map(|(a, b)| (a.parse().unwrap_or(0), b.parse().unwrap_or(0))));
    let program = read(&path)?;
    let prover = Prover::new(&program, ProverOptions::default());
    let mut proven = Proven::input(program);
    let before = proven.program().slots();
    let start = Instant::now();
    let mut budget = Budget::new(200_000_000, 100_000);
    for f in (0..proven.program().functions.len()).map(|f| FuncId(f as u32)) {
        let within = slots.map(|(a, b)| positions_of_slots(proven.program().function(f), a, b));
        let mut options = SearchOptions { within, ..SearchOptions::default() };
        loop {
            let facts = prover.facts(proven.program(), f);
            let search =
                Search { program: proven.program(), function: f, facts: &facts, prover: &prover, options: &options };
            let proposals: Vec<Rewrite> = search.find(&mut budget).into_iter().map(|found| found.rewrite).collect();
            if proposals.is_empty() {
                break;
            }
            let mut saved = 0;
            for p in &proposals {
                let code = proven.program().function(f);
                saved += p.saved_slots(code);
                println!("{} {:?}", code.name, p.window[0]);
                for node in &code.nodes[p.window[0].clone()] {
                    println!("    - {}", asm::print_insn(&node.insn, proven.program()));
                }
                for node in &p.edits[0].nodes {
                    println!("    + {}", asm::print_insn(&node.insn, proven.program()));
                }
            }
            let mut removed = 0;
            let sizes: Vec<i64> =
                proposals.iter().map(|p| p.edits[0].at.len() as i64 - p.edits[0].nodes.len() as i64).collect();
            for (verdict, size) in prover.apply(&mut proven, f, &facts, proposals, &mut || true).iter().zip(sizes) {
                match verdict {
                    Some(Ok(_)) => removed += size,
                    other => println!("not applied: {other:?}"),
                }
            }
            if let Some(w) = &mut options.within {
                w.end = (w.end as i64 - removed).max(w.start as i64) as usize;
            }
            if saved == 0 {
                break;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let (candidates, judgements) = (200_000_000 - budget.candidates, 100_000 - budget.judgements);
    println!("{path}: {before} -> {} slots in {seconds:.3} s", proven.program().slots());
    println!("{candidates} candidates ({:.2} million/s), {judgements} judgements", candidates as f64 / seconds / 1e6);
    Ok(())
}
