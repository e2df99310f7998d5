//! The rules that come with the program: each holds in general, each has its tests in `tests/rules`, and
//! rules that do not hold are found out.
//!
//! `BLESS=1` writes tests for rules that have none; they are to be read before they are kept.

mod cases;
mod rule_examples;

use cases::Case;
use karakoram_bpf::text::asm;
use karakoram_optimize::rules::prove::{self, Verdict};
use karakoram_optimize::rules::{Rule, RuleSet, parse};
use karakoram_optimize::{Options, Outcome, optimize, passes};
use std::collections::BTreeMap;

/// The rule that a test is about: its name without the number of the test.
fn rule_of(case: &str) -> &'static Rule {
    let rules = &RuleSet::shipped().rules;
    let mut found = rules.iter().filter(|r| case == r.name || case.starts_with(&format!("{}:", r.name)));
    found.next_back().unwrap_or_else(|| panic!("{case}: there is no such rule"))
}

/// Runs one rule, and nothing else.
fn run(case: &Case) -> Result<(String, Outcome), String> {
    let program = asm::parse(&case.given).map_err(|e| format!("does not parse: {e}"))?;
    let rule = rule_of(&case.name);
    let passes = passes::ALL.iter().map(|p| p.name).filter(|n| *n != "rules");
    let others = RuleSet::shipped().rules.iter().map(|r| r.name.as_str()).filter(|n| *n != rule.name);
    let skip = passes.chain(others).chain(["search"]).map(str::to_string).collect();
    let outcome = optimize(program, &Options { skip, explain: true, ..Options::default() }, &mut |_| {});
    Ok((asm::print(outcome.proven.program()), outcome))
}

#[test]
fn rules_do_what_their_tests_say() {
    if std::env::var_os("BLESS").is_some() {
        rule_examples::write_missing();
    }
    cases::run_folder("rules", &run);
}

#[test]
fn every_rule_has_a_test_and_every_condition_its_negative_twin() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for case in rule_examples::existing() {
        let count = counts.entry(&rule_of(&case.name).name).or_default();
        if case.rewrites {
            count.0 += 1
        } else {
            count.1 += 1
        };
    }
    let mut missing = Vec::new();
    for rule in &RuleSet::shipped().rules {
        let (rewrites, refuses) = counts.get(rule.name.as_str()).copied().unwrap_or_default();
        let conditions = rule.variants[0].conditions.len() + rule.variants[0].givens.len();
        if rewrites == 0 || refuses < conditions {
            missing.push(format!("{}: {rewrites} rewrite, {refuses} refuse of {conditions}", rule.name));
        }
    }
    assert!(missing.is_empty(), "tests are missing:\n{}", missing.join("\n"));
}

#[test]
fn shipped_rules_are_proven() {
    let mut failed = Vec::new();
    for rule in &RuleSet::shipped().rules {
        let verdict = prove::rule(rule);
        if !matches!(verdict, Verdict::Holds { .. }) {
            failed.push(format!("{}: {verdict:?}", rule.name));
        }
    }
    assert!(failed.is_empty(), "{} not proven:\n{}", failed.len(), failed.join("\n"));
}

/// Each is wrong for some register, constant or width, and the proof says for which.
const WRONG: &str = "
rule wrong/arithmetic-shift-keeps-the-sign
  rA <<= 48
  rA s>>= 48
=>
  rA &= 0xffff

rule wrong/one-width-only
  xA <<= 16
  xA >>= 16
=>
  wA &= 0xffff

rule wrong/no-limit-on-the-sum
  rA <<= C
  rA <<= D
=>
  rA = 0

rule wrong/sign-extended-mask
  wB = wA
  rB &= C
=>
  rB = rA
  rB &= C

rule wrong/comparison-of-a-sum
  rA += C
  if rA < D goto L
=>
  if rA < {D - C} goto L

rule wrong/negation-of-a-comparison
  if rA s< rB goto L
=>
  if rB s<= rA goto L

rule wrong/byte-order-of-a-part
  rA = *(u32 *)(rB + O)
  rA >>= 16
=>
  rA = *(u16 *)(rB + O)

rule wrong/store-too-narrow
  rA &= 0x1ff
  *(u16 *)(rB + O) = rA
=>
  *(u8 *)(rB + O) = rA

rule right/unless-both-are-one
  rA += rB
  rA -= rB
=>
";

#[test]
fn wrong_rules_are_refuted() {
    for rule in parse::rules(WRONG).expect("parses") {
        let verdict = prove::rule(&rule);
        let is_right = rule.name == "right/unless-both-are-one";
        match (&verdict, is_right) {
            // It holds: where both are the same register the rule does not apply.
            (Verdict::Holds { statements: 1 }, true) | (Verdict::Refuted { .. }, false) => {}
            _ => panic!("{}: {verdict:?}", rule.name),
        }
    }
}

#[test]
fn rules_that_never_apply_are_not_proven() {
    let text = "rule empty/conditions\n  rA += C\nwhere C != C\n=>\n  rA -= C\n";
    let verdict = prove::rule(&parse::rules(text).expect("parses")[0]);
    assert!(matches!(verdict, Verdict::Unknown { .. }), "{verdict:?}");
}

#[test]
fn texts_that_are_no_rules_are_refused() {
    let refused = |body: &str, part: &str| {
        let text = format!("rule a/b\n{body}\n");
        let why = parse::rules(&text).expect_err(body).to_string();
        assert!(why.contains(part), "{body}: {why}");
    };
    refused("=>\n  rA = 0", "nothing to replace");
    refused("  rA += C\n=>\n  rA += D", "the constant D");
    refused("  rA += C\n=>\n  rB = rA", "writes a register");
    refused("  rA = 1\n=>\n  rA = rB", "reads a register");
    refused("  rA = 1\n  rB = 2\n=>\n  rB = 2", "depend");
    refused("  call 1\n=>", "rules are about");
    refused("  rA += C ll\n=>", "rA += C ll");
    refused("  if rA == 0 goto L\n  rA = 1\n=>", "branch can only come last");
    refused("for N in 1 2\n  rA += N\n=>", "one value for each");
    refused("  rA += {C +}\n=>", "ends too early");
    refused("  rA = 1\n=>", "was not there before");
    refused("given rB == 1\n  rA += C\n=>\n  rA += C", "not read from before");
    assert!(parse::rules("rule x\n  rA = rA\n=>").is_err(), "no family");
    assert!(parse::rules("rule a/b\n  rA = rA\n=>\n\nrule a/b\n  rA = rA\n=>").is_err(), "twice");
}
