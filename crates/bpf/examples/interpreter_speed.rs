//! Instructions a second: `cargo run --release -p karakoram-bpf --example interpreter_speed`.

use karakoram_bpf::insn::FuncId;
use karakoram_bpf::interpreter::{Input, Interpreter, Options};
use karakoram_bpf::text::asm;
use std::time::Instant;

const LOOP: &str = "
    r0 = 0
    r6 = 1
    r1 = 20000000
    again: r0 += r6
    r6 ^= r0
    *(u64 *)(r10 - 8) = r6
    r2 = *(u64 *)(r10 - 8)
    r2 >>= 3
    r0 ^= r2
    r1 += -1
    if r1 != 0 goto again
    exit";

fn main() {
    let program = asm::parse(LOOP).expect("a program");
    let mut options = Options::default();
    options.limits.instructions = u64::MAX;
    let start = Instant::now();
    let outcome = Interpreter::new(&program, options).run(FuncId(0), Input::default()).expect("it ends");
    let seconds = start.elapsed().as_secs_f64();
    println!("{:.1} million instructions a second", outcome.instructions as f64 / seconds / 1e6);
}
