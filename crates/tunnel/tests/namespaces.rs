//! Kernel TCP between two namespaces, over a link that loses frames on purpose. Needs root; says so
//! loudly where it is not.

use karakoram_lab::testbed::{Namespace, Placement, Testbed};
use karakoram_link::config::Protection;
use karakoram_link::wire::Profile;
use karakoram_link::{LossTrace, Mode, Probability};
use karakoram_tunnel::{End, LossModel, Place, Settings, Status};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUND_TRIP_PS: u64 = 2_000_000_000;
const PORT: u16 = 7777;

fn settings(name: &str, line: &str, mode: Option<Mode>) -> Settings {
    Settings {
        inside: Place::Tap(name.into()),
        line: Place::Interface(line.into()),
        protection: mode.map(|mode| Protection { mode, copies: 2 }),
        profile: Profile::Native,
        rate_bits: Some(200_000_000),
        round_trip_ps: ROUND_TRIP_PS,
        loss: LossModel::None,
        delay_ps: 0,
        epoch: 1,
        queue_cells: 7000,
        window_frames: 4096,
    }
}

/// Two ends that run until this is dropped or asked for their figures.
struct Link<'a> {
    bed: &'a Testbed,
    stop: AtomicBool,
    folder: PathBuf,
}

impl<'a> Link<'a> {
    fn new(bed: &'a Testbed, name: &str) -> Link<'a> {
        let folder = std::env::temp_dir().join(format!("kara-link-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test");
        Link { bed, stop: AtomicBool::new(false), folder }
    }

    fn events(&self, side: usize) -> PathBuf {
        self.folder.join(format!("events-{side}"))
    }

    /// Runs both ends around some work; returns their figures.
    fn around(&self, ends: [Settings; 2], work: impl FnOnce()) -> [Status; 2] {
        let sides = [&self.bed.generator, &self.bed.tested];
        let started = Instant::now();
        std::thread::scope(|scope| {
            let [first, second] = ends;
            let running = [(0, first), (1, second)]
                .map(|(i, settings)| scope.spawn(move || self.run_end(i, &sides[i].namespace, settings)));
            sides.iter().enumerate().for_each(|(i, side)| self.configure(i, &side.namespace, started));
            // Also when the work fails: otherwise the ends would run on.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            self.stop.store(true, Ordering::Relaxed);
            let status = running.map(|r| r.join().expect("an end"));
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            status
        })
    }

    fn run_end(&self, i: usize, namespace: &Namespace, settings: Settings) -> Status {
        let file = fs::File::create(self.events(i)).expect("a file of events");
        let run = || {
            let mut end = End::open(settings).expect("an end");
            end.log_to(file);
            end.run(&self.stop).expect("a link that runs")
        };
        namespace.run(run).expect("a namespace")
    }

    /// Waits for the TAP device and gives it an address.
    fn configure(&self, i: usize, namespace: &Namespace, started: Instant) {
        let address = format!("10.9.0.{}/24", i + 1);
        let name = format!("kl{i}");
        let add = || Command::new("ip").args(["addr", "add", &address, "dev", &name]).output().expect("ip");
        namespace
            .run(|| {
                while !add().status.success() {
                    assert!(started.elapsed() < Duration::from_secs(10), "{name} does not come up");
                    std::thread::sleep(Duration::from_millis(20));
                }
            })
            .expect("a namespace");
    }

    /// Bytes from one host to the other, the receiver in the tested namespace. They must arrive as
    /// they were sent.
    fn transfer(&self, bytes: usize) {
        let listener = self.bed.tested.namespace.run(|| TcpListener::bind(("10.9.0.2", PORT)));
        let listener = listener.expect("a namespace").expect("a listening socket");
        std::thread::scope(|scope| {
            let received = scope.spawn(move || {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut all = Vec::new();
                stream.read_to_end(&mut all).expect("the data");
                all
            });
            let connect = || TcpStream::connect(("10.9.0.2", PORT));
            let mut stream = self.bed.generator.namespace.run(connect).expect("a namespace").expect("a connection");
            let sent: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
            stream.write_all(&sent).expect("the data is taken");
            drop(stream);
            assert!(received.join().expect("a receiver") == sent, "what arrives is not what was sent");
        });
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn testbed() -> Option<Testbed> {
    match Testbed::build(Placement::Inline) {
        Ok(bed) => Some(bed),
        Err(e) => {
            eprintln!("\n##### NOT CHECKED: the real link needs namespaces and TAP: {e}\n");
            None
        }
    }
}

/// A counter of the kernel's TCP in a namespace.
fn counter(namespace: &Namespace, name: &str) -> u64 {
    let read = |file| fs::read_to_string(Path::new("/proc/thread-self/net").join(file)).expect("counters");
    let text = namespace.run(|| read("snmp") + &read("netstat")).expect("a namespace");
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks(2).flat_map(|c| c[0].split_whitespace().zip(c.get(1).unwrap_or(&"").split_whitespace()));
    pairs.filter(|(n, _)| *n == name).find_map(|(_, v)| v.parse().ok()).expect("a counter of that name")
}

fn lossy(rate: Probability, settings: Settings) -> Settings {
    Settings { loss: LossModel::Random { rate, seed: 5 }, ..settings }
}

#[test]
fn tcp_sees_no_loss_over_a_protected_link() {
    let Some(bed) = testbed() else { return };
    let (near, far) = (bed.generator.device.name.clone(), bed.tested.device.name.clone());
    let link = Link::new(&bed, "ordered");
    let ends = [settings("kl0", &near, Some(Mode::Ordered)), settings("kl1", &far, Some(Mode::Ordered))];
    let ends = ends.map(|s| lossy(Probability::of(1, 100), s));
    let [sender, receiver] = link.around(ends, || link.transfer(8 << 20));
    assert!(sender.get("link.lost_on_purpose") > Some(20), "{sender:?}");
    assert!(receiver.get("receiver.recovered_frames") > Some(20), "{receiver:?}");
    assert_eq!(receiver.get("receiver.skipped_frames"), Some(0), "{receiver:?}");
    assert_eq!(counter(&bed.generator.namespace, "RetransSegs"), 0);
    assert_eq!(counter(&bed.tested.namespace, "RetransSegs"), 0);
}

#[test]
fn tcp_mends_what_an_unprotected_link_loses() {
    let Some(bed) = testbed() else { return };
    let (near, far) = (bed.generator.device.name.clone(), bed.tested.device.name.clone());
    let link = Link::new(&bed, "off");
    let ends = [lossy(Probability::of(1, 200), settings("kl0", &near, None)), settings("kl1", &far, None)];
    link.around(ends, || link.transfer(2 << 20));
    assert!(counter(&bed.generator.namespace, "RetransSegs") > 0);
}

#[test]
fn frames_of_a_trace_are_lost_and_recovered() {
    let Some(bed) = testbed() else { return };
    let (near, far) = (bed.generator.device.name.clone(), bed.tested.device.name.clone());
    let link = Link::new(&bed, "trace");
    let trace = LossTrace::parse("100\n200 0 1\n300\n301\n302\n").expect("a trace");
    let ends = [
        Settings { loss: LossModel::Trace(trace), ..settings("kl0", &near, Some(Mode::Ordered)) },
        settings("kl1", &far, Some(Mode::Ordered)),
    ];
    link.around(ends, || link.transfer(2 << 20));
    let far_events = fs::read_to_string(link.events(1)).expect("events");
    let lines = |kind: &str| -> Vec<String> {
        let events = far_events.lines().filter_map(|l| l.split_once(' ').map(|(_, event)| event.to_string()));
        events.filter(|e| e.starts_with(kind)).collect()
    };
    assert_eq!(lines("lost"), ["lost 100 count 1", "lost 200 count 1", "lost 300 count 3"]);
    assert_eq!(lines("skipped"), [""; 0]);
    let delivered = lines("delivered");
    let expected: Vec<String> = (0..delivered.len()).map(|i| format!("delivered {i}")).collect();
    assert_eq!(delivered, expected);
}
