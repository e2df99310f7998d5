//! A process that is ended at any moment leaves nothing behind: no device, no namespace, no thread of the
//! kernel that receives, no child.

mod support;

use karakoram_lab::generator::{LiveGenerator, Load};
use karakoram_lab::hook::{self, Hook, Place};
use karakoram_lab::object;
use karakoram_lab::programs::{self, Build};
use karakoram_lab::random::Random;
use karakoram_lab::testbed::{Child, Namespace, Placement};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::with_workshop;

const VICTIM: &str = "KARA_TEST_VICTIM";
/// An argument by which children are recognized.
const CHILD: &str = "86399";

/// What is killed: builds and uses testbeds until then. Does nothing unless the test below starts it.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    with_workshop(|workshop| {
        let generator = LiveGenerator::load(workshop).unwrap();
        let drop =
            object::load(&programs::build(workshop, "lab/hooks", Build::Original).unwrap(), &["drop_xdp"]).unwrap();
        loop {
            let bed = support::testbed(Placement::Threaded).unwrap();
            let mut sleep = Command::new("sleep");
            let _child = Child::start(sleep.arg(CHILD), &bed.tested.namespace, &[]).unwrap();
            let _attached = hook::attach(&bed, Hook::Xdp, Some(drop.program("drop_xdp")), Place::default()).unwrap();
            generator.send(&bed, &Load::new(Some(10_000.0), Duration::from_millis(200))).unwrap();
        }
    });
}

#[test]
fn a_process_killed_at_any_moment_leaves_nothing() {
    if let Err(e) = Namespace::new() {
        eprintln!("SKIPPED: {e}");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random::new(u64::from(std::process::id()));
    for round in 0..10 {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--nocapture"])
            .env(VICTIM, "1")
            .env("TMPDIR", scratch.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let id = process.id();
        // Compiling the programs takes the first tenths of a second.
        std::thread::sleep(Duration::from_millis(random.below(900)));
        let signal = if round % 2 == 0 { Signal::SIGKILL } else { Signal::SIGTERM };
        kill(Pid::from_raw(id as i32), signal).unwrap();
        assert!(!process.wait().unwrap().success(), "it should have run until it was killed");
        let devices = format!("kr{:06x}", id & 0xff_ffff);
        support::wait_until(|| support::receivers_of(&devices) == 0);
        support::wait_until(|| sleepers() == 0);
    }
}

fn sleepers() -> usize {
    let lines = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| fs::read(e.path().join("cmdline")).ok());
    lines.filter(|line| line.starts_with(b"sleep") && line.windows(CHILD.len()).any(|w| w == CHILD.as_bytes())).count()
}
