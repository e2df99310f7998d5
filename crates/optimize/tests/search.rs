//! What the window search finds by itself, and what it must leave alone.

use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::{self, Format, asm};
use karakoram_optimize::search::mcmc::Distance;
use karakoram_optimize::search::{Budget, Found, McmcOptions, Search, SearchOptions, window::positions_of_slots};
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::{Proven, Prover};
use karakoram_proof::rewrite::Rewrite;

/// Searches and applies until nothing more is found.
fn search(program: Program, slots: Option<(usize, usize)>) -> Program {
    let prover = Prover::new(&program, ProverOptions::default());
    let mut within = slots.map(|(a, b)| positions_of_slots(&program.functions[0], a, b));
    let mut proven = Proven::input(program);
    let mut budget = Budget::new(20_000_000, 2_000);
    for _ in 0..20 {
        let f = FuncId(0);
        let facts = prover.facts(proven.program(), f);
        let options = SearchOptions { within: within.clone(), ..SearchOptions::default() };
        let search =
            Search { program: proven.program(), function: f, facts: &facts, prover: &prover, options: &options };
        let proposals: Vec<Rewrite> = rewrites(search.find(&mut budget));
        if proposals.is_empty() {
            break;
        }
        let before = proven.program().functions[0].nodes.len();
        let verdicts = prover.apply(&mut proven, f, &facts, proposals, &mut || true);
        assert!(verdicts.iter().all(|v| matches!(v, Some(Ok(_)))), "{verdicts:?}");
        if let Some(w) = &mut within {
            w.end -= before - proven.program().functions[0].nodes.len();
        }
    }
    proven.program().clone()
}

fn rewrites(found: Vec<Found>) -> Vec<Rewrite> {
    found.into_iter().map(|f| f.rewrite).collect()
}

fn sample(name: &str, slots: Option<(usize, usize)>) -> usize {
    search(read(name), slots).slots()
}

#[test]
fn samples_of_k2() {
    assert_eq!(sample("hello/benchmark.k2", None), 2);
    assert_eq!(sample("k2/before.k2", None), 10);
    assert_eq!(sample("k2/after.k2", None), 9);
    assert_eq!(sample("bpf/before.bpf", Some((0, 3))), 10);
    assert_eq!(sample("bpf/after.bpf", None), 9);
    assert_eq!(sample("parameters/benchmark.bpf", Some((0, 3))), 14);
    assert_eq!(sample("parameters/benchmark.bpf", Some((4, 5))), 15);
    assert_eq!(sample("parameters/benchmark.bpf", None), 13);
}

fn read(name: &str) -> Program {
    let path = format!("{}/../../tests/inputs/k2/{name}", env!("CARGO_MANIFEST_DIR"));
    let beside = |ending| std::fs::read_to_string(std::path::Path::new(&path).with_extension(ending)).expect("exists");
    let source = std::fs::read_to_string(&path).expect("exists");
    let format = Format::of_path(&path).expect("known ending");
    text::read(format, &source, Some(&beside("desc")), Some(&beside("maps"))).expect("parses")
}

/// Slots after one walk of the Markov chain.
fn walked(name: &str, slots: (usize, usize), mcmc: &McmcOptions, seed: u64) -> usize {
    let program = read(name);
    let prover = Prover::new(&program, ProverOptions::default());
    let within = Some(positions_of_slots(&program.functions[0], slots.0, slots.1));
    let options = SearchOptions { within, seed, ..SearchOptions::default() };
    let facts = prover.facts(&program, FuncId(0));
    let mut budget = Budget::new(1_000_000, 1_000);
    let search = Search { program: &program, function: FuncId(0), facts: &facts, prover: &prover, options: &options };
    let proposals = rewrites(search.walk(&mut budget, mcmc));
    let mut proven = Proven::input(program);
    let verdicts = prover.apply(&mut proven, FuncId(0), &facts, proposals, &mut || true);
    assert!(verdicts.iter().all(|v| matches!(v, Some(Ok(_)))), "{verdicts:?}");
    proven.program().slots()
}

