//! `bandwidth`: TCP throughput by iperf3 while a program that lets everything pass is attached (Table 2 of
//! "Demystifying Performance of eBPF Network Applications").

use crate::error::LabError;
use crate::hook::{self, AtHook, Hook, Place};
use crate::object::Loaded;
use crate::programs::{self, Build};
use crate::testbed::{Child, Namespace, Offload, Placement, Role, Testbed};
use crate::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use karakoram_kernel::attach;
use karakoram_kernel::map::Map;
use karakoram_kernel::sys::process::descriptor_of;
use serde::Deserialize;
use serde_json::Value;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The kind.
pub struct Bandwidth;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    hook: Hook,
    #[serde(default)]
    build: Build,
    #[serde(default = "threaded")]
    placement: Placement,
    /// Whether segments are handed on whole (TSO, GSO, GRO).
    #[serde(default)]
    offloads: bool,
    #[serde(default = "streams")]
    streams: usize,
    /// Seconds that are measured, after one that is not.
    #[serde(default = "seconds")]
    seconds: u32,
}

fn threaded() -> Placement {
    Placement::Threaded
}
fn streams() -> usize {
    8
}
fn seconds() -> u32 {
    2
}

const PORT: u16 = 5201;
/// Time the server may take to listen, and the client to connect.
const PATIENCE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(5);
/// What the verdict program may have seen less than was received: what came before it was in place.
const SEEN: f64 = 0.5;

