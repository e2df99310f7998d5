//! Optimizes programs and says what came of it: `optimize [-v] [-x] [-g] [-O1|-O2|-O3] [-w A:B] [-s RULE] FILE..`, where a
//! file is an object or text. With `-v` the result is printed, with `-x` all refusals; `-g` is the goal `slots`.

use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::{self, Format};
use karakoram_optimize::cost::Goal;
use karakoram_optimize::pipeline::SlotWindow;
use karakoram_optimize::{Level, Options, optimize};
use std::collections::BTreeMap;

fn read(path: &str) -> Result<Program, String> {
    if path.ends_with(".o") {
        let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
        let object = karakoram_elf::Object::parse(bytes).map_err(|e| e.to_string())?;
        return Ok(object.program().clone());
    }
    let source = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let format = Format::of_path(path).unwrap_or(Format::Asm);
    let beside = |ending: &str| std::fs::read_to_string(std::path::Path::new(path).with_extension(ending)).ok();
    text::read(format, &source, beside("desc").as_deref(), beside("maps").as_deref()).map_err(|e| e.to_string())
}

fn main() {
    let mut options = Options::default();
    let mut verbose = false;
    let mut files = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(a) = arguments.next() {
        match a.as_str() {
            "-v" => verbose = true,
            "-x" => options.explain = true,
            "-g" => options.goal = Goal::Slots,
            "-O1" => options.level = Level::O1,
            "-O2" => options.level = Level::O2,
            "-O3" => options.level = Level::O3,
            "-s" => {
                options.skip.insert(arguments.next().expect("-s RULE"));
            }
            "-w" => {
                let range = arguments.next().expect("-w A:B");
                let (first, last) = range.split_once(':').expect("-w A:B");
                let number = |s: &str| s.parse().expect("a slot");
                options.window = Some(SlotWindow { function: FuncId(0), first: number(first), last: number(last) });
            }
            _ => files.push(a),
        }
    }
    type Worth = (usize, usize, i64, BTreeMap<&'static str, usize>);
    let mut rules: BTreeMap<String, Worth> = BTreeMap::new();
    let (mut before, mut after) = (0, 0);
    for file in files {
        let program = match read(&file) {
            Ok(program) => program,
            Err(why) => {
                println!("{file}: {why}");
                continue;
            }
        };
        let outcome = optimize(program, &options, &mut |_| {});
        for refused in &outcome.refused {
            println!("{}: {}", refused.why, refused.rewrite);
        }
        let name = file.rsplit('/').next().unwrap_or(&file);
        for f in &outcome.functions {
            println!(
                "{name:32} {:28} {:6} -> {:6} slots {:5.1} %  {:3} rounds {:8.3} s{}",
                f.name,
                f.before.slots,
                f.after.slots,
                100.0 * (f.before.slots as f64 - f.after.slots as f64) / f.before.slots as f64,
                f.rounds,
                f.time.as_secs_f64(),
                if outcome.is_partial { " (partial)" } else { "" }
            );
            before += f.before.slots;
            after += f.after.slots;
            for (rule, stats) in &f.rules {
                let total = rules.entry(rule.clone()).or_default();
                total.0 += stats.judged;
                total.1 += stats.accepted;
                total.2 += stats.saved_slots;
                stats.refused.iter().for_each(|(why, n)| *total.3.entry(why).or_insert(0) += n);
            }
        }
        if verbose {
            println!("{}", text::asm::print(outcome.proven.program()));
        }
    }
    println!("total {before} -> {after} slots, {:.2} %", 100.0 * (before as f64 - after as f64) / before as f64);
    println!("{:28} {:>7} {:>8} {:>6}", "rule", "judged", "accepted", "slots");
    for (rule, (judged, accepted, saved, refused)) in rules {
        println!("{rule:28} {judged:7} {accepted:8} {saved:6}  {refused:?}");
    }
}
