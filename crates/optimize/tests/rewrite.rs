//! Runs `tests/rewrite/*.txt`: each test is a program and what one pass makes of it, or why the prover
//! does not let it. The first part of a test's name is the pass; `all` stands for all of them, `whole` for
//! what is done to programs as a whole (`inline`, `remove`), which the others go without. Rules have
//! their own tests, in `tests/rules`.
//!
//! ```text
//! test rewrite PASS/NAME             test refuse PASS/NAME
//! code                               ; refusal: part of the message, or `never proposed`
//! =>                                 code
//! code
//! ```

mod cases;

use cases::Case;
use karakoram_bpf::text::asm;
use karakoram_optimize::{Level, Options, Outcome, optimize, passes, whole};

/// Runs the pass that a test's name begins with.
fn run(case: &Case) -> Result<(String, Outcome), String> {
    let program = asm::parse(&case.given).map_err(|e| format!("does not parse: {e}"))?;
    let family = case.name.split('/').next().unwrap_or("");
    let skip = passes::ALL.iter().map(|p| p.name).filter(|n| family != "all" && *n != family);
    let whole = [whole::INLINE, whole::REMOVE].into_iter().filter(|n| family != "whole" && *n != family);
    let skip = skip.chain((family != "search").then_some("search")).chain(whole).map(str::to_string).collect();
    // What is only tried at the highest level is refused there for the same reasons.
    let level = if family == "deletion" { Level::O3 } else { Level::default() };
    let goal = passes::ALL.iter().filter(|p| p.name == family).find_map(|p| p.goal).unwrap_or_default();
    let options = Options { skip, level, goal, explain: true, ..Options::default() };
    if !["all", "search", "whole", whole::INLINE, whole::REMOVE].contains(&family)
        && !passes::ALL.iter().any(|p| p.name == family)
    {
        return Err(format!("there is no pass {family}"));
    }
    let outcome = optimize(program, &options, &mut |_| {});
    Ok((asm::print(outcome.proven.program()), outcome))
}

#[test]
fn rewrites() {
    cases::run_folder("rewrite", &run);
}
