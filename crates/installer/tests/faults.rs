//! Whatever goes wrong in a program is contained, counted and reported with file and line, and the next
//! packet is processed.

use karakoram_installer::{BuildOptions, Installed, build};
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_translator::launder::Launder;
use std::path::{Path, PathBuf};

const DROP: u32 = 1;
const PASS: u32 = 2;
/// Panics of the lock test; `FAULTS=1000000` for the long one.
const MANY: u64 = 20_000;

fn loaded() -> Option<Installed> {
    let options = BuildOptions {
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/extensions/faults"),
        target_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults"),
        extension: None,
        features: Vec::new(),
        launder: Launder::default(),
        translation: Default::default(),
    };
    let built = build(&options).unwrap_or_else(|e| panic!("{e}"));
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults.o");
    std::fs::write(&path, &built.object).expect("object");
    match Installed::load(&path, &[]) {
        Ok(installed) => Some(installed),
        Err(e) if e.to_string().contains("not permitted") => {
            eprintln!("SKIPPED: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Runs the program on a packet that asks for a fault; returns the verdict.
fn run(installed: &Installed, fault: u8) -> u32 {
    let mut data = vec![0; 60];
    data[0] = fault;
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    let input = RunInput { data, repeat: 1, ..Default::default() };
    runner.run(installed.program("fault"), &input, &mut output).expect("a run");
    output.retval
}

#[test]
fn every_fault_is_contained_and_reported() {
    let Some(installed) = loaded() else { return };
    let cases = [
        (1, "panic", "faults/src/lib.rs"),
        (2, "panic", "faults/src/lib.rs"),
        (3, "a loop took too long", "faults/src/lib.rs"),
        (4, "stack overflow", "faults/src/lib.rs"),
        (5, "panic", "faults/src/lib.rs"),
        (7, "panic", "faults/src/lib.rs"),
        (12, "a loop took too long", "faults/src/lib.rs"),
    ];
    for (n, (fault, what, file)) in cases.into_iter().enumerate() {
        assert_eq!(run(&installed, fault), DROP, "fault {fault}");
        assert_eq!(installed.state("fault").panics, n as u64 + 1, "fault {fault}");
        let last = installed.panics("fault").pop().expect("logged");
        assert_eq!(last.what, what, "fault {fault}: {last:?}");
        assert!(last.file.as_deref().is_some_and(|f| f.contains(file)), "fault {fault}: {last:?}");
        assert!(last.file.as_deref().is_some_and(|f| !f.starts_with('/')), "fault {fault}: {last:?}");
        assert!(last.line > 0, "fault {fault}: {last:?}");
        // The lock is free, the next packet is processed.
        assert_eq!(run(&installed, 0), PASS, "after fault {fault}");
    }
    assert_eq!(installed.counters(), [("WELL".to_string(), cases.len() as u64)]);

    // A lock that is kept is taken back at the end of the run.
    assert_eq!(run(&installed, 6), PASS);
    assert_eq!(installed.state("fault").leaked, 1);
    assert_eq!(run(&installed, 0), PASS);

    // Locks come back in whatever order, after a panic and without one.
    for (fault, verdict) in [(8, DROP), (11, PASS), (9, PASS), (11, PASS), (10, PASS), (11, PASS), (8, DROP), (9, PASS)]
    {
        let before = installed.state("fault").panics;
        assert_eq!(run(&installed, fault), verdict, "fault {fault}: {:?}", installed.panics("fault").last());
        assert_eq!(installed.state("fault").panics - before, u64::from(verdict == DROP), "fault {fault}");
    }
    assert_eq!(installed.state("fault").leaked, 1);

    // A program that is interrupted by itself lets the packet go with its verdict.
    installed.set_busy("fault", true);
    assert_eq!(run(&installed, 0), DROP);
    assert_eq!(installed.state("fault").nested, 1);
    installed.set_busy("fault", false);
    assert_eq!(run(&installed, 0), PASS);

    // The lock comes back every time.
    let many = std::env::var("FAULTS").ok().and_then(|n| n.parse().ok()).unwrap_or(MANY);
    let mut data = vec![0; 60];
    data[0] = 5;
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    let before = installed.state("fault").panics;
    let input = RunInput { data, repeat: many as u32, ..Default::default() };
    runner.run(installed.program("fault"), &input, &mut output).expect("runs");
    assert_eq!(output.retval, DROP);
    assert_eq!(installed.state("fault").panics - before, many, "each panicked, none waited for the lock");
    assert_eq!(installed.panics("fault").last().map(|p| p.what.as_str()), Some("panic"));
    println!("a recovered panic takes {} ns", output.duration_ns);
    assert_eq!(run(&installed, 0), PASS);
}
