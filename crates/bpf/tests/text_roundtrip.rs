//! What one format prints, it reads back: for every kind of instruction, from a deterministic generator.

mod text_generator;

use karakoram_bpf::insn::*;
use karakoram_bpf::text::asm::{self, Targets};
use std::collections::HashSet;
use std::mem::discriminant;
use text_generator::Random;

#[test]
fn every_instruction_reads_back_from_assembly() {
    let mut random = Random::new(1);
    let mut kinds = HashSet::new();
    for _ in 0..200_000 {
        let insn = random.insn();
        kinds.insert(discriminant(&insn));
        let text = asm::print_raw(&insn);
        match asm::parse_insns(&text) {
            Ok(back) => assert_eq!(back, [insn], "{text}"),
            Err(e) => panic!("{text}: {e}"),
        }
    }
    assert_eq!(kinds.len(), 18, "every kind of instruction was met");
}

#[test]
fn every_program_reads_back_from_assembly() {
    let mut random = Random::new(2);
    for round in 0..2_000 {
        let program = random.program();
        for targets in [Targets::Labels, Targets::Relative] {
            let text = asm::print_with(&program, targets);
            match asm::parse(&text) {
                Ok(back) => assert_eq!(back, program, "round {round}:\n{text}"),
                Err(e) => panic!("round {round}: {e}\n{text}"),
            }
        }
        for (f, function) in program.functions.iter().enumerate() {
            assert_eq!(asm::lines(&program, FuncId(f as u32), Targets::Labels).len(), function.nodes.len());
            for node in &function.nodes {
                let text = asm::print_insn(&node.insn, &program);
                assert_eq!(asm::parse_insn(&text, &program).as_ref(), Ok(&node.insn), "{text}");
            }
        }
    }
}
