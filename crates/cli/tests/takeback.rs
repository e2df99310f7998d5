//! What the running kernel does not like about a result is taken back, and only that.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn input(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/inputs").join(name)
}

/// The report on the first program, and the code; `None`, said aloud, where the kernel cannot be asked.
fn optimize(name: &str, options: &[&str]) -> Option<(Value, String)> {
    let output = std::env::temp_dir().join(format!("kara-takeback-{}-{name}", std::process::id()));
    let result = Command::new(env!("CARGO_BIN_EXE_kara"))
        .args(["opt", "--json", "--proof", "none", "-o"])
        .args([&output, &input(name)])
        .args(options)
        .output()
        .expect("kara");
    let code = std::fs::read_to_string(&output);
    let _ = std::fs::remove_file(&output);
    let report: Value = serde_json::from_slice(&result.stdout).expect("a report");
    assert!(result.status.success(), "{report}");
    if report["kernel"].is_null() {
        eprintln!("*** SKIPPED {name}: the kernel cannot be asked: {} ***", report["notes"]);
        return None;
    }
    Some((report["programs"][0].clone(), code.expect("output")))
}

fn verified(program: &Value, when: &str) -> u64 {
    program[when]["verified_insns"].as_u64().expect("the verifier says how much it did")
}

/// A remainder of six is less than six, says the prover, and the check is not needed; the verifier does
/// not look at remainders and wants it.
#[test]
fn what_the_verifier_rejects_is_taken_back_and_the_rest_stays() {
    let Some((program, code)) = optimize("remainder.s", &[]) else { return };
    assert_eq!(program["kernel"], "accepted");
    if !code.contains("if r0 > 0x5") {
        assert_eq!(program["notes"], serde_json::json!([]), "nothing was taken back");
        eprintln!("*** SKIPPED: this kernel's verifier knows what a remainder is ***");
        return;
    }
    assert!(program["rewrites"].as_u64() >= Some(1) && !code.contains("r0 += 0"), "another rewrite stays:\n{code}");
    let note = program["notes"][0].as_str().expect("a note");
    assert!(note.contains("rewrites were taken back (branch/never x1): the kernel's verifier rejected"), "{note}");
}

/// One store for the key of a lookup and for what lies beside it: verifiers since Linux 6.15 know a
/// lookup with a constant key in an array to succeed, but only when the key was stored by itself.
#[test]
fn what_makes_the_verifier_work_harder_is_taken_back() {
    let Some((free, _)) = optimize("known_key.s", &["--verifier-growth", "1000"]) else { return };
    if verified(&free, "after") <= verified(&free, "before") + 2 {
        eprintln!("*** SKIPPED: this kernel's verifier does not mind what known_key.s becomes ***");
        return;
    }
    let (program, code) = optimize("known_key.s", &[]).expect("it was asked before");
    assert!(verified(&program, "after") <= verified(&program, "before") + 2, "{program}");
    assert!(code.contains("*(u32 *)(r10 - 4) = 0"), "the key has a store of its own:\n{code}");
    assert!(!code.contains("r0 += 0"), "the other rewrite stays:\n{code}");
    let note = program["notes"][0].as_str().expect("a note");
    assert!(note.contains("wide_store/constant x1): the verifier processed"), "{note}");
    let (any, _) = optimize("known_key.s", &["--goal", "slots"]).expect("it was asked before");
    assert!(verified(&any, "after") > verified(&any, "before") + 2, "the goal of fewest slots allows it: {any}");
}