#[test]
fn markov_chain() {
    let mcmc = McmcOptions::of_walkthroughs();
    assert_eq!(walked("hello/benchmark.k2", (0, 1), &mcmc, 0), 2);
    assert_eq!(walked("bpf/before.bpf", (0, 3), &mcmc, 0), 10);
    assert_eq!(walked("k2/after.k2", (0, 3), &mcmc, 0), 9);
    assert_eq!(walked("parameters/benchmark.bpf", (4, 5), &mcmc, 0), 15);
    let bits = McmcOptions { st_ex: Distance::Bits, ..mcmc.clone() };
    assert_eq!(walked("parameters/benchmark.bpf", (0, 3), &bits, 0), 14);
    assert_eq!(
        walked("parameters/benchmark.bpf", (0, 3), &bits, 0),
        walked("parameters/benchmark.bpf", (0, 3), &bits, 0)
    );
    let idle = McmcOptions { iterations: 0, ..mcmc };
    assert_eq!(walked("hello/benchmark.k2", (0, 1), &idle, 0), 3);
}

/// The code of a function after a search.
fn code(source: &str) -> String {
    let program = search(asm::parse(source).expect("parses"), None);
    let insns = program.functions[0].nodes.iter().map(|n| asm::print_insn(&n.insn, &program));
    insns.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn becomes(source: &str, expected: &str) {
    let tidy = |s: &str| s.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n");
    assert_eq!(code(source), tidy(expected));
}

#[track_caller]
fn stays(source: &str) {
    let is_code = |l: &&str| !l.is_empty() && !l.starts_with('.') && !l.ends_with(':');
    let body: Vec<&str> = source.lines().map(str::trim).filter(is_code).collect();
    assert_eq!(code(source).lines().count(), body.len(), "became\n{}", code(source));
}

#[test]
fn shifts_that_clear_the_upper_half() {
    becomes(
        ".hook buffer=64
        r0 = *(u64 *)(r1 + 0)
        r2 = *(u64 *)(r1 + 9)
        r0 += r2
        r0 <<= 32
        r0 >>= 32
        exit",
        "r0 = *(u64 *)(r1 + 0)
        r2 = *(u64 *)(r1 + 9)
        w0 += w2
        exit",
    );
}

#[test]
fn constants_are_not_stored_to_the_context() {
    // Equivalent, but kernels before 6.4 refuse it.
    stays(
        ".hook sched_cls
        r2 = 7
        *(u32 *)(r1 + 8) = r2
        r0 = 0
        exit",
    );
}

#[test]
fn mask_after_load() {
    becomes(
        ".hook buffer=64
        r0 = *(u64 *)(r1 + 0)
        r0 &= 65535
        exit",
        "r0 = *(u16 *)(r1 + 0)
        exit",
    );
}

#[test]
fn mask_of_bits_that_are_clear() {
    becomes(
        ".hook buffer=64
        r0 = *(u8 *)(r1 + 0)
        r0 &= 255
        exit",
        "r0 = *(u8 *)(r1 + 0)
        exit",
    );
}

#[test]
fn negation() {
    becomes(
        ".hook buffer=64
        r1 = *(u64 *)(r1 + 8)
        r0 = 0
        r0 -= r1
        r0 ^= -1
        r0 += 1
        exit",
        "r0 = *(u64 *)(r1 + 8)
        exit",
    );
}

#[test]
fn bytes_put_together() {
    becomes(
        ".hook buffer=64
        r3 = *(u8 *)(r1 + 12)
        r0 = *(u8 *)(r1 + 13)
        r0 <<= 8
        r0 |= r3
        exit",
        "r0 = *(u16 *)(r1 + 12)
        exit",
    );
}

#[test]
fn constants_are_solved_for() {
    becomes(
        ".hook buffer=64
        r0 = *(u64 *)(r1 + 0)
        r0 += 1234567
        r0 -= 7654321
        r0 &= 987654321
        exit",
        "r0 = *(u64 *)(r1 + 0)
        r0 += -6419754
        r0 &= 987654321
        exit",
    );
}

#[test]
fn constants_that_are_only_right_together_are_synthesised() {
    becomes(
        ".hook buffer=64
        r0 = *(u64 *)(r1 + 0)
        r0 |= 1193046
        r0 ^= 1450744508
        r0 &= 2023406814
        r0 |= 70254599
        exit",
        "r0 = *(u64 *)(r1 + 0)
        r0 &= 2022213768
        r0 ^= 1413131471
        exit",
    );
}

#[test]
fn tests_of_neighbouring_numbers_become_one() {
    becomes(
        ".hook buffer=64
        r1 = *(u32 *)(r1 + 0)
        r0 = 0
        if r1 == 4 goto out
        if r1 == 5 goto out
        if r1 == 6 goto out
        r0 = 7
        out:
        exit",
        "r1 = *(u32 *)(r1 + 0)
        r0 = 0
        r1 += -7
        if r1 > -0x4 goto @6
        r0 = 7
        exit",
    );
}

#[test]
fn a_choice_becomes_arithmetic() {
    becomes(
        ".hook buffer=64
        r2 = *(u32 *)(r1 + 0)
        r2 &= 1
        r0 = 12
        if r2 == 0 goto out
        r0 = 8
        r0 |= 5
        out:
        exit",
        "r0 = *(u32 *)(r1 + 0)
        r0 &= 1
        r0 += 12
        exit",
    );
}

#[test]
fn code_that_is_entered_in_the_middle_stays() {
    stays(
        ".hook buffer=64
        r2 = *(u32 *)(r1 + 0)
        r3 = *(u32 *)(r1 + 4)
        r0 = 0
        if r3 == 9 goto middle
        r0 = *(u32 *)(r1 + 8)
        r0 *= r3
        r0 ^= r2
        if r2 == 4 goto out
        if r2 == 5 goto out
        middle:
        if r2 == 6 goto out
        r0 += r3
        out:
        exit",
    );
}

#[test]
fn stores_of_constants_merge() {
    becomes(
        ".hook buffer=64
        r2 = 1
        *(u8 *)(r1 + 0) = r2
        r2 = 2
        *(u8 *)(r1 + 1) = r2
        r0 = 0
        exit",
        "*(u16 *)(r1 + 0) = 513
        r0 = 0
        exit",
    );
}

#[test]
fn branch_on_a_masked_copy() {
    becomes(
        ".hook buffer=64
        r0 = *(u64 *)(r1 + 0)
        r2 = r0
        r2 &= 4
        if r2 == 4 goto out
        r0 = 7
        out:
        exit",
        "r0 = *(u64 *)(r1 + 0)
        if r0 & 0x4 goto @5
        r0 = 7
        exit",
    );
}

#[test]
fn what_is_needed_later_stays() {
    stays(
        ".hook buffer=64
        r2 = *(u32 *)(r1 + 0)
        r0 = r2
        r0 += 5
        r0 *= r2
        exit",
    );
}

#[test]
fn volatile_looking_loads_of_different_bytes_stay() {
    stays(
        ".hook buffer=64
        r2 = *(u8 *)(r1 + 0)
        r0 = *(u8 *)(r1 + 2)
        r0 += r2
        exit",
    );
}

#[test]
fn sign_extension_is_not_taken_from_a_later_instruction_set() {
    stays(
        ".hook buffer=64
        r0 = *(u32 *)(r1 + 0)
        r0 <<= 32
        r0 s>>= 32
        exit",
    );
}

#[test]
fn one_load_does_not_become_two() {
    stays(
        ".hook buffer=64
        r2 = *(u32 *)(r1 + 16)
        r0 = r2
        r0 &= 65535
        r0 += r2
        exit",
    );
}

#[test]
fn plain_updates_do_not_become_atomic() {
    stays(
        ".hook buffer=64
        r2 = *(u64 *)(r1 + 0)
        r2 += 1
        *(u64 *)(r1 + 0) = r2
        r0 = 0
        exit",
    );
}

#[test]
fn an_interrupted_search_proposes_nothing() {
    let program = asm::parse("r0 = 1\nr0 += r0\nexit").expect("parses");
    let prover = Prover::new(&program, ProverOptions::default());
    let facts = prover.facts(&program, FuncId(0));
    let flag = std::sync::atomic::AtomicBool::new(true);
    let mut budget = Budget { interrupted: Some(&flag), ..Budget::new(1000, 10) };
    let options = SearchOptions::default();
    let search = Search { program: &program, function: FuncId(0), facts: &facts, prover: &prover, options: &options };
    assert!(search.find(&mut budget).is_empty());
    let mut nothing = Budget::new(0, 10);
    assert!(search.find(&mut nothing).is_empty());
}
