//! What only a hook has: packets that change their size, at tc others' packets, other interfaces.

use crate::packets::Packets;
use karakoram_extension::testing;
use karakoram_hooks as hooks;
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_native::LoadedModule;
use std::path::Path;

/// What the host makes of a packet: the verdict and the packet.
type OnHost = fn(&mut Vec<u8>) -> u32;

const PROGRAMS: [(&str, OnHost); 6] = [
    ("turn_tc", |packet| testing::tc(hooks::turn_tc, packet) as u32),
    ("tail_tc", |packet| testing::tc(hooks::tail_tc, packet) as u32),
    ("send_tc", |packet| testing::tc(hooks::send_tc, packet) as u32),
    ("tail_xdp", |packet| testing::xdp(hooks::tail_xdp, packet) as u32),
    ("head_xdp", |packet| testing::xdp(hooks::head_xdp, packet) as u32),
    ("send_xdp", |packet| testing::xdp(hooks::send_xdp, packet) as u32),
];

/// Shorter packets end in the kernel where the host's stand-in still takes bytes off.
const LEAST: usize = 14 + 128;

/// Runs every program on so many packets, here and in the module.
pub fn compare(modules: &Path, runs: u64) {
    let file = std::fs::read(crate::path(modules, "hooks")).expect("module");
    let module = LoadedModule::load("kara_karakoram_hooks", &file, &[]).unwrap_or_else(|e| panic!("{e}"));
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    for (name, on_host) in PROGRAMS {
        let mut packets = Packets::new();
        for run in 0..runs {
            let mut packet = packets.packet();
            packet.resize(packet.len().max(LEAST), 7);
            let input = RunInput { data: packet.clone(), repeat: 1, ..Default::default() };
            runner.run(module.program(name), &input, &mut output).expect("a run");
            let verdict = on_host(&mut packet);
            assert_eq!((output.retval, &output.data), (verdict, &packet), "{name}, run {run}");
        }
        assert_eq!(module.state(name).expect("state").panics, 0, "{name}");
    }
    println!("{} programs at their hooks as on the host, {runs} packets each", PROGRAMS.len());
}
