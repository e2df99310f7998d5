//! The corpus, all of it in one module.

use crate::packets::Packets;
use karakoram_corpus::{PROGRAMS, Program};
use karakoram_extension::testing;
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_native::LoadedModule;
use std::path::Path;

/// What programs of the corpus return after a panic.
const ON_PANIC: u32 = 2;

/// Runs every program on so many packets, here and in the module.
pub fn compare(modules: &Path, runs: u64) {
    let file = std::fs::read(crate::path(modules, "corpus")).expect("module");
    let module = LoadedModule::load("kara_karakoram_corpus", &file, &[]).unwrap_or_else(|e| panic!("{e}"));
    // Panics are expected, their messages are not.
    std::panic::set_hook(Box::new(|_| {}));
    let failures: Vec<String> =
        PROGRAMS.iter().filter_map(|p| Some(format!("{}: {}", p.0, differs(*p, &module, runs)?))).collect();
    let _ = std::panic::take_hook();
    println!("{} of {} programs as on the host, {runs} packets each", PROGRAMS.len() - failures.len(), PROGRAMS.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What the host makes of a packet: the verdict and the packet, or nothing after a panic.
fn on_host(program: Program, packet: &[u8]) -> Option<(u32, Vec<u8>)> {
    let mut packet = packet.to_vec();
    let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| testing::xdp(program.1, &mut packet)));
    verdict.ok().map(|v| (v as u32, packet))
}

/// The first difference.
fn differs(program: Program, module: &LoadedModule, runs: u64) -> Option<String> {
    let mut packets = Packets::new();
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    let mut panics = 0;
    for run in 0..runs {
        let packet = packets.packet();
        let input = RunInput { data: packet.clone(), repeat: 1, ..Default::default() };
        runner.run(module.program(program.0), &input, &mut output).expect("a run");
        let expected = on_host(program, &packet);
        panics += u64::from(expected.is_none());
        let is_same = match &expected {
            Some((verdict, changed)) => output.retval == *verdict && output.data == *changed,
            None => output.retval == ON_PANIC,
        };
        if !is_same {
            let found = (output.retval, &output.data);
            return Some(format!("run {run}: {found:02x?} instead of {expected:02x?}\n  packet {packet:02x?}"));
        }
    }
    let state = module.state(program.0).expect("state");
    (state.panics != panics).then(|| format!("{} panics instead of {panics}", state.panics))
}
