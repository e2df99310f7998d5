//! The walk-through programs of the K2 optimizer, and the sizes that we reach.

use karakoram_bpf::insn::FuncId;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::{self, Format, asm};
use karakoram_optimize::cost::Goal;
use karakoram_optimize::pipeline::SlotWindow;
use karakoram_optimize::{Level, Options, optimize};
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Prover;
use karakoram_proof::certificate::Certificate;

fn read(name: &str) -> Program {
    let path = format!("{}/../../tests/inputs/k2/{name}", env!("CARGO_MANIFEST_DIR"));
    let stem = path.rsplit_once('.').expect("has an ending").0;
    let file = |p: &str| std::fs::read_to_string(p).expect("readable");
    let (desc, maps) = (file(&format!("{stem}.desc")), file(&format!("{stem}.maps")));
    let format = Format::of_path(&path).expect("known ending");
    text::read(format, &file(&path), Some(&desc), Some(&maps)).expect("reads")
}

fn slots(name: &str, options: &Options) -> usize {
    optimize(read(name), options, &mut |_| {}).proven.program().slots()
}

#[test]
fn whole_programs() {
    for (name, before, after) in [
        ("hello/benchmark.k2", 3, 2),
        ("bpf/before.bpf", 12, 10),
        ("bpf/after.bpf", 12, 9),
        ("k2/before.k2", 12, 10),
        ("k2/after.k2", 12, 9),
        ("parameters/benchmark.bpf", 16, 13),
    ] {
        assert_eq!(read(name).slots(), before, "{name}");
        let reached = slots(name, &Options::default());
        assert!(reached <= after, "{name}: {reached} slots instead of {after}");
    }
}

#[test]
fn windows() {
    let window =
        |first, last| Options { window: Some(SlotWindow { function: FuncId(0), first, last }), ..Options::default() };
    assert_eq!(slots("parameters/benchmark.bpf", &window(0, 3)), 14);
    assert_eq!(slots("parameters/benchmark.bpf", &window(4, 5)), 15);
}

#[test]
fn level_zero_changes_nothing() {
    let program = read("parameters/benchmark.bpf");
    let options = Options { level: Level::O0, ..Options::default() };
    assert_eq!(*optimize(program.clone(), &options, &mut |_| {}).proven.program(), program);
}

#[test]
fn the_first_rewrites_are_the_same_with_a_limit() {
    let all = optimize(read("parameters/benchmark.bpf"), &Options::default(), &mut |_| {});
    let all = all.proven.applied();
    for n in 0..all.len() {
        let options = Options { stop_after: Some(n), ..Options::default() };
        let some = optimize(read("parameters/benchmark.bpf"), &options, &mut |_| {});
        assert_eq!(some.proven.applied(), &all[..n]);
    }
}

#[test]
fn same_result_every_time() {
    let run = || optimize(read("bpf/before.bpf"), &Options::default(), &mut |_| {}).proven.applied().to_vec();
    assert_eq!(run(), run());
}

const SEVERAL: &str = "
.func main
.hook xdp
r6 = r1
r1 = 1
r1 += 2
call one
r7 = r0
r1 = r7
call two
r0 += r7
exit
.func one
.local
r2 = r1
r0 = r2
r0 <<= 32
r0 >>= 32
exit
.func two
.local
*(u16 *)(r10 - 4) = 1
*(u16 *)(r10 - 2) = 2
r0 = *(u32 *)(r10 - 4)
r0 += r1
exit
";

#[test]
fn any_number_of_jobs_gives_the_same() {
    let program = asm::parse(SEVERAL).expect("parses");
    let run = |jobs| optimize(program.clone(), &Options { jobs, ..Options::default() }, &mut |_| {});
    let alone = run(1);
    assert!(alone.functions.iter().all(|f| f.after < f.before), "all functions get better");
    for jobs in [2, 3, 8] {
        let several = run(jobs);
        assert_eq!(several.proven.applied(), alone.proven.applied());
        assert_eq!(several.proven.program(), alone.proven.program());
        assert_eq!(several.judged, alone.judged);
    }
    let certificate = Certificate::of(&program, &alone.proven);
    let prover = Prover::new(&program, ProverOptions::default());
    certificate.replay(&program, alone.proven.program(), &prover).expect("what was proven apart is proven together");
}

#[test]
fn effort_is_shared_out() {
    let program = asm::parse(SEVERAL).expect("parses");
    let run = |effort| optimize(program.clone(), &Options { effort: Some(effort), ..Options::default() }, &mut |_| {});
    assert!(run(6).judged <= 6 + 2 && run(6).is_partial);
    assert_eq!(run(0).judged, 0);
}

#[test]
fn less_latency_is_reached_in_few_rounds() {
    for name in ["bpf/before.bpf", "k2/before.k2", "parameters/benchmark.bpf"] {
        let options = Options { goal: Goal::Latency, ..Options::default() };
        let function = optimize(read(name), &options, &mut |_| {}).functions.remove(0);
        assert!(function.after.time_fs < function.before.time_fs, "{name}");
        assert!(function.rounds < 100, "{name}: {} rounds", function.rounds);
    }
}

#[test]
fn ends_where_estimates_of_how_often_code_runs_change() {
    // Branches that leave early, so that the order of the code matters to the estimate.
    let row = |i: usize| format!("r2 = *(u8 *)(r1 + {i})\nif r2 == {i} goto out{}\nr0 += r2\n", i % 2);
    let rows: String = (0..12).map(row).collect();
    let text = format!(".hook buffer=64\nr0 = 0\n{rows}goto out0\nout1:\nr0 = 7\nexit\nout0:\nr0 += 1\nexit\n");
    let options = Options { goal: Goal::Latency, ..Options::default() };
    let outcome = optimize(asm::parse(&text).expect("parses"), &options, &mut |_| {});
    assert!(!outcome.is_partial && outcome.functions[0].rounds < 200, "{} rounds", outcome.functions[0].rounds);
}
