//! Programs of control groups, at tracepoints and at the processors' clocks, attached to what this test does itself.

use karakoram_events::firewall;
use karakoram_extension::{CgroupVerdict, TcpEvent, testing};
use karakoram_installer::{BuildOptions, InstallError, Installed, build};
use karakoram_kernel::attach::{self, Attachment, Direction, SocketHook};
use karakoram_kernel::run::{RunInput, RunOutput, Runner};
use karakoram_translator::launder::Launder;
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Folders in which control groups of the second version are mounted.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

fn object() -> PathBuf {
    static OBJECT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let build_object = || {
        let options = BuildOptions {
            folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/extensions/events"),
            target_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("events"),
            extension: None,
            features: Vec::new(),
            launder: Launder::default(),
            translation: Default::default(),
        };
        let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("events.o");
        std::fs::write(&path, build(&options).unwrap_or_else(|e| panic!("{e}")).object).expect("object");
        path
    };
    OBJECT.get_or_init(build_object).clone()
}

fn loaded(program: &str) -> Option<Installed> {
    match Installed::load(&object(), &[program]) {
        Ok(installed) => Some(installed),
        Err(InstallError::Machine(what, _)) => {
            eprintln!("SKIPPED: {what}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn counter(installed: &Installed, name: &str) -> u64 {
    installed.counters().into_iter().find(|(n, _)| n == name).map(|(_, value)| value).expect("a counter")
}

/// An IPv4 datagram.
fn datagram(port: u16, payload: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28 + payload as u8, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1, 1, 2];
    packet.extend(port.to_be_bytes());
    packet.extend([0, 8 + payload as u8, 0, 0]);
    packet.resize(28 + payload, 7);
    packet
}

#[test]
fn a_control_group_does_what_it_does_on_the_host() {
    let Some(installed) = loaded("firewall") else { return };
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    for (port, payload) in [(53, 20), (9000, 9), (9001, 20), (8080, 1), (65535, 0), (8, 30)] {
        let packet = datagram(port, payload);
        // The kernel's test takes a frame and hands on what is behind its header.
        let frame = [&[0; 12][..], &[8, 0], &packet].concat();
        let input = RunInput { data: frame, repeat: 1, ..Default::default() };
        runner.run(installed.program("firewall"), &input, &mut output).expect("a run");
        assert_eq!(output.retval, testing::cgroup(firewall, &packet) as u32, "port {port}");
    }
    assert_eq!((counter(&installed, "PASSED"), counter(&installed, "DROPPED")), (4, 2));
}

#[test]
fn programs_of_other_hooks_beside_it_have_their_own_verdicts() {
    const XDP_PASS: u32 = 2;
    const XDP_TX: u32 = 3;
    let Some(installed) = loaded("ports") else { return };
    let (mut runner, mut output) = (Runner::default(), RunOutput::default());
    for (port, verdict) in [(7, XDP_TX), (100, XDP_PASS)] {
        let input = RunInput { data: [&[0, port][..], &[0; 58]].concat(), repeat: 1, ..Default::default() };
        runner.run(installed.program("ports"), &input, &mut output).expect("a run");
        assert_eq!(output.retval, verdict, "port {port}");
    }
    assert_eq!(installed.state("ports").panics, 1, "one index was out of bounds");
}

#[test]
fn packets_of_a_control_group_are_filtered_and_panics_contained() {
    let Some(installed) = loaded("firewall") else { return };
    with_group(move |folder| filtered(&installed, folder));
}

/// Sends from a process in the group: to a port that is let through, one that is not, and one that panics.
fn filtered(installed: &Installed, folder: &Path) {
    let group = File::open(folder).expect("a folder");
    let attached = attach::cgroup(installed.program("firewall"), group.as_fd(), Direction::Egress);
    let attached = attached.unwrap_or_else(|e| panic!("{e}"));
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    receiver.set_nonblocking(true).expect("a socket");
    let port = receiver.local_addr().expect("a port").port();
    let send = |port: u16| {
        let script = format!("echo $$ > {}/cgroup.procs; echo hello > /dev/udp/127.0.0.1/{port}", folder.display());
        let done = Command::new("bash").args(["-c", &script]).output().expect("bash");
        String::from_utf8_lossy(&done.stderr).contains("not permitted")
    };
    assert!(!send(8999), "a port that is let through");
    assert!(send(9001), "a port that is not");
    assert!(send(7), "a panic drops");
    assert_eq!(send(port), port > 9000);
    let mut buffer = [0; 16];
    assert_eq!(receiver.recv(&mut buffer).ok(), (port <= 9000).then_some(6));
    let state = installed.state("firewall");
    assert_eq!((state.panics, state.nested, state.leaked), (1, 0, 0));
    let panic = installed.panics("firewall").pop().expect("logged");
    assert!(panic.file.is_some_and(|f| f.ends_with("events/src/lib.rs")) && panic.line > 0);
    drop(attached);
    assert!(!send(9001), "nothing is attached any more");
    assert_eq!(counter(installed, "DROPPED"), 1 + u64::from(port > 9000));
}

#[test]
fn a_tracepoint_sees_what_threads_are_renamed_to() {
    let Some(installed) = loaded("renamed") else { return };
    let rename = |name: &str| {
        let name = name.to_string();
        let named = std::thread::spawn(move || std::fs::write("/proc/thread-self/comm", name).expect("a name"));
        named.join().expect("renamed");
    };
    let attached = match attach::tracepoint(installed.program("renamed")) {
        Ok(attached) => attached,
        Err(e) => {
            eprintln!("SKIPPED: {e}");
            return;
        }
    };
    let names = || installed.maps().into_iter().flat_map(|m| m.entries).map(|(_, name)| name).collect::<Vec<_>>();
    rename("kara-one");
    assert_eq!(counter(&installed, "RENAMED"), 1);
    assert!(names().iter().any(|name| name.starts_with("6b6172612d6f6e6500")), "{:?}", names());
    rename("kara-panic");
    rename("other");
    rename("kara-two");
    assert_eq!((counter(&installed, "RENAMED"), names().len()), (3, 2));
    assert_eq!(installed.state("renamed").panics, 1);
    let panic = installed.panics("renamed").pop().expect("logged");
    assert!(panic.file.is_some_and(|f| f.ends_with("events/src/lib.rs")) && panic.line > 0);
    drop(attached);
    rename("kara-three");
    assert_eq!(counter(&installed, "RENAMED"), 3, "nothing is attached any more");
}

#[test]
fn a_tracepoint_on_the_host() {
    use karakoram_extension::Address;
    testing::set_kernel_memory(Address(0x1000), b"kara-host\0......");
    testing::tracepoint(|event| karakoram_events::renamed(event, Address(1), Address(0x1000)));
    testing::tracepoint(|event| karakoram_events::renamed(event, Address(1), Address(0x2000)));
    assert_eq!(karakoram_events::RENAMED.get(), 1);
}

/// A control group of its own, as long as it is used; `None` where there can be none.
fn with_group(use_it: impl FnOnce(&Path) + std::panic::UnwindSafe) {
    let hierarchy = HIERARCHIES.iter().find(|h| Path::new(h).join("cgroup.procs").exists());
    let Some(hierarchy) = hierarchy.filter(|_| Path::new("/bin/bash").exists()) else {
        eprintln!("SKIPPED: there are no control groups of the second version here");
        return;
    };
    static GROUPS: AtomicU32 = AtomicU32::new(0);
    let number = GROUPS.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(hierarchy).join(format!("kara-test-{}-{number}", std::process::id()));
    if let Err(e) = std::fs::create_dir(&folder) {
        eprintln!("SKIPPED: {}: {e}", folder.display());
        return;
    }
    let result = std::panic::catch_unwind(|| use_it(&folder));
    std::fs::remove_dir(&folder).expect("nobody is in it any more");
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn attached(installed: &Installed, program: &str, folder: &Path, hook: SocketHook) -> Attachment {
    let group = File::open(folder).expect("a folder");
    attach::cgroup_sockets(installed.program(program), group.as_fd(), hook).unwrap_or_else(|e| panic!("{e}"))
}

/// Whether a process in the group succeeds with this.
fn succeeds(folder: &Path, script: &str) -> bool {
    let script = format!("echo $$ > {}/cgroup.procs; {script}", folder.display());
    let done = Command::new("bash").args(["-c", &script]).output().expect("bash");
    done.status.success()
}

#[test]
fn sockets_of_a_control_group_are_redirected_and_refused() {
    let Some(installed) = loaded("services") else { return };
    with_group(move |folder| {
        let receiver = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let port = receiver.local_addr().expect("an address").port();
        let connect = |address: &str, port: u16| succeeds(folder, &format!("echo x > /dev/tcp/{address}/{port}"));
        let _attached = attached(&installed, "services", folder, SocketHook::Connect4);
        assert!(connect("127.0.0.1", port));
        assert_eq!(counter(&installed, "REDIRECTED"), 0);
        // Nobody listens there, but where it is sent.
        assert!(connect("127.0.0.8", port));
        assert_eq!(counter(&installed, "REDIRECTED"), 1);
        assert!(!connect("127.0.0.9", port), "refused");
        assert!(!connect("127.0.0.8", 7), "a panic refuses");
        assert_eq!(installed.state("services").panics, 1);
        assert!(connect("127.0.0.8", port), "the lock is free");
        assert_eq!(installed.state("services"), karakoram_installer::State { panics: 1, nested: 0, leaked: 0 });
    });
}

#[test]
fn the_same_for_ipv6() {
    let Some(installed) = loaded("services6") else { return };
    with_group(move |folder| {
        let Ok(receiver) = TcpListener::bind("[::1]:0") else {
            eprintln!("SKIPPED: there is no IPv6 here");
            return;
        };
        let port = receiver.local_addr().expect("an address").port();
        let connect = |address: &str| succeeds(folder, &format!("echo x > /dev/tcp/{address}/{port}"));
        let _attached = attached(&installed, "services6", folder, SocketHook::Connect6);
        assert!(connect("::8"));
        assert!(connect("::1"));
        assert!(!connect("::9"));
        assert_eq!(counter(&installed, "REDIRECTED"), 1);
    });
}

#[test]
fn connections_of_a_control_group_are_seen() {
    let Some(installed) = loaded("connections") else { return };
    with_group(move |folder| {
        let receiver = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let port = receiver.local_addr().expect("an address").port();
        let _attached = attached(&installed, "connections", folder, SocketHook::SockOps);
        assert!(succeeds(folder, &format!("echo x > /dev/tcp/127.0.0.1/{port}")));
        assert_eq!(counter(&installed, "CONNECTIONS"), 1);
        succeeds(folder, "echo x > /dev/tcp/127.0.0.1/7");
        assert_eq!(installed.state("connections").panics, 1);
        assert!(succeeds(folder, &format!("echo x > /dev/tcp/127.0.0.1/{port}")));
        assert_eq!(counter(&installed, "CONNECTIONS"), 2);
    });
}

#[test]
fn options_of_sockets_are_refused() {
    let Some((marks, peers)) = loaded("marks").zip(loaded("peers")) else { return };
    if !succeeds(Path::new("/nowhere"), "command -v python3") {
        eprintln!("SKIPPED: there is no python3 here, which sets options of sockets");
        return;
    }
    with_group(move |folder| {
        let python =
            |text: &str| succeeds(folder, &format!("python3 -c 'import socket; s = socket.socketpair()[0]; {text}'"));
        let (set, get) = ("s.setsockopt(1, 36, 5)", "s.getsockopt(1, 17, 12)");
        assert!(python(set) && python(get), "nothing is attached");
        let first = attached(&marks, "marks", folder, SocketHook::Setsockopt);
        assert!(!python(set) && python(get) && python("s.setsockopt(1, 2, 1)"));
        let _second = attached(&peers, "peers", folder, SocketHook::Getsockopt);
        assert!(!python(get));
        drop(first);
        assert!(python(set) && !python(get));
    });
}

#[test]
fn processors_are_sampled() {
    let Some(installed) = loaded("sampled") else { return };
    let clocks = match attach::clocks(installed.program("sampled"), 999) {
        Ok(clocks) => clocks,
        Err(e) => return eprintln!("SKIPPED: {e}"),
    };
    let started = Instant::now();
    while installed.state("sampled").panics < 2 && started.elapsed() < Duration::from_secs(20) {
        std::hint::spin_loop();
    }
    drop(clocks);
    let samples = counter(&installed, "SAMPLES");
    assert!(samples >= 128, "{samples} samples");
    assert_eq!(installed.state("sampled").panics, samples / 64, "every 64th panics, with a lock held");
}

#[test]
fn sockets_on_the_host() {
    use karakoram_events::{CONNECTIONS, connections, marks, services, services6};
    let local = ([127, 0, 0, 1], 4000);
    testing::connection(connections, TcpEvent::Accepted, local, ([10, 0, 0, 1], 5000));
    testing::connection(connections, TcpEvent::Other(9), local, ([10, 0, 0, 1], 5000));
    assert_eq!(CONNECTIONS.get(), 1);
    // The port of what was accepted last stands for port 80.
    assert_eq!(testing::connect4(services, ([127, 0, 0, 8], 80), 6), (CgroupVerdict::Pass, local));
    let other = ([10, 0, 0, 1], 80);
    assert_eq!(testing::connect4(services, other, 6), (CgroupVerdict::Pass, other));
    assert_eq!(testing::connect4(services, ([127, 0, 0, 9], 80), 6).0, CgroupVerdict::Drop);
    let six = |last: u8| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    assert_eq!(testing::connect6(services6, (six(8), 9), 6), (CgroupVerdict::Pass, (six(1), 9)));
    assert_eq!(testing::socket_option(marks, (1, 36, 4)), CgroupVerdict::Drop);
    assert_eq!(testing::socket_option(marks, (1, 2, 4)), CgroupVerdict::Pass);
    testing::perf_event(karakoram_events::sampled, 0x1234, 1000);
    assert_eq!(karakoram_events::SAMPLES.get(), 1);
}
