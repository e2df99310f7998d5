//! Runs `tests/rewrite/*.txt`: each test is a program and what one pass makes of it, or why the prover
//! does not let it. The first part of a test's name is the pass; `all` stands for all of them.
//!
//! ```text
//! test rewrite PASS/NAME             test refuse PASS/NAME
//! code                               ; refusal: part of the message, or `never proposed`
//! =>                                 code
//! code
//! ```

use karakoram_bpf::text::asm;
use karakoram_optimize::{Level, Options, Outcome, optimize, passes};

struct Case {
    name: String,
    rewrites: bool,
    refusal: String,
    given: String,
    expected: String,
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut after = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("test ") {
            let (kind, name) = rest.split_once(' ').expect("test rewrite|refuse NAME");
            assert!(matches!(kind, "rewrite" | "refuse"), "unknown kind of test: {line}");
            let (rewrites, name) = (kind == "rewrite", name.to_string());
            cases.push(Case { name, rewrites, refusal: String::new(), given: String::new(), expected: String::new() });
            after = false;
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        if line.trim() == "=>" {
            after = true;
            continue;
        }
        if let Some(text) = line.strip_prefix("; refusal:") {
            case.refusal = text.trim().to_string();
        }
        let part = if after { &mut case.expected } else { &mut case.given };
        part.push_str(line);
        part.push('\n');
    }
    cases
}

/// Runs the pass that a test's name begins with.
fn run(case: &Case) -> Result<(String, Outcome), String> {
    let program = asm::parse(&case.given).map_err(|e| format!("does not parse: {e}"))?;
    let family = case.name.split('/').next().unwrap_or("");
    let skip = passes::ALL.iter().map(|p| p.name).filter(|n| family != "all" && *n != family);
    let skip = skip.chain((family != "search").then_some("search")).map(str::to_string).collect();
    // What is only tried at the highest level is refused there for the same reasons.
    let level = if family == "deletion" { Level::O3 } else { Level::default() };
    let goal = passes::ALL.iter().filter(|p| p.name == family).find_map(|p| p.goal).unwrap_or_default();
    let options = Options { skip, level, goal, explain: true, ..Options::default() };
    if family != "all" && !passes::ALL.iter().any(|p| p.name == family) {
        return Err(format!("there is no pass {family}"));
    }
    let outcome = optimize(program, &options, &mut |_| {});
    Ok((asm::print(outcome.proven.program()), outcome))
}

fn judge(case: &Case) -> Result<(), String> {
    let (result, outcome) = run(case)?;
    let wanted = if case.rewrites { &case.expected } else { &case.given };
    // Directives stand before the code and are not repeated after `=>`.
    let head: String = case.given.lines().filter(|l| l.starts_with('.')).map(|l| format!("{l}\n")).collect();
    let wanted = if case.rewrites { format!("{head}{wanted}") } else { wanted.clone() };
    let wanted = asm::print(&asm::parse(&wanted).map_err(|e| format!("does not parse: {e}"))?);
    if result != wanted {
        return Err(format!("became\n{result}instead of\n{wanted}"));
    }
    let refused = |r: &karakoram_optimize::pipeline::Refused| r.why.contains(&case.refusal);
    if case.refusal == "never proposed" && outcome.refused.is_empty() {
        return Ok(());
    }
    if !case.rewrites && !outcome.refused.iter().any(refused) {
        let why: Vec<String> = outcome.refused.iter().map(|r| format!("{}: {}", r.why, r.rewrite)).collect();
        return Err(format!("was not refused for that reason, but\n{}", why.join("\n")));
    }
    Ok(())
}

#[test]
fn rewrites() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/rewrite");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("tests/rewrite exists").map(|e| e.expect("entry").path()).collect();
    files.sort();
    let (mut failed, mut total) = (Vec::new(), 0);
    for file in files {
        for case in parse(&std::fs::read_to_string(&file).expect("readable")) {
            total += 1;
            if let Err(why) = judge(&case) {
                failed.push(format!("{}: {}: {why}", file.file_name().expect("name").to_string_lossy(), case.name));
            }
        }
    }
    assert!(total > 0, "no tests found");
    assert!(failed.is_empty(), "{} of {total} failed:\n{}", failed.len(), failed.join("\n"));
}
