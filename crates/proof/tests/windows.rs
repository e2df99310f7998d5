//! Runs `tests/proof/*.txt`: each test is a program whose middle part is replaced, and says whether
//! the prover must accept that.
//!
//! ```text
//! test prove NAME            or   test refuse NAME
//! ; refusal: part of the message   (refuse only)
//! code before the window, with directives
//! window
//! code of the window
//! =>
//! its replacement
//! then
//! code after the window
//! ```

use karakoram_bpf::insn::{FuncId, InsnId};
use karakoram_bpf::program::Node;
use karakoram_bpf::text::asm;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Prover;
use karakoram_proof::rewrite::Rewrite;

struct Case {
    name: String,
    prove: bool,
    refusal: String,
    parts: [String; 4],
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut part = 0;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("test ") {
            let (kind, name) = rest.split_once(' ').expect("test prove|refuse NAME");
            assert!(matches!(kind, "prove" | "refuse"), "unknown kind of test: {line}");
            cases.push(Case {
                name: name.to_string(),
                prove: kind == "prove",
                refusal: String::new(),
                parts: Default::default(),
            });
            part = 0;
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        match line.trim() {
            "window" => part = 1,
            "=>" => part = 2,
            "then" => part = 3,
            trimmed => {
                if let Some(text) = trimmed.strip_prefix("; refusal:") {
                    case.refusal = text.trim().to_string();
                }
                case.parts[part].push_str(line);
                case.parts[part].push('\n');
            }
        }
    }
    cases
}

fn count(code: &str) -> usize {
    let insn = |l: &str| {
        let l = l.split([';', '#']).next().unwrap_or("").trim();
        !l.is_empty() && !l.starts_with('.') && !l.ends_with(':')
    };
    code.lines().filter(|l| insn(l)).count()
}

fn run(case: &Case) -> Result<(), String> {
    let [given, old, new, then] = &case.parts;
    let read = |middle: &str| asm::parse(&format!("{given}{middle}{then}")).map_err(|e| format!("does not parse: {e}"));
    let (program, changed) = (read(old)?, read(new)?);
    let (before, length, added) = (count(given), count(old), count(new));
    let function = FuncId(0);
    let fresh = program.functions[0].fresh_id().0;
    let rename = |id: InsnId| match id.0 as usize {
        i if i < before => id,
        i if i < before + added => InsnId(fresh + (i - before) as u32),
        i => InsnId((i - added + length) as u32),
    };
    // An instruction that occurs on both sides keeps its identity.
    let kept = |insn: &karakoram_bpf::insn::Insn, taken: &[InsnId]| {
        program.functions[0].nodes[before..before + length]
            .iter()
            .find(|n| n.insn == *insn && !taken.contains(&n.id) && insn.target().is_none())
            .map(|n| n.id)
    };
    let middle = &changed.functions[0].nodes[before..before + added];
    let mut ids: Vec<InsnId> = Vec::new();
    for node in middle {
        ids.push(kept(&node.insn, &ids).unwrap_or(rename(node.id)));
    }
    let target = |id: InsnId| match middle.iter().position(|n| n.id == id) {
        Some(i) => ids[i],
        None => rename(id),
    };
    let node = |(node, id): (&Node, &InsnId)| Node { id: *id, insn: node.insn.map(target, |f| f), patch: node.patch };
    let nodes: Vec<Node> = middle.iter().zip(&ids).map(node).collect();
    let rewrite = Rewrite::of_range(function, before..before + length, nodes, "test");
    let prover = Prover::new(&program, ProverOptions::default());
    let facts = prover.facts(&program, function);
    match (prover.judge(&program, &facts, &rewrite), case.prove) {
        (Ok(_), true) => Ok(()),
        (Ok(_), false) => Err("was proven, must be refused".to_string()),
        (Err(e), true) => Err(format!("was refused: {e}")),
        (Err(e), false) if e.to_string().contains(&case.refusal) => Ok(()),
        (Err(e), false) => Err(format!("was refused for another reason: {e}")),
    }
}

#[test]
fn windows() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/proof");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("tests/proof exists").map(|e| e.expect("entry").path()).collect();
    files.sort();
    let (mut failed, mut total) = (Vec::new(), 0);
    for file in files {
        for case in parse(&std::fs::read_to_string(&file).expect("readable")) {
            total += 1;
            if let Err(why) = run(&case) {
                failed.push(format!("{}: {}: {why}", file.file_name().expect("name").to_string_lossy(), case.name));
            }
        }
    }
    assert!(total > 0, "no tests found");
    assert!(failed.is_empty(), "{} of {total} failed:\n{}", failed.len(), failed.join("\n"));
}
