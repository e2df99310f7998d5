//! `echo`: time from a request to its echo, with the echo at one of the hooks (Figure 3 of "Demystifying
//! Performance of eBPF Network Applications"). One client, one request under way.

use crate::error::LabError;
use crate::generator::{Dialogue, Exchange, Exchanged, Gaps, LiveGenerator, Load, Pace, Sent, Waiting, exchange};
use crate::hook::{self, AtHook, Hook, Place};
use crate::object::{self, Loaded};
use crate::packet::{PORT, SOURCE_PORT, STAMP_BYTES, stamped};
use crate::programs::{self, Build};
use crate::server;
use crate::sink::Sink;
use crate::testbed::{CONTROL_PRIORITY, Counters, Placed, Placement, Role, Testbed, WORK_PRIORITY, connected_udp};
use crate::trial::{Kind, Outcome, Parameters, Request, Samples, Trial, Workshop};
use karakoram_kernel::error::KernelError;
use karakoram_kernel::sys::af_xdp::PacketSocket;
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
    /// Other packets, for an application in user space to share its processor with.
    background: Option<Background>,
}

/// Packets that a program at XDP works on, and drops.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Background {
    /// Packets per second.
    rate: f64,
    /// Turns of the program's loop for each.
    work: u32,
}

/// Turns that the program can do.
const MOST_WORK: u32 = 4096;
/// The background lasts so much longer than what is measured.
const MARGIN_MS: u64 = 300;

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
        if plan.background.is_some_and(|b| !(1..=MOST_WORK).contains(&b.work))
            || (plan.background.is_some() && plan.hook != Hook::Socket)
        {
            return Err(LabError::Request(
                "`background` goes with `hook = \"socket\"`, and has 1 to 4096 turns of work".into(),
            ));
        }
        let object = programs::build(workshop, "lab/echo", plan.build)?;
        let burn = plan.background.map(|_| programs::build(workshop, "lab/burn", plan.build)).transpose()?;
        let generator = LiveGenerator::load(workshop)?;
        Ok(Box::new(Prepared { plan, object, burn, generator, sink: Sink::load(workshop)? }))
    }
}

struct Prepared {
    plan: Plan,
    object: PathBuf,
    burn: Option<PathBuf>,
    generator: LiveGenerator,
    sink: Sink,
}

impl Trial for Prepared {
    fn run(&mut self, request: &Request) -> Result<Outcome, LabError> {
        let bed = Testbed::build(self.plan.placement)?;
        let _near = self.sink.attach_open(&bed)?;
        let client_at = SocketAddrV4::new(bed.generator.host.ip, SOURCE_PORT);
        let server_at = SocketAddrV4::new(bed.tested.host.ip, PORT);
        let client = connected_udp(&bed.generator.namespace, client_at, server_at)?;
        let server = connected_udp(&bed.tested.namespace, server_at, client_at)?;
        let loaded = AtHook::load(&self.object, "echo", self.plan.hook)?;
        let place = match &loaded {
            Some(at) => Place { socket: Some(server.as_fd()), sockets: at.loaded.map("sockets").ok() },
            None => Place::default(),
        };
        let program = loaded.as_ref().map(AtHook::program);
        let _attached = hook::attach(&bed, self.plan.hook, program, place)?;
        let burn = self.burn.as_ref().map(|object| object::load(object, &["burn"])).transpose()?;
        let burn = burn.as_ref().map(|loaded| loaded.program("burn"));
        let _burning = hook::attach(&bed, Hook::Xdp, burn, Place::default())?;
        let frames = self.plan.hook == Hook::AfXdp;
        let frames = loaded.as_ref().filter(|_| frames).map(|at| open_frames(&bed, &at.loaded)).transpose()?;
        let (exchanged, beside) = self.converse(&bed, (&client, &server, frames), request.seed)?;
        let mut outcome = report(exchanged, &bed);
        if let Some(sent) = beside {
            note_background(&mut outcome, &sent, bed.tested.counters()?);
        }
        Ok(outcome)
    }
}

