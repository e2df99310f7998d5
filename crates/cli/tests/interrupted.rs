//! Ctrl-C ends what has nothing to finish with at the first time, however long a solver still thinks.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the solver thinks, and how long nobody has to wait then.
const THINKS_SECONDS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_check_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (asked, solver) = (folder.path().join("asked"), folder.path().join("solver"));
    let script = format!(
        "#!/bin/sh\ntest \"$1\" = --version && exit\ntouch {}\ncat >/dev/null\nexec sleep {THINKS_SECONDS}\n",
        asked.display()
    );
    std::fs::write(&solver, script).unwrap();
    std::fs::set_permissions(&solver, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (before, after) = (folder.path().join("before.s"), folder.path().join("after.s"));
    let given = ".hook buffer=64\nr0 = *(u64 *)(r1 + 0)\nr2 = *(u64 *)(r1 + 8)\n";
    std::fs::write(&before, format!("{given}r0 += r2\nr0 -= r2\nr0 *= 6\nexit\n")).unwrap();
    std::fs::write(&after, format!("{given}r0 *= 3\nr0 <<= 1\nexit\n")).unwrap();
    let mut check = Command::new(env!("CARGO_BIN_EXE_kara"))
        .args([Path::new("check"), &before, &after, Path::new("--solver"), &solver])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !asked.exists() {
        assert!(check.try_wait().unwrap().is_none(), "the solver was never asked");
        assert!(start.elapsed() < PATIENCE, "the solver was not asked");
        std::thread::sleep(Duration::from_millis(20));
    }
    let start = Instant::now();
    kill(Pid::from_raw(check.id() as i32), Signal::SIGINT).unwrap();
    let status = loop {
        if let Some(status) = check.try_wait().unwrap() {
            break status;
        }
        assert!(start.elapsed() < PATIENCE, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(130));
}
