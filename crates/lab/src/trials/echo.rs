//! `echo`: time from a request to its echo, with the echo at one of the hooks (Figure 3 of "Demystifying
//! Performance of eBPF Network Applications"). One client, one request under way.

use crate::error::LabError;
use crate::generator::{Dialogue, Exchange, Exchanged, Pace, Waiting, exchange};
use crate::hook::{self, Hook, Place};
use crate::object::{self, Loaded};
use crate::packet::{PORT, SOURCE_PORT, STAMP_BYTES, stamped};
use crate::programs::{self, Build};
use crate::server;
use crate::sink::Sink;
use crate::testbed::{Placed, Placement, Role, Testbed, WORK_PRIORITY, connected_udp};
use crate::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use serde::Deserialize;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The kind.
pub struct Echo;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Plan {
    hook: Hook,
    #[serde(default)]
    build: Build,
    #[serde(default = "inline")]
    placement: Placement,
    /// Bytes of the payload, at least 16.
    #[serde(default = "payload")]
    payload_bytes: usize,
    /// Requests per second of an open loop; without it the loop is closed.
    rate: Option<f64>,
    /// Time between a reply and the next request of a closed loop.
    #[serde(default = "think")]
    think_us: u64,
    #[serde(default = "duration")]
    duration_ms: u64,
}

fn inline() -> Placement {
    Placement::Inline
}
fn payload() -> usize {
    STAMP_BYTES
}
fn think() -> u64 {
    10
}
fn duration() -> u64 {
    500
}

impl Kind for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn prepare(&self, parameters: &Parameters, workshop: &Workshop) -> Result<Box<dyn Trial>, LabError> {
        let plan: Plan = parameters.read()?;
        let object = programs::build(workshop, "lab/echo", plan.build)?;
        Ok(Box::new(Prepared { plan, object, sink: Sink::load(workshop)? }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
    sink: Sink,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        if (request.is_interrupted)() {
            return Err(LabError::Interrupted);
        }
        let bed = Testbed::build(self.plan.placement)?;
        let _near = self.sink.attach_open(&bed)?;
        let client_at = SocketAddrV4::new(bed.generator.host.ip, SOURCE_PORT);
        let server_at = SocketAddrV4::new(bed.tested.host.ip, PORT);
        let client = connected_udp(&bed.generator.namespace, client_at, server_at)?;
        let server = connected_udp(&bed.tested.namespace, server_at, client_at)?;
        let loaded = self.load()?;
        let place = match &loaded {
            Some((loaded, _)) => Place { socket: Some(server.as_fd()), sockets: loaded.map("sockets").ok() },
            None => Place::default(),
        };
        let program = loaded.as_ref().map(|(loaded, name)| loaded.program(name));
        let _attached = hook::attach(&bed, self.plan.hook, program, place)?;
        let exchanged = self.converse(&bed, &client, &server, request.seed)?;
        Ok(report(exchanged, &bed))
    }
}

impl Prepared {
    fn load(&self) -> Result<Option<(Loaded, String)>, LabError> {
        let Some(ending) = self.plan.hook.ending() else { return Ok(None) };
        let name = format!("echo_{ending}");
        Ok(Some((object::load(&self.object, &[&name])?, name)))
    }

    fn converse(
        &self,
        bed: &Testbed,
        client: &UdpSocket,
        server: &UdpSocket,
        seed: u64,
    ) -> Result<Exchanged, LabError> {
        let plan = &self.plan;
        let (pace, waiting) = match plan.rate {
            Some(rate) => (Pace::Open { rate, poisson: true }, Waiting::Awake),
            None => {
                let think = Duration::from_micros(plan.think_us);
                (Pace::Closed { outstanding: 1, think }, Waiting::Asleep)
            }
        };
        let duration = Duration::from_millis(plan.duration_ms);
        let mut stamps = Stamps { bytes: plan.payload_bytes };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serving = (plan.hook == Hook::Socket)
                .then(|| scope.spawn(|| server::echo(server, bed.placement.cpu(Role::Server), &is_over)));
            let exchanged = {
                let _placed = Placed::on(bed.placement.cpu(Role::Generator), WORK_PRIORITY);
                exchange(client, Exchange { pace, waiting, duration, seed }, &mut stamps)
            };
            is_over.store(true, Ordering::Relaxed);
            if let Some(serving) = serving {
                serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            exchanged
        })
    }
}

/// Requests with numbers; the echo must be the same bytes.
struct Stamps {
    bytes: usize,
}

impl Dialogue for Stamps {
    fn ask(&mut self, number: u16, request: &mut Vec<u8>) {
        request.extend(stamped(u32::from(number), u64::from(number), self.bytes));
    }

    fn check(&mut self, reply: &[u8]) -> Result<u16, String> {
        if reply.len() != self.bytes {
            return Err(format!("an echo of {} bytes, {} were sent", reply.len(), self.bytes));
        }
        let number = u16::from_ne_bytes(reply[8..10].try_into().expect("two bytes"));
        match reply == stamped(u32::from(number), u64::from(number), self.bytes) {
            true => Ok(number),
            false => Err("an echo with other bytes".into()),
        }
    }
}

fn report(exchanged: Exchanged, bed: &Testbed) -> Outcome {
    let mut outcome = Outcome { void: fault(&exchanged), ..Outcome::default() };
    outcome.notes.insert("placement".into(), bed.placement.describe());
    outcome.notes.insert("lateness".into(), exchanged.lateness.to_string());
    outcome.samples.push(Samples::many("rtt", "ns", exchanged.response));
    outcome.samples.push(Samples::many("service", "ns", exchanged.service));
    outcome
}

/// Why nothing may be concluded from an exchange.
pub(super) fn fault(exchanged: &Exchanged) -> Option<String> {
    /// 99.9 % of the requests must be sent within that time.
    const LATE_NS: u64 = 1 << 17;
    if let Some(wrong) = &exchanged.wrong {
        return Some(wrong.clone());
    }
    if exchanged.lost > 0 || exchanged.sent == 0 {
        return Some(format!("{} of {} requests got no reply", exchanged.lost, exchanged.sent));
    }
    (!exchanged.lateness.is_within(LATE_NS)).then(|| format!("the client was late: {}", exchanged.lateness))
}
