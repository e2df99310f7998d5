//! Programs that go wrong, and the next packet.

use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_native::LoadedModule;
use std::path::Path;

const DROP: u32 = 1;
const PASS: u32 = 2;
/// Panics with a lock held.
const MANY: u64 = 20_000;

/// Checks all kinds of faults.
pub fn check(modules: &Path) {
    let file = std::fs::read(crate::path(modules, "faults")).expect("module");
    let module = LoadedModule::load("kara_karakoram_faults", &file, &[]).unwrap_or_else(|e| panic!("{e}"));
    let state = || module.state("fault").expect("state");
    let cases = [
        (1, "panic"),
        (2, "panic"),
        (3, "a loop took too long"),
        (4, "stack overflow"),
        (5, "panic"),
        (7, "panic"),
        (12, "a loop took too long"),
    ];
    for (n, (fault, what)) in cases.into_iter().enumerate() {
        assert_eq!(run(&module, fault), DROP, "fault {fault}");
        assert_eq!(state().panics, n as u64 + 1, "fault {fault}");
        let last = module.panics("fault").expect("log").pop().expect("logged");
        println!("{last:?}");
        assert_eq!(last.what, what, "fault {fault}: {last:?}");
        assert!(last.file.as_deref().is_some_and(is_fault_source), "fault {fault}: {last:?}");
        assert!(last.line > 0, "fault {fault}: {last:?}");
        // The lock is free, the next packet is processed.
        assert_eq!(run(&module, 0), PASS, "after fault {fault}");
    }
    assert_eq!(module.counters().expect("counters"), [("WELL".to_string(), cases.len() as u64)]);

    // A lock that is kept is taken back at the end of the run.
    assert_eq!(run(&module, 6), PASS);
    assert_eq!(state().leaked, 1);
    assert_eq!(run(&module, 0), PASS);

    // Locks come back in whatever order, after a panic and without one.
    let panics = state().panics;
    for (fault, verdict) in [(8, DROP), (11, PASS), (9, PASS), (11, PASS), (10, PASS), (11, PASS), (8, DROP), (9, PASS)]
    {
        assert_eq!(run(&module, fault), verdict, "fault {fault}: {:?}", module.panics("fault").expect("log").last());
    }
    assert_eq!((state().panics - panics, state().leaked), (2, 1));

    // A run in the middle of another one on the same CPU lets the packet go with its verdict, and does nothing else.
    let well = || module.counters().expect("counters")[0].1;
    let before = well();
    set_busy(true);
    assert_eq!(run(&module, 0), DROP);
    assert_eq!(run(&module, 5), DROP);
    assert_eq!((state().nested, state().panics, well()), (2, panics + 2, before));
    set_busy(false);
    assert_eq!(run(&module, 0), PASS);
    assert_eq!((state().nested, well()), (2, before + 1));

    // The lock comes back every time.
    let before = state().panics;
    let mut output = RunOutput::default();
    let input = RunInput { data: packet(5), repeat: MANY as u32, ..Default::default() };
    Runner::default().run(module.program("fault"), &input, &mut output).expect("runs");
    assert_eq!(output.retval, DROP);
    assert_eq!(state().panics - before, MANY, "each panicked, none waited for the lock");
    println!("a recovered panic takes {} ns, or instructions where they are counted", output.duration_ns);
    assert_eq!(run(&module, 0), PASS);
}

/// Has the module take itself for running already, on every CPU.
fn set_busy(busy: bool) {
    let parameter = "/sys/module/kara_karakoram_faults/parameters/busy";
    std::fs::write(parameter, if busy { "1" } else { "0" }).expect("a parameter");
}

/// Whether this is the source of the faulty programs, by its place in the workspace or in its package.
fn is_fault_source(file: &str) -> bool {
    file.contains("faults") && file.ends_with("/src/lib.rs")
}

fn packet(fault: u8) -> Vec<u8> {
    let mut data = vec![0; 60];
    data[0] = fault;
    data
}

/// Runs the program on a packet that asks for a fault; returns the verdict.
fn run(module: &LoadedModule, fault: u8) -> u32 {
    let mut output = RunOutput::default();
    let input = RunInput { data: packet(fault), repeat: 1, ..Default::default() };
    Runner::default().run(module.program("fault"), &input, &mut output).expect("a run");
    output.retval
}
