//! `kara print`: programs as assembly.

use crate::arguments::Common;
use crate::failure::{Answer, Failure};
use crate::input::{Input, Sidecars, reachable};
use crate::output;
use karakoram_bpf::insn::{FuncId, InsnId};
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm::{self, Targets};
use karakoram_elf::link;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Prover;
use karakoram_proof::facts::{Fact, Facts, Kind};
use serde_json::json;
use std::collections::HashMap;

const AFTER_HELP: &str = "\
Examples:
  kara print prog.o                     everything, as text that `kara asm` and `kara opt` read
  kara print prog.o --prog xdp_main     one program with the functions it calls
  kara print prog.o --source            with the lines of C it came from
  kara print prog.o --facts             with what the prover knows before each instruction

Exit status: 0 done, 2 wrong request or input.";

/// Options of `kara print`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = AFTER_HELP)]
pub struct Options {
    /// Object (.o), .k2, .bpf, assembly (.s) or raw instructions (.insns); - is stdin
    #[arg(value_name = "IN")]
    input: String,
    /// Only this program, by function or section; may be repeated
    #[arg(long, value_name = "NAME")]
    prog: Vec<String>,
    /// Show the source lines, where the object has them
    #[arg(long)]
    source: bool,
    /// Show what is known of registers before each instruction
    #[arg(long)]
    facts: bool,
    #[command(flatten)]
    sidecars: Sidecars,
}

impl Options {
    /// Prints.
    pub fn run(&self, common: &Common) -> Result<Answer, Failure> {
        let input = Input::read(&self.input, &self.sidecars)?;
        let program = input.program();
        let functions = self.functions(&input)?;
        let text = if functions.len() == program.functions.len() && !self.source && !self.facts {
            asm::print(program)
        } else {
            functions.iter().map(|f| self.function(&input, *f)).collect::<Vec<_>>().join("\n")
        };
        if common.json {
            let functions: Vec<_> = functions
                .iter()
                .map(|f| {
                    let function = program.function(*f);
                    json!({ "name": function.name, "section": function.section, "slots": function.slots(),
                        "insns": asm::lines(program, *f, Targets::Relative).iter().map(|l| &l.text).collect::<Vec<_>>() })
                })
                .collect();
            output::print_json(
                &json!({ "schema": "kara/print/1", "ok": true, "exit_code": 0, "functions": functions }),
            );
        } else {
            output::print_text(&text);
        }
        Ok(Answer::Yes)
    }

    fn functions(&self, input: &Input) -> Result<Vec<FuncId>, Failure> {
        let program = input.program();
        if self.prog.is_empty() {
            return Ok((0..program.functions.len() as u32).map(FuncId).collect());
        }
        let mut all: Vec<FuncId> = Vec::new();
        for entry in input.entries(&self.prog)? {
            all.extend(reachable(program, entry));
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    fn function(&self, input: &Input, id: FuncId) -> String {
        let program = input.program();
        let function = program.function(id);
        let source = if self.source { source_lines(input, id) } else { HashMap::new() };
        let facts = self.facts.then(|| Prover::new(program, ProverOptions::default()).facts(program, id));
        let mut out = header(program, id);
        for (position, line) in asm::lines(program, id, Targets::Labels).into_iter().enumerate() {
            if let Some(text) = source.get(&function.nodes[position].id) {
                out += &format!("; {text}\n");
            }
            if let Some(label) = line.label {
                out += &format!("{label}:\n");
            }
            if let Some(facts) = &facts {
                out += &format!("    ; {}\n", known(facts, position));
            }
            out += &format!("    {}\n", line.text);
        }
        out
    }
}

/// The first lines of a function as the assembly has them.
fn header(program: &Program, id: FuncId) -> String {
    let single = Program { functions: vec![program.function(id).clone()], ..Program::default() };
    let text = asm::print(&single);
    text.lines().take_while(|l| l.starts_with('.')).map(|l| format!("{l}\n")).collect()
}

/// The source line that begins at each instruction, when it is another than before.
fn source_lines(input: &Input, id: FuncId) -> HashMap<InsnId, String> {
    let Some(object) = input.object() else { return HashMap::new() };
    let Ok(image) = link::link_function(object, id, &link::Target::default()) else { return HashMap::new() };
    let mut out = HashMap::new();
    for line in &image.lines {
        let Some(origin) = image.origins.get(line.slot).filter(|o| o.function == id) else { continue };
        out.insert(origin.insn, format!("{}:{}: {}", line.file, line.line, line.text.trim()));
    }
    out
}

/// What is known before an instruction, in one line.
fn known(facts: &Facts, position: usize) -> String {
    let Some(state) = &facts.before[position] else { return "never reached".to_string() };
    let live = &facts.live[position];
    let one = |(number, fact): (usize, &Fact)| {
        let text = describe(fact)?;
        let dead = if live.iter().any(|r| r.index() == number) { "" } else { " (dead)" };
        Some(format!("r{number}={text}{dead}"))
    };
    let all: Vec<String> = state.regs.iter().enumerate().filter_map(one).collect();
    all.join(" ")
}

fn describe(fact: &Fact) -> Option<String> {
    if fact.kind == Kind::Uninit {
        return None;
    }
    if let Some(value) = fact.value() {
        return Some(format!("{value:#x}"));
    }
    if let Some(offset) = fact.stack_offset() {
        return Some(format!("fp{offset:+}"));
    }
    Some(match fact.kind {
        Kind::Pointer { region, nullable } => {
            let null = if nullable { " or 0" } else { "" };
            format!("{region:?}{:+}{null}", fact.delta as i64)
        }
        Kind::Map(map) => format!("map {map}"),
        Kind::Scalar => "number".to_string(),
        _ => "unknown".to_string(),
    })
}
