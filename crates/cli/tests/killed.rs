//! `kara lab run`, ended at any moment by any signal, leaves nothing behind: no device (the kernel's threads that
//! receive for them tell), no namespace with a name, no mount, nothing pinned, no process, no changed setting.

use karakoram_lab::random::Random;
use karakoram_lab::testbed::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is run: servers of others, queueing disciplines, live frames; over and over until it is killed.
const EXPERIMENTS: [(&str, &str); 3] = [
    ("memcached", "kind = 'keyvalue'\nparameters = { front = { receive = 'answer', send = 'learn' }, try-ms = 10 }"),
    ("echo", "kind = 'echo'\nparameters = { hook = 'tc' }"),
    ("rate", "kind = 'rate'\nparameters = { program = 'lab/hooks', entry = 'drop_xdp', way = 'drop' }"),
];
/// Settings of the machine that the lab could touch, and folders of such.
const SETTINGS: [&str; 5] = [
    "/proc/sys/kernel/bpf_stats_enabled",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/net/core",
    "/proc/sys/net/ipv4",
    "/proc/sys/net/ipv6/conf/all",
];
/// Time in which the kernel takes everything back.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_lab_killed_at_any_moment_leaves_nothing() {
    if let Err(e) = Namespace::new() {
        eprintln!("*** SKIPPED: {e} ***");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    EXPERIMENTS.iter().for_each(|(name, text)| define(folder.path(), name, text));
    let mut random = Random::new(u64::from(std::process::id()));
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL];
    for round in 0..10 {
        let (name, _) = EXPERIMENTS[round % EXPERIMENTS.len()];
        let before = Traces::now();
        let mut lab = start(folder.path(), name);
        // The two seconds in which it looks at the machine are of no interest.
        std::thread::sleep(Duration::from_millis(2000 + random.below(2500)));
        let id = lab.id();
        let started = children(id);
        let signal = signals[round % signals.len()];
        assert!(lab.try_wait().unwrap().is_none(), "{name} was to run until it is killed");
        kill(Pid::from_raw(id as i32), signal).unwrap();
        wait(&mut lab, &format!("{name} does not end after {signal}"));
        let start = Instant::now();
        while Traces::now() != before || receivers(id) > 0 || started.iter().any(|child| is_there(*child)) {
            let left = format!("{} receivers, {started:?}, {:#?} and before {before:#?}", receivers(id), Traces::now());
            assert!(start.elapsed() < PATIENCE, "{name}, {signal}: {left}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn define(folder: &Path, name: &str, text: &str) {
    let common = "title = 'killed'\nrounds = 1000\n[[variant]]\nname = 'one'\n[[metric]]\nname = 'rate'\ntitle = 'rate'\n\
                  samples = 'rate'\nbetter = 'higher'\n";
    fs::create_dir_all(folder.join("experiments").join(name)).unwrap();
    let (head, tables) = common.split_once("[[variant]]").unwrap();
    let whole = format!("{head}{text}\n[[variant]]{tables}");
    fs::write(folder.join("experiments").join(name).join("experiment.toml"), whole).unwrap();
    // Programs are looked for beside the experiments.
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs").canonicalize().unwrap();
    let link = folder.join("programs");
    if !link.exists() {
        std::os::unix::fs::symlink(programs, link).unwrap();
    }
}

fn start(folder: &Path, name: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_kara"))
        .args(["lab", "run", name, "--experiments"])
        .arg(folder.join("experiments"))
        .arg("--output")
        .arg(folder.join("out"))
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait(child: &mut Child, otherwise: &str) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "{otherwise}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a lab could leave.
#[derive(PartialEq, Eq, Debug)]
struct Traces {
    /// Namespaces with names.
    namespaces: BTreeSet<String>,
    /// Mounts, and with them file systems where something could be pinned.
    mounts: String,
    /// What is pinned.
    pinned: BTreeSet<String>,
    /// Devices of the machine's own namespace.
    devices: BTreeSet<String>,
    /// Settings with their values.
    settings: BTreeMap<String, String>,
}

impl Traces {
    fn now() -> Traces {
        let mut settings = BTreeMap::new();
        SETTINGS.iter().for_each(|path| read(Path::new(path), &mut settings));
        Traces {
            namespaces: names("/run/netns"),
            mounts: fs::read_to_string("/proc/self/mounts").unwrap(),
            pinned: names("/sys/fs/bpf"),
            devices: names("/sys/class/net"),
            settings,
        }
    }
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

fn read(path: &Path, settings: &mut BTreeMap<String, String>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        return entries.filter(|e| e.path().is_file()).for_each(|e| read(&e.path(), settings));
    }
    if let Ok(value) = fs::read_to_string(path) {
        settings.insert(path.display().to_string(), value);
    }
}

/// Programs that this process has started.
fn children(of: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    let parent = |id: &u32| {
        let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        line.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
    };
    numbers.filter(|id| parent(id) == Some(of)).collect()
}

/// Threads of the kernel that receive for devices of this process.
fn receivers(of: u32) -> usize {
    let wanted = format!("napi/kr{:06x}", of & 0xff_ffff);
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|e| fs::read_to_string(e.path().join("comm")).ok()).filter(|name| name.starts_with(&wanted)).count()
}

fn is_there(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}