impl Kind for Bandwidth {
    fn name(&self) -> &'static str {
        "bandwidth"
    }

    fn check_machine(&self) -> Result<(), LabError> {
        Command::new("iperf3").arg("-v").output().map(drop).map_err(|e| LabError::tool("iperf3", &e))
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        if plan.hook == Hook::SocketFilter || plan.streams == 0 {
            return Err(LabError::Request("`bandwidth` knows no socket filter, and needs a stream".into()));
        }
        let object = programs::build(workshop, "lab/hooks", plan.build)?;
        Ok(Box::new(Prepared { plan, object }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
}

impl Trial for Prepared {
    fn run(&mut self, _: &Request) -> Result<Outcome, LabError> {
        let bed = self.testbed()?;
        let passing = AtHook::load(&self.object, "pass", self.plan.hook)?;
        let program = passing.as_ref().map(AtHook::program);
        let on_device = program.filter(|_| self.plan.hook != Hook::SkSkb);
        let _attached = hook::attach(&bed, self.plan.hook, on_device, Place::default())?;
        bed.pin_receiver()?;
        let server = self.serve(&bed)?;
        let client = self.connect(&bed)?;
        let sockets = hook::sockets(self.plan.streams as u32)?;
        if let Some(program) = program.filter(|_| self.plan.hook == Hook::SkSkb) {
            attach::verdict(program, &sockets).map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
            self.insert_streams(server.id(), &sockets)?;
        }
        let time = Duration::from_secs(u64::from(self.plan.seconds)) + PATIENCE;
        let Some(said) = client.output_within(time)? else {
            return Ok(Outcome::voided("iperf3 did not come to an end: its streams stalled"));
        };
        drop(server);
        self.report(&bed, &said, passing.as_ref().map(|at| &at.loaded))
    }
}

impl Prepared {
    fn testbed(&self) -> Result<Testbed, LabError> {
        let bed = Testbed::build(self.plan.placement)?;
        if self.plan.offloads {
            for side in [&bed.generator, &bed.tested] {
                let switch = || Offload::ALL.iter().try_for_each(|offload| side.device.set_offload(*offload, true));
                side.namespace.run(switch)??;
            }
        }
        Ok(bed)
    }

    fn serve(&self, bed: &Testbed) -> Result<Child, LabError> {
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-p", &PORT.to_string()]);
        let server = Child::start(&mut command, &bed.tested.namespace, &[bed.placement.cpu(Role::Server)])?;
        let start = Instant::now();
        while !is_listening(&bed.tested.namespace)? {
            if start.elapsed() > PATIENCE {
                return Err(LabError::Machine("iperf3 does not listen".into(), String::new()));
            }
            std::thread::sleep(STEP);
        }
        Ok(server)
    }

    fn connect(&self, bed: &Testbed) -> Result<Child, LabError> {
        let plan = &self.plan;
        let mut command = Command::new("iperf3");
        command.args(["-c", &bed.tested.host.ip.to_string(), "-p", &PORT.to_string(), "-J", "-C", "cubic", "-O", "1"]);
        command.args(["-P", &plan.streams.to_string(), "-t", &plan.seconds.to_string()]);
        Child::start(&mut command, &bed.generator.namespace, &[bed.placement.cpu(Role::Generator)])
    }

    /// The server's streams, as soon as it has them all. The first connection is for control.
    fn insert_streams(&self, server: u32, sockets: &Map) -> Result<(), LabError> {
        let start = Instant::now();
        loop {
            let connected = connections(server);
            if connected.len() > self.plan.streams {
                for (key, socket) in connected[1..].iter().enumerate() {
                    attach::insert_socket(sockets, key as u32, socket.as_fd())
                        .map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
                }
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(LabError::Machine("iperf3 did not open its streams".into(), String::new()));
            }
            std::thread::sleep(STEP);
        }
    }

    fn report(&self, bed: &Testbed, said: &str, loaded: Option<&Loaded>) -> Result<Outcome, LabError> {
        let json: Value = serde_json::from_str(said)
            .map_err(|e| LabError::Machine(format!("iperf3 reports what is no JSON: {e}"), String::new()))?;
        let number = |path: &str| json.pointer(path).and_then(Value::as_f64);
        let Some(rate) = number("/end/sum_received/bits_per_second") else {
            return Ok(Outcome::voided(format!("iperf3 reports no throughput: {}", json["error"])));
        };
        let mut outcome = Outcome::default();
        outcome.samples.push(Samples::one("rate", "bit/s", rate));
        let again = number("/end/sum_sent/retransmits").unwrap_or(0.0);
        outcome.samples.push(Samples::one("retransmits", "segments", again));
        outcome.notes.insert("placement".into(), bed.placement.describe());
        if let Some(loaded) = loaded.filter(|_| self.plan.hook == Hook::SkSkb) {
            let mut seen = [0; 8];
            let read = loaded.mapping("seen")?.read(0, &mut seen);
            read.map_err(|e| LabError::Machine(e.to_string(), String::new()))?;
            let (seen, received) = (u64::from_ne_bytes(seen) as f64, number("/end/sum_received/bytes").unwrap_or(0.0));
            if seen < SEEN * received {
                outcome.void = Some(format!("the program saw {seen} of {received} bytes"));
            }
        }
        Ok(outcome)
    }
}

/// Whether something listens at iperf3's port.
fn is_listening(namespace: &Namespace) -> Result<bool, LabError> {
    let path = std::path::Path::new("/proc/thread-self/net/tcp");
    let list = namespace.run(|| std::fs::read_to_string(path))?.map_err(|e| LabError::file("read", path, &e))?;
    // iperf3 listens on IPv6 for both when there is IPv6.
    let list6 = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp6"))?.unwrap_or_default();
    let (port, state) = (format!(":{PORT:04X} "), " 0A ");
    Ok(list.lines().chain(list6.lines()).any(|line| line.contains(&port) && line.contains(state)))
}

/// Copies of the connected TCP sockets of a process, in the order of its descriptors.
fn connections(process: u32) -> Vec<OwnedFd> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let mut numbers: Vec<i32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let copies = numbers.into_iter().filter_map(|number| descriptor_of(process, number).ok());
    let connected = copies.map(TcpStream::from).filter(|socket| socket.peer_addr().is_ok_and(|a| a.port() != 0));
    connected.map(OwnedFd::from).collect()
}
