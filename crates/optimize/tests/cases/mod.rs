//! Tests as text: a program and what becomes of it, or why nothing does.

use karakoram_bpf::text::asm;
use karakoram_optimize::Outcome;

/// One test.
pub struct Case {
    /// Its name.
    pub name: String,
    /// Whether something is to be rewritten.
    pub rewrites: bool,
    /// Part of the reason for a refusal.
    pub refusal: String,
    /// The program.
    pub given: String,
    /// What is to become of it.
    pub expected: String,
}

/// The tests of a file.
pub fn parse(text: &str) -> Vec<Case> {
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

/// Whether a test came out as it says.
pub fn judge(case: &Case, (result, outcome): (String, Outcome)) -> Result<()> {
    let wanted = if case.rewrites { &case.expected } else { &case.given };
    // Directives before the code are not repeated after `=>`, where there is only one function.
    let is_whole = case.expected.contains(".func ");
    let head: String =
        case.given.lines().filter(|l| l.starts_with('.') && !is_whole).map(|l| format!("{l}\n")).collect();
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

/// What came of a test: the program, and everything else.
pub type Result<T> = std::result::Result<T, String>;

/// Judges all tests of all files of a folder under `tests/`.
pub fn run_folder(folder: &str, run: &dyn Fn(&Case) -> Result<(String, Outcome)>) {
    let dir = format!("{}/../../tests/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("the folder exists").map(|e| e.expect("entry").path()).collect();
    files.sort();
    let (mut failed, mut total) = (Vec::new(), 0);
    for file in files {
        for case in parse(&std::fs::read_to_string(&file).expect("readable")) {
            total += 1;
            if let Err(why) = run(&case).and_then(|result| judge(&case, result)) {
                failed.push(format!("{}: {}: {why}", file.file_name().expect("name").to_string_lossy(), case.name));
            }
        }
    }
    assert!(total > 0, "no tests found");
    assert!(failed.is_empty(), "{} of {total} failed:\n{}", failed.len(), failed.join("\n"));
}
