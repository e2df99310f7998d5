//! What one format prints, it reads back: for every kind of instruction, from a deterministic generator.

mod text_generator;

use karakoram_bpf::hook::Hook;
use karakoram_bpf::insn::*;
use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm::{self, Targets};
use karakoram_bpf::text::{self, Format, k2, macros};
use std::collections::HashSet;
use std::mem::discriminant;
use text_generator::Random;

#[test]
fn every_instruction_reads_back_from_assembly() {
    let mut random = Random::new(1);
    let mut kinds = HashSet::new();
    for _ in 0..60_000 {
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
    for round in 0..500 {
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

/// A program of one function that has that instruction, with targets inside.
fn around(insn: &RawInsn) -> Option<Program> {
    let distance = -(insn.slots() as i32);
    let insn = insn.map(|_| distance, |_| -1);
    let (first, second) = karakoram_bpf::encode::encode(&insn).ok()?;
    let exit = karakoram_bpf::encode::encode(&Insn::Exit).ok()?.0;
    let slots: Vec<_> = [Some(first), second, Some(exit)].into_iter().flatten().collect();
    Some(Program::from_slots(&slots, Hook::Constant, Vec::new()).expect("its target is itself"))
}

#[test]
fn every_instruction_reads_back_from_macros_and_rows() {
    let mut random = Random::new(3);
    let mut met = 0;
    for _ in 0..30_000 {
        let insn = random.insn();
        let Some(program) = around(&insn) else { continue };
        met += 1;
        for format in [Format::Macros, Format::Rows] {
            let text = text::write(format, &program).expect("every encodable instruction has a row");
            let back = macros::parse(&text, Hook::Constant, Vec::new()).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(back, program, "{text}");
            assert_eq!(Format::of_source(&text), format, "{text}");
        }
    }
    assert!(met > 27_000);
}

#[test]
fn every_instruction_that_k2_has_reads_back() {
    let mut random = Random::new(4);
    let mut written = 0;
    for _ in 0..30_000 {
        let insn = random.insn();
        let Some(program) = around(&insn) else { continue };
        match k2::print(&program) {
            Ok(text) => {
                written += 1;
                let back = k2::parse(&text, Hook::Constant, Vec::new()).unwrap_or_else(|e| panic!("{text}: {e}"));
                assert_eq!(back, program, "{text}");
                assert_eq!(Format::of_source(&text), Format::K2, "{text}");
            }
            Err(e) => assert!(e.reason.contains("the .k2 language"), "{e}"),
        }
    }
    assert!(written > 3_000, "{written}");
}
