//! Runs `tests/whole/*.txt`: what changes of a whole program give, and which are refused. The first local
//! call of the first function is inlined, or the last function removed. Both versions are run as well.
//!
//! ```text
//! test inline NAME, or remove NAME   test refuse inline/NAME, or remove/NAME
//! program                            ; refusal: part of the message
//! =>                                 program
//! program
//! ```

use karakoram_bpf::insn::{Callee, FuncId, Insn, InsnId};
use karakoram_bpf::interpreter::{Input, Interpreter, Options};
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Proven, Prover};
use karakoram_proof::certificate::{Certificate, CertificateError};
use karakoram_proof::rewrite::Rewrite;
use karakoram_proof::whole::Change;

#[derive(Default)]
struct Case {
    kind: String,
    name: String,
    given: String,
    wanted: String,
    refusal: String,
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut is_wanted = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("test ") {
            let (kind, name) = rest.split_once(' ').expect("test KIND NAME");
            cases.push(Case { kind: kind.to_string(), name: name.to_string(), ..Case::default() });
            is_wanted = false;
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        match line.strip_prefix("; refusal:") {
            Some(text) => case.refusal = text.trim().to_string(),
            None if line == "=>" => is_wanted = true,
            None => {
                let part = if is_wanted { &mut case.wanted } else { &mut case.given };
                *part += line;
                *part += "\n";
            }
        }
    }
    cases
}

fn first_call(program: &Program) -> InsnId {
    let is_call = |insn: &Insn| matches!(insn, Insn::Call(Callee::Local(_)));
    program.functions[0].nodes.iter().find(|n| is_call(&n.insn)).expect("a local call").id
}

fn run(program: &Program, context: Vec<u8>, poison: u64) -> Result<u64, String> {
    let options = Options { poison: Some(poison), ..Options::default() };
    let input = Input { context, ..Input::default() };
    Interpreter::new(program, options).run(FuncId(0), input).map(|o| o.value).map_err(|f| f.to_string())
}

fn judge(case: &Case) -> Result<(), String> {
    let read = |text: &str| asm::parse(text).map_err(|e| format!("does not parse: {e}"));
    let program = read(&case.given)?;
    let what = if case.kind == "refuse" { case.name.split('/').next().unwrap_or("") } else { &case.kind };
    let change = match what {
        "inline" => Change::Inline { caller: FuncId(0), call: first_call(&program) },
        "remove" => Change::Remove { function: FuncId(program.functions.len() as u32 - 1) },
        other => return Err(format!("unknown kind of test: {other}")),
    };
    let mut proven = Proven::input(program.clone());
    match (proven.change(change), case.kind == "refuse") {
        (Ok(()), true) => Err("was done, must be refused".to_string()),
        (Err(e), true) if proven.program() == &program && e.to_string().contains(&case.refusal) => Ok(()),
        (Err(e), true) => Err(format!("was refused for another reason: {e}")),
        (Err(e), false) => Err(format!("was refused: {e}")),
        (Ok(()), false) => {
            let (found, wanted) = (asm::print(proven.program()), asm::print(&read(&case.wanted)?));
            if found != wanted {
                return Err(format!("became\n{found}"));
            }
            for byte in [0, 1, 5, 9, 10, 200] {
                let (a, b) = (run(&program, vec![byte; 16], 1), run(proven.program(), vec![byte; 16], 2));
                // Where the interpreter has no such hook it runs neither.
                if a.is_ok() && a != b {
                    return Err(format!("with {byte}: {a:?} became {b:?}"));
                }
            }
            let certificate = Certificate::of(&program, &proven);
            let read = Certificate::parse(&certificate.to_string()).map_err(|e| e.to_string())?;
            let prover = Prover::new(&program, ProverOptions::default());
            read.replay(&program, proven.program(), &prover).map(|_| ()).map_err(|e| e.to_string())
        }
    }
}

#[test]
fn changes_of_whole_programs() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/whole");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("tests/whole exists").map(|e| e.expect("entry").path()).collect();
    files.sort();
    let (mut failed, mut total) = (Vec::new(), 0);
    for file in files {
        for case in parse(&std::fs::read_to_string(&file).expect("readable")) {
            total += 1;
            if let Err(why) = judge(&case) {
                failed.push(format!("{}: {why}", case.name));
            }
        }
    }
    assert!(total > 0, "no tests found");
    assert!(failed.is_empty(), "{} of {total} failed:\n{}", failed.len(), failed.join("\n"));
}

const PROGRAM: &str = ".func main\n.hook buffer=16\nr6 = r1\nr1 = 5\ncall five\nr1 = *(u8 *)(r6 + 0)\nr0 += r1\nexit\n\
                       .func five\n.local\nr0 = r1\nexit\n.func other\n.local\nr0 = 2\nexit\n";

/// The last instruction of `main` twice.
fn rewrite(program: &Program) -> Rewrite {
    let function = program.function(FuncId(0));
    let (end, fresh) = (function.nodes.len(), function.fresh_id());
    let mut nodes = function.nodes[end - 2..].to_vec();
    nodes.insert(1, karakoram_bpf::program::Node { id: fresh, insn: asm_insn("r0 += 0", program), patch: None });
    Rewrite::of_range(FuncId(0), end - 2..end, nodes, "test")
}

fn asm_insn(text: &str, program: &Program) -> Insn {
    asm::parse_insn(text, program).expect("an instruction")
}

#[test]
fn rewrites_come_after_changes_and_certificates_hold_both() {
    let program = asm::parse(PROGRAM).expect("parses");
    let mut proven = Proven::input(program.clone());
    proven.change(Change::Inline { caller: FuncId(0), call: first_call(&program) }).expect("inlined");
    proven.change(Change::Remove { function: FuncId(1) }).expect("nobody calls it now");
    let prover = Prover::new(proven.base(), ProverOptions::default());
    let facts = prover.facts(proven.program(), FuncId(0));
    let edit = rewrite(proven.program());
    let verdicts = prover.apply(&mut proven, FuncId(0), &facts, vec![edit], &mut || true);
    assert!(matches!(verdicts[..], [Some(Ok(_))]), "{verdicts:?}");
    let late = proven.change(Change::Remove { function: FuncId(2) });
    assert!(late.is_err(), "what was proven of functions would not be about this program");
    let text = Certificate::of(&program, &proven).to_string();
    assert!(text.contains("\ninline 2 main\nremove five\n"), "{text}");
    let input = Prover::new(&program, ProverOptions::default());
    let holds = |text: &str| Certificate::parse(text).expect("reads").replay(&program, proven.program(), &input);
    assert_eq!(holds(&text).expect("holds").rewrites, 1);
    let without = text.replace("inline 2 main\n", "");
    assert!(matches!(holds(&without), Err(CertificateError::Unchanged { change: 1, .. })), "five is called then");
    let reverted = {
        let mut proven = proven.clone();
        proven.revert(FuncId(0));
        proven
    };
    assert_eq!(reverted.program(), reverted.base());
}

#[test]
fn another_start_is_another_proof() {
    let program = asm::parse(PROGRAM).expect("parses");
    let changed = {
        let mut proven = Proven::input(program.clone());
        proven.change(Change::Remove { function: FuncId(2) }).expect("nobody calls it");
        proven
    };
    let absorbed = std::panic::catch_unwind(|| Proven::input(program).absorb(changed));
    assert!(absorbed.is_err());
}
