#![no_main]
use karakoram_bpf::encode::slots_from_bytes;
use karakoram_bpf::hook::Hook;
use karakoram_bpf::insn::FuncId;
use karakoram_bpf::interpreter::{Input, Interpreter, Limits, Options};
use karakoram_bpf::program::Program;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Prover;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(slots) = slots_from_bytes(data) else { return };
    let Ok(program) = Program::from_slots(&slots, Hook::Buffer(64), Vec::new()) else { return };
    if let Ok(back) = program.to_slots() {
        assert_eq!(back, slots);
    }
    let prover = Prover::new(&program, ProverOptions::default());
    for i in 0..program.functions.len() {
        let _ = prover.facts(&program, FuncId(i as u32));
    }
    let limits = Limits { instructions: 10_000, ..Limits::default() };
    let mut interpreter = Interpreter::new(&program, Options { limits, model_unknown_calls: true, ..Options::default() });
    let _ = interpreter.run(FuncId(0), Input { packet: vec![7; 64], context: vec![7; 64], ..Input::default() });
});