impl Prepared {
    fn converse(
        &self,
        bed: &Testbed,
        (client, server, frames): (&UdpSocket, &UdpSocket, Option<PacketSocket>),
        seed: u64,
    ) -> Result<(Exchanged, Option<Sent>), LabError> {
        let plan = &self.plan;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (cpu, is_over) = (bed.placement.cpu(Role::Server), &is_over);
            // Beside other packets, receiving comes before the application, as in an interrupt.
            let priority = if plan.background.is_some() { WORK_PRIORITY - 1 } else { WORK_PRIORITY };
            let serving = match (plan.hook, frames) {
                (Hook::Socket, _) => {
                    Some(scope.spawn(move || server::echo(server, (cpu, priority), is_over).map(drop)))
                }
                (_, Some(frames)) => Some(scope.spawn(move || server::echo_frames(frames, cpu, is_over))),
                _ => None,
            };
            let exchanged = match plan.background {
                None => ask(plan, bed, client, seed).map(|asked| (asked, None)),
                Some(background) => {
                    let duration = Duration::from_millis(plan.duration_ms + MARGIN_MS);
                    let load = Load {
                        gaps: Gaps::Poisson,
                        work: background.work,
                        ..Load::new(Some(background.rate), duration)
                    };
                    let done = self.generator.send_beside(bed, &load, || ask(plan, bed, client, seed));
                    done.map(|(sent, asked)| (asked, Some(sent)))
                }
            };
            is_over.store(true, Ordering::Relaxed);
            if let Some(serving) = serving {
                serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            exchanged
        })
    }
}

/// An AF_XDP socket that the program redirects to.
fn open_frames(bed: &Testbed, loaded: &Loaded) -> Result<PacketSocket, LabError> {
    let failed = |e: KernelError| LabError::Machine(e.to_string(), "AF_XDP needs CONFIG_XDP_SOCKETS".into());
    let device = bed.tested.device.index;
    let socket = bed.tested.namespace.run(|| PacketSocket::bind(device, 0))?.map_err(failed)?;
    loaded.map("applications")?.update_fd(&0u32.to_ne_bytes(), socket.as_fd()).map_err(failed)?;
    Ok(socket)
}

/// The client's part. Beside a generator on its CPU it goes first, and sleeps while it waits.
fn ask(plan: &Plan, bed: &Testbed, client: &UdpSocket, seed: u64) -> Result<Exchanged, LabError> {
    let priority = if plan.background.is_some() { CONTROL_PRIORITY } else { WORK_PRIORITY };
    let _placed = Placed::on(bed.placement.cpu(Role::Generator), priority)?;
    let think = if plan.background.is_some() { 0 } else { plan.think_us };
    let (pace, waiting) = match plan.rate {
        Some(rate) => (Pace::Open { rate, poisson: true }, Waiting::Awake),
        None => (Pace::Closed { outstanding: 1, think: Duration::from_micros(think) }, Waiting::Asleep),
    };
    let mut stamps = Stamps { bytes: plan.payload_bytes };
    hello(client, &mut stamps)?;
    let duration = Duration::from_millis(plan.duration_ms);
    exchange(client, Exchange { pace, waiting, duration, seed }, &mut stamps)
}

/// Asks until there is an answer: what is attached a moment ago may miss the first packets.
fn hello(client: &UdpSocket, stamps: &mut Stamps) -> Result<(), LabError> {
    const TRIES: usize = 5;
    let plan = Exchange {
        pace: Pace::Closed { outstanding: 1, think: Duration::ZERO },
        waiting: Waiting::Asleep,
        duration: Duration::from_millis(2),
        seed: 0,
    };
    for _ in 0..TRIES {
        let said = exchange(client, plan, stamps)?;
        if said.sent > 0 && said.lost == 0 {
            break;
        }
    }
    Ok(())
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

/// What became of the other packets; nothing may be concluded when they were late or did not get there.
fn note_background(outcome: &mut Outcome, sent: &Sent, tested: Counters) {
    outcome.notes.insert(
        "background".into(),
        format!("{:.0} packets/s, {} left out, {}; {tested:?}", sent.rate(), sent.missed, sent.lateness),
    );
    if !sent.is_punctual() {
        outcome.void.get_or_insert(format!("the generator was late: {}", sent.lateness));
    }
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
    if exchanged.response.is_empty() {
        return Some("no request after the warm-up was answered in time".into());
    }
    (!exchanged.lateness.is_within(LATE_NS)).then(|| format!("the client was late: {}", exchanged.lateness))
}
