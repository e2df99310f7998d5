//! Modules in a guest with Debian's kernel: every program of the corpus does to every packet what it does on
//! the host, and whatever goes wrong in one is contained, counted and reported with file and line.
//!
//! The guest runs this very executable, with `MODULES` naming the folder of the modules. `RUNS` is how many
//! packets each program of the corpus gets.

mod corpus;
mod faults;
mod hooks;
#[path = "../../../installer/tests/corpus/packets.rs"]
mod packets;

use karakoram_installer::InstallError;
use karakoram_lab::guest::{self, Job, Kernels};
use karakoram_native::{ModuleOptions, build};
use std::path::{Path, PathBuf};
use std::time::Duration;

const KERNEL: &str = "6.12";

#[test]
fn modules_in_a_guest() {
    if variable("MODULES").is_some() {
        return;
    }
    let Some(kernels) = kernels() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("folder");
    for name in ["corpus", "faults", "hooks"] {
        if !built(name, &kernels, &folder) {
            return;
        }
    }
    let runs = variable("RUNS").unwrap_or("200".into());
    let job = Job {
        files: vec![("modules".to_string(), folder)],
        programs: vec![("module".to_string(), std::env::current_exe().expect("this executable"))],
        time_limit: Duration::from_secs(1800),
        processors: 2,
        ..Job::new(format!(
            "MODULES=/job/modules RUNS={runs} module --nocapture --test-threads=1; E=$?; dmesg | grep kara_; exit $E"
        ))
    };
    let kernel = kernels.get(KERNEL, &[]).expect("it was here");
    let done = guest::run(&kernel, &job, &|| false).unwrap_or_else(|e| panic!("{e}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    println!("{stdout}{stderr}");
    assert_eq!(done.exit, 0, "in the guest");
    for wanted in ["fault: panic at ", "fault: stack overflow at ", "fault: a loop took too long at "] {
        assert!(stdout.lines().any(|l| l.contains("kara_karakoram_faults: ") && l.contains(wanted)), "{wanted}");
    }
}

#[test]
fn every_program_of_the_corpus_does_the_same_as_on_the_host() {
    if let Some(folder) = variable("MODULES") {
        corpus::compare(Path::new(&folder), runs());
    }
}

#[test]
fn what_only_hooks_have_is_as_on_the_host() {
    if let Some(folder) = variable("MODULES") {
        hooks::compare(Path::new(&folder), runs());
    }
}

#[test]
fn every_fault_is_contained_and_reported() {
    if let Some(folder) = variable("MODULES") {
        faults::check(Path::new(&folder));
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn runs() -> u64 {
    variable("RUNS").and_then(|n| n.parse().ok()).unwrap_or(200)
}

/// Kernels for guests, or why there are none here.
fn kernels() -> Option<Kernels> {
    let is_program = |name: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|p| p.join(name).is_file())
    };
    let missing = ["qemu-system-x86_64", "busybox", "gcc-12", "pahole"].into_iter().find(|name| !is_program(name));
    if let Some(name) = missing {
        eprintln!("SKIPPED: there is no {name} here; scripts/setup installs it");
        return None;
    }
    Some(Kernels::new(guest::default_cache()?))
}

/// Builds a crate of programs/extensions into the folder; false when this machine cannot.
fn built(name: &str, kernels: &Kernels, folder: &Path) -> bool {
    let headers = match kernels.headers(KERNEL) {
        Ok(headers) => headers,
        Err(e) => {
            eprintln!("SKIPPED: {e}");
            return false;
        }
    };
    let options = ModuleOptions {
        folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/extensions").join(name),
        target_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("extensions"),
        extension: None,
        features: Vec::new(),
        headers,
    };
    match build(&options) {
        Ok(module) => {
            std::fs::write(path(folder, name), module.module).expect("module");
            true
        }
        Err(InstallError::Machine(what, help)) => {
            eprintln!("SKIPPED: {what}; {help}");
            false
        }
        Err(e) => panic!("{name}: {e}"),
    }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.ko"))
}
