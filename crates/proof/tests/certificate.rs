//! Certificates survive their text form, replay, and do not hold for anything else.

use karakoram_bpf::program::Program;
use karakoram_bpf::text::asm;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Prover;
use karakoram_proof::certificate::{Certificate, CertificateError};
use karakoram_proof::compare::{Comparison, compare};
use karakoram_proof::external::External;
use karakoram_proof::solver::Backend;

const BEFORE: &str = ".hook buffer=64
    r2 = *(u8 *)(r1 + 12)
    r3 = *(u8 *)(r1 + 13)
    r3 <<= 8
    r3 |= r2
    r0 = 0
    if r3 == 8 goto ip
    r0 = 2
    goto out
ip:
    r0 = *(u8 *)(r1 + 14)
    r0 &= 255
out:
    exit
";
const AFTER: &str = ".hook buffer=64
    r3 = *(u16 *)(r1 + 12)
    if r3 == 8 goto ip
    r0 = 2
    exit
ip:
    r0 = *(u8 *)(r1 + 14)
    exit
";
const WRONG: &str = ".hook buffer=64
    r3 = *(u16 *)(r1 + 12)
    if r3 == 9 goto ip
    r0 = 2
    exit
ip:
    r0 = *(u8 *)(r1 + 14)
    exit
";

fn program(text: &str) -> Program {
    asm::parse(text).expect("parses")
}

fn prover(p: &Program) -> Prover {
    Prover::new(p, ProverOptions::default())
}

fn certificate() -> (Program, Program, Certificate) {
    let (a, b) = (program(BEFORE), program(AFTER));
    let Comparison::Equal(proven) = compare(&a, &b, &prover(&a)) else { panic!("they are equal") };
    let certificate = Certificate::of(&a, &proven);
    (a, b, certificate)
}

#[test]
fn equal_programs_compare_equal_and_the_certificate_replays() {
    let (a, b, certificate) = certificate();
    let text = certificate.to_string();
    let read = Certificate::parse(&text).expect("reads back");
    assert_eq!(read, certificate);
    let replayed = read.replay(&a, &b, &prover(&a)).expect("holds");
    assert_eq!(replayed.rewrites, certificate.len());
    assert!(replayed.rewrites > 0);
}

#[test]
fn a_second_solver_accepts_the_certificate() {
    let (a, b, certificate) = certificate();
    let mut prover = prover(&a);
    prover.backend = Backend::External(External::new("z3", 20));
    if std::process::Command::new("z3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: a_second_solver_accepts_the_certificate: there is no z3 program here");
        return;
    }
    certificate.replay(&a, &b, &prover).expect("holds");
}

#[test]
fn different_programs_are_not_shown_equal() {
    let (a, b) = (program(BEFORE), program(WRONG));
    assert!(matches!(compare(&a, &b, &prover(&a)), Comparison::NotShown { .. }));
}

#[test]
fn a_certificate_for_another_program_does_not_hold() {
    let (a, _, certificate) = certificate();
    let error = certificate.replay(&a, &program(WRONG), &prover(&a)).expect_err("must not hold");
    assert_eq!(error, CertificateError::OtherProgram("optimized"));
}

#[test]
fn torn_and_altered_certificates_are_refused() {
    let (a, b, certificate) = certificate();
    let text = certificate.to_string();
    for cut in 0..text.len() {
        // Without its last line a certificate is not complete.
        if cut < text.len() - 5 {
            assert!(Certificate::parse(&text[..cut]).is_err(), "cut at {cut}");
        }
    }
    // Every byte replaced by others: never a panic, and never accepted with another result.
    for at in 0..text.len() {
        for byte in [b'0', b'9', b' ', b'@', b'r'] {
            let mut bytes = text.clone().into_bytes();
            if bytes[at] == byte {
                continue;
            }
            bytes[at] = byte;
            let Ok(altered) = String::from_utf8(bytes) else { continue };
            if let Ok(certificate) = Certificate::parse(&altered) {
                let _ = certificate.replay(&a, &b, &prover(&a));
            }
        }
    }
}

#[test]
fn the_input_that_shows_a_difference_is_found() {
    let (a, b) = (program(BEFORE), program(WRONG));
    let suspects = karakoram_proof::compare::suspects(&a, &b, &prover(&a));
    let [(_, witness)] = &suspects[..] else { panic!("one function differs") };
    // The two disagree on type 8 and on type 9, and nowhere else.
    assert!(matches!(witness.packet[12..14], [8 | 9, 0]), "{witness:?}");
}

#[test]
fn every_memory_optimization_can_be_switched_off() {
    let (a, b, certificate) = certificate();
    for (memory_regions, map_tables, offsets, windows) in [
        (true, true, true, false),
        (true, true, false, false),
        (true, false, false, false),
        (false, false, false, false),
    ] {
        let options = ProverOptions { memory_regions, map_tables, offsets, windows };
        let prover = Prover::new(&a, options);
        certificate.replay(&a, &b, &prover).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    }
}

#[test]
fn only_functions_as_in_the_input_are_absorbed() {
    let (a, b) = (program(BEFORE), program(AFTER));
    let Comparison::Equal(proven) = compare(&a, &b, &prover(&a)) else { panic!("they are equal") };
    let mut other = karakoram_proof::apply::Proven::input(a);
    other.absorb((*proven).clone());
    assert_eq!((other.program(), other.applied()), (proven.program(), proven.applied()));
    other.absorb((*proven).clone());
    assert_eq!((other.program(), other.applied()), (proven.program(), proven.applied()));
}

#[test]
#[should_panic(expected = "different inputs")]
fn proofs_about_other_inputs_are_not_absorbed() {
    let mut proven = karakoram_proof::apply::Proven::input(program(BEFORE));
    proven.absorb(karakoram_proof::apply::Proven::input(program(AFTER)));
}

#[test]
fn constant_data_is_part_of_the_certificate() {
    let text =
        |code: &str| format!(".map data type=array key=4 value=8 entries=1 fd=4\n.hook buffer=8\n{code}\nexit\n");
    let assuming = |code: &str, contents: &[u8]| {
        let mut p = program(&text(code));
        p.maps[0].initial = Some(contents.to_vec());
        p.constants.insert(0);
        p
    };
    let (long, short) = ("r1 = map[data][0]+4 ll\nr0 = *(u16 *)(r1 + 0)", "r0 = 770");
    let (a, b) = (assuming(long, &[0, 0, 0, 0, 2, 3, 0, 0]), assuming(short, &[0, 0, 0, 0, 2, 3, 0, 0]));
    let Comparison::Equal(proven) = compare(&a, &b, &prover(&a)) else { panic!("they are equal") };
    let certificate = Certificate::parse(&Certificate::of(&a, &proven).to_string()).expect("reads back");
    assert!(certificate.assumes_constant_data());
    certificate.replay(&a, &b, &prover(&a)).expect("holds");

    let other = assuming(long, &[0, 0, 0, 0, 2, 4, 0, 0]);
    assert!(certificate.replay(&other, &b, &prover(&other)).is_err());
    assert!(!matches!(compare(&other, &b, &prover(&other)), Comparison::Equal(_)));
    let mut free = a.clone();
    free.constants.clear();
    assert_eq!(certificate.replay(&free, &b, &prover(&free)), Err(CertificateError::OtherData));
    assert!(!matches!(compare(&free, &b, &prover(&free)), Comparison::Equal(_)));
}
