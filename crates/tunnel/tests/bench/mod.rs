//! Two namespaces with an end of a link in each, and something to send over it.
#![allow(dead_code)] // Each test uses its part.

use karakoram_lab::testbed::{Namespace, Placement, Testbed};
use karakoram_link::Mode;
use karakoram_link::config::Protection;
use karakoram_link::monitor::MonitorConfig;
use karakoram_link::wire::Profile;
use karakoram_tunnel::{End, LossModel, Place, Settings, Status, read_status};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUND_TRIP_PS: u64 = 4_000_000_000;
const PORT: u16 = 7777;

pub fn settings(name: &str, line: &str, mode: Option<Mode>) -> Settings {
    Settings {
        inside: Place::Tap(name.into()),
        line: Place::Interface(line.into()),
        protection: mode.map(|mode| Protection { mode, copies: 2 }),
        on_demand: None,
        monitor: MonitorConfig::prototype(),
        profile: Profile::Native,
        rate_bits: Some(200_000_000),
        round_trip_ps: ROUND_TRIP_PS,
        loss: LossModel::None,
        delay_ps: 0,
        epoch: 1,
        queue_cells: 7000,
        mark_cells: None,
        window_frames: 4096,
    }
}

/// Two ends that run until this is dropped or asked for their figures.
pub struct Link<'a> {
    bed: &'a Testbed,
    stop: AtomicBool,
    folder: PathBuf,
    knows_neighbours: bool,
}

impl<'a> Link<'a> {
    pub fn new(bed: &'a Testbed, name: &str) -> Link<'a> {
        let folder = std::env::temp_dir().join(format!("kara-link-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test");
        Link { bed, stop: AtomicBool::new(false), folder, knows_neighbours: false }
    }

    /// Hosts need not ask for each other's address.
    pub fn knowing_neighbours(mut self) -> Link<'a> {
        self.knows_neighbours = true;
        self
    }

    pub fn events(&self, side: usize) -> PathBuf {
        self.folder.join(format!("events-{side}"))
    }

    fn socket(&self, side: usize) -> PathBuf {
        self.folder.join(format!("socket-{side}"))
    }

    /// Waits until an end has counted so many.
    fn wait_for(&self, side: usize, name: &str, least: u64) {
        let start = Instant::now();
        let figure = || read_status(&self.socket(side)).ok().and_then(|s| s.get(name));
        while figure() < Some(least) {
            assert!(start.elapsed() < Duration::from_secs(30), "end {side}: {name} stays {:?}", figure());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs both ends around some work; returns their figures.
    pub fn around(&self, ends: [Settings; 2], work: impl FnOnce()) -> [Status; 2] {
        let sides = [&self.bed.generator, &self.bed.tested];
        let started = Instant::now();
        let is_protected = ends.each_ref().map(|s| s.protection.is_some());
        std::thread::scope(|scope| {
            let [first, second] = ends;
            let running = [(0, first), (1, second)]
                .map(|(i, settings)| scope.spawn(move || self.run_end(i, &sides[i].namespace, settings)));
            // Also when something fails: otherwise the ends would run on.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                sides.iter().enumerate().for_each(|(i, side)| self.configure(i, &side.namespace, started));
                let protected = (0..2).filter(|side| is_protected[*side]);
                protected.for_each(|side| self.wait_for(side, "link.is_protecting", 1));
                work();
            }));
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
            end.listen(&self.socket(i)).expect("a socket");
            end.run(&self.stop).expect("a link that runs")
        };
        namespace.run(run).expect("a namespace")
    }

    /// Waits for the TAP device and gives it an address.
    fn configure(&self, i: usize, namespace: &Namespace, started: Instant) {
        let (address, name) = (format!("10.9.0.{}/24", i + 1), format!("kl{i}"));
        let ip = |words: &str| Command::new("ip").args(words.split(' ')).output().expect("ip").status.success();
        let set_up = || {
            // More than this under way would overflow the kernel's queues: congestion, which is no matter of ours.
            // And no probes when an acknowledgement is a few milliseconds late: the machine may be busy.
            let limits = "4096 131072 400000";
            for (name, value) in [("tcp_rmem", limits), ("tcp_wmem", limits), ("tcp_early_retrans", "0")] {
                fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("a setting");
            }
            while !ip(&format!("addr add {address} dev {name}")) {
                assert!(started.elapsed() < Duration::from_secs(10), "{name} does not come up");
                std::thread::sleep(Duration::from_millis(20));
            }
            if self.knows_neighbours {
                assert!(ip(&format!("link set {name} address 02:00:00:00:09:0{}", i + 1)));
                let peer = 2 - i;
                assert!(ip(&format!("neigh add 10.9.0.{peer} lladdr 02:00:00:00:09:0{peer} dev {name}")));
            }
        };
        namespace.run(set_up).expect("a namespace");
    }

    /// Datagrams from one host to the other, at least one frame for each.
    pub fn datagrams(&self, count: usize) {
        let open = || UdpSocket::bind("10.9.0.1:0");
        let socket = self.bed.generator.namespace.run(open).expect("a namespace").expect("a socket");
        for i in 0..count {
            socket.send_to(&[i as u8; 1000], ("10.9.0.2", PORT)).expect("a datagram is taken");
            if i % 20 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.wait_for(1, "link.to_inside", count as u64);
    }

    /// Bytes from one host to the other, the receiver in the tested namespace. They must arrive as
    /// they were sent.
    pub fn transfer(&self, bytes: usize) {
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

pub fn testbed() -> Option<Testbed> {
    match Testbed::build(Placement::Inline) {
        Ok(bed) => Some(bed),
        Err(e) => {
            eprintln!("\n##### NOT CHECKED: the real link needs namespaces and TAP: {e}\n");
            None
        }
    }
}
