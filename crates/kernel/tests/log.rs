//! Every file of `tests/log` is a verifier log under a head of `# name: value` lines that say what
//! the parser must find in it. Kernels 5.2 to 7.3; no kernel is needed.

use karakoram_kernel::log::{Analysis, SourceLine};

/// What the parser found, one line for each name that a head may hold.
fn found(analysis: &Analysis) -> Vec<String> {
    let mut lines = vec![format!("# insn: {}", analysis.insn.map_or("-".into(), |n| n.to_string()))];
    let source = |s: &SourceLine| match (&s.file, s.line) {
        (Some(file), Some(line)) => format!("# source: {} @ {file}:{line}", s.text),
        _ => format!("# source: {}", s.text),
    };
    lines.extend(analysis.reason.iter().map(|r| format!("# reason: {r}")));
    lines.extend(analysis.source.iter().map(source));
    lines.extend(analysis.state.iter().map(|s| format!("# state: {s}")));
    lines.extend(analysis.statistics.processed_insns.iter().map(|n| format!("# processed: {n}")));
    if let Some(e) = &analysis.explanation {
        lines.extend([format!("# title: {}", e.title), format!("# suggestion: {}", e.suggestion)]);
    }
    lines
}

#[test]
fn samples() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/log");
    let mut count = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, log) = text.split_once("\n\n").expect("a head, an empty line, the log");
        let found = found(&Analysis::parse(log));
        for line in head.lines().filter(|l| !found.iter().any(|f| f == l)) {
            wrong.push(format!("{}: not found: {line}\n{}", path.display(), found.join("\n")));
        }
        // Reasons must all be expected: anything the parser does not know ends up among them.
        for line in found.iter().filter(|l| l.starts_with("# reason") && !head.contains(l.as_str())) {
            wrong.push(format!("{}: not expected: {line}", path.display()));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 20, "{count} samples");
}

#[test]
fn nothing_odd_breaks_the_parser() {
    for log in [
        "",
        "\n\n",
        "0:",
        ":",
        "; ",
        ";",
        "from ",
        "R",
        "R1",
        "12: (",
        "processed insns",
        "insn ",
        "Reason:\n",
        "\u{0}é: R",
    ] {
        Analysis::parse(log);
    }
    assert_eq!(Analysis::parse("").reason, Vec::<String>::new());
}
