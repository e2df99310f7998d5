//! What the tests on the running kernel have in common.
#![allow(dead_code)]

use karakoram_lab::error::LabError;
use karakoram_lab::object::Loaded;
use karakoram_lab::testbed::{Namespace, Placement, Testbed};
use karakoram_lab::trial::{Parameters, Request, Workshop};
use karakoram_lab::trials;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// A testbed, or none, loudly, where this machine does not permit one.
pub fn testbed(placement: Placement) -> Option<Testbed> {
    if let Err(e) = Namespace::new() {
        eprintln!("SKIPPED: {e}");
        return None;
    }
    Some(Testbed::build(placement).unwrap_or_else(|e| panic!("{e}")))
}

/// Whether this process may load programs; says so loudly where not.
pub fn may_load() -> bool {
    let is_there = Namespace::new();
    if let Err(e) = &is_there {
        eprintln!("SKIPPED: {e}");
    }
    is_there.is_ok()
}

/// A workshop whose files are gone afterwards, and which optimizes nothing.
pub fn with_workshop<T>(work: impl FnOnce(&Workshop) -> T) -> T {
    let scratch = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let none = |_: &Path| Err(LabError::Request("nothing is optimized here".into()));
    work(&Workshop { programs: &programs, scratch: scratch.path(), optimize: &none })
}

/// Runs a trial until one is not void because the machine was busy, and looks whether it has these samples.
pub fn trial(kind: &str, parameters: &str, samples: &str) {
    const PATIENCE: usize = 20;
    with_workshop(|workshop| {
        let parameters = Parameters::parse(parameters).unwrap();
        let mut trial = trials::named(kind).unwrap().prepare(&parameters, workshop).unwrap_or_else(|e| panic!("{e}"));
        let request = Request { seed: 1, is_interrupted: &|| false };
        for _ in 0..PATIENCE {
            let outcome = trial.run(&request).unwrap_or_else(|e| panic!("{kind}: {e}"));
            match outcome.void {
                None => return assert!(outcome.named(samples).unwrap().count() > 0, "{kind}: nothing was measured"),
                Some(why) => eprintln!("{kind}: void: {why}"),
            }
        }
        panic!("{kind}: {PATIENCE} trials were void");
    });
}

/// The first number in the only value of a map.
pub fn number(loaded: &Loaded, map: &str) -> u64 {
    let value = loaded.map(map).unwrap().lookup(&0u32.to_ne_bytes()).unwrap().unwrap();
    u64::from_ne_bytes(value[..8].try_into().unwrap())
}

/// Threads of the kernel that receive for devices whose names begin so.
pub fn receivers_of(device: &str) -> usize {
    let wanted = format!("napi/{device}");
    let names = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| fs::read_to_string(e.path().join("comm")).ok());
    names.filter(|name| name.starts_with(&wanted)).count()
}

/// Waits, a few seconds at most: namespaces are taken down by the kernel at its leisure.
pub fn wait_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}
