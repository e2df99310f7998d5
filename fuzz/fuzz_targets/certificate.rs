#![no_main]
use karakoram_bpf::text::asm;
use karakoram_proof::ProverOptions;
use karakoram_proof::apply::Prover;
use karakoram_proof::certificate::Certificate;
use libfuzzer_sys::fuzz_target;

const BEFORE: &str = ".hook buffer=64
    r2 = *(u8 *)(r1 + 12)
    r3 = *(u8 *)(r1 + 13)
    r3 <<= 8
    r3 |= r2
    r0 = 0
    if r3 == 8 goto ip
    r0 = 2
ip:
    exit
";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(certificate) = Certificate::parse(text) else { return };
    let before = asm::parse(BEFORE).expect("parses");
    // A wrong result: no certificate may lead to it.
    let after = asm::parse(&BEFORE.replace("== 8", "== 9")).expect("parses");
    let prover = Prover::new(&before, ProverOptions::default());
    let _ = certificate.replay(&before, &before, &prover);
    assert!(certificate.replay(&before, &after, &prover).is_err());
});
